import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { ConfigError, fullName, kekSources, loadConfig, variables, type Config } from '../src/config.ts'

const KEK = Buffer.alloc(32, 7).toString('base64')

/** The least that production needs. */
const production = {
  STREAMING_HUB_ENV: 'production',
  STREAMING_HUB_POSTGRES_DSN: 'postgres://hub:hunter2@db.example/hub?sslmode=verify-full',
  STREAMING_HUB_KAFKA_BROKERS: 'kafka-1.example:9093,kafka-2.example:9093',
  STREAMING_HUB_KAFKA_TLS_ENABLED: 'true',
  STREAMING_HUB_KEK_REF: 'HUB_KEK',
  HUB_KEK: KEK,
  STREAMING_HUB_AUTH_JWKS_URL: 'https://id.example/keys',
  STREAMING_HUB_AUTH_ISSUER: 'https://id.example',
  STREAMING_HUB_AUTH_AUDIENCE: 'streaming-hub',
}

function faultsOf(env: Record<string, string | undefined>): ConfigError {
  try {
    loadConfig(env)
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error
  }
  return assert.fail('the configuration was taken')
}

/** The variables that a configuration is refused for. */
const refused = (env: Record<string, string | undefined>) => faultsOf(env).faults.map(({ variable }) => variable)

const read = <T>(name: string, value: string, pick: (config: Config) => T) => pick(loadConfig({ [name]: value }))
const authority = (pem: string) =>
  loadConfig({ STREAMING_HUB_KAFKA_TLS_ENABLED: 'true', STREAMING_HUB_KAFKA_CA_CERT: pem }).kafka.caCert
const listen = (value: string) => read('STREAMING_HUB_HTTP_LISTEN_ADDR', value, ({ http }) => [http.host, http.port])
const interval = (value: string) => read('STREAMING_HUB_RECONCILER_INTERVAL', value, (c) => c.reconciler.intervalMs)
const connections = (role: string) => read('STREAMING_HUB_ROLE', role, ({ postgres }) => postgres.maxConnections)
const limits = (env: Record<string, string>) => loadConfig({ ...production, ...env }).rateLimits
const redis = (env: Record<string, string>) => loadConfig({ STREAMING_HUB_REDIS_ADDRESS: '[::1]:6379', ...env }).redis
const proxies = (value: string) => read('STREAMING_HUB_TRUSTED_PROXIES', value, ({ http }) => http.trustedProxies)

describe('without any variable', () => {
  const config = loadConfig({})

  it('the hub is local: loopback, embedded database, development broker, generated key', () => {
    assert.equal(config.env, 'local')
    assert.deepEqual(config.http, { host: '127.0.0.1', port: 8080, docsEnabled: true, trustedProxies: [] })
    assert.equal(config.postgres.dsn, null)
    assert.equal(config.kafka.brokers, null)
    assert.equal(config.kafka.devBrokerPort, 19092)
    assert.deepEqual(config.kek, { kind: 'generated' })
  })

  it('the numbers are those of the deployment charts', () => {
    assert.deepEqual(config.dispatch, { workers: 8, claimBatch: 16, idleIntervalMs: 250, poisonThreshold: 5 })
    assert.deepEqual(config.autodisable, { enabled: true, failureWindowMs: 432_000_000, failureSpreadMs: 43_200_000 })
    assert.deepEqual(config.pull, { perSecond: 100, burst: 200 })
    assert.equal(config.reconciler.intervalMs, 300_000)
    assert.equal(config.deadLetters.retentionMs, 168 * 3_600_000)
    assert.deepEqual(config.shutdown, { timeoutMs: 30_000, preStopDrainMs: 5000 })
  })

  it('nothing in it can be changed', () => {
    assert.throws(() => Object.assign(config.dispatch, { workers: 9 }), TypeError)
    assert.throws(() => Object.assign(config, { env: 'production' }), TypeError)
  })

  it('an empty variable counts as one that is not set', () => {
    assert.deepEqual(
      loadConfig({ STREAMING_HUB_ROLE: '', STREAMING_HUB_KAFKA_BROKERS: '', STREAMING_HUB_KEK_REF: '' }),
      config,
    )
  })
})

describe('values', () => {
  it('addresses: all interfaces, one host, IPv6', () => {
    assert.deepEqual(listen(':9000'), ['0.0.0.0', 9000])
    assert.deepEqual(listen('10.0.0.1:0'), ['10.0.0.1', 0])
    assert.deepEqual(listen('[::1]:8080'), ['::1', 8080])
  })

  it('lists of brokers, with spaces', () => {
    assert.deepEqual(
      read('STREAMING_HUB_KAFKA_BROKERS', 'a:9092, [::1]:9093', ({ kafka }) => kafka.brokers),
      ['a:9092', '[::1]:9093'],
    )
  })

  it('the authority of the brokers, as text with its lines, however they are written', () => {
    const pem = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'
    assert.equal(authority(pem), pem)
    assert.equal(authority(pem.replaceAll('\n', '\\n')), pem)
  })

  it('logins to the brokers: by password with each mechanism, or by token', () => {
    const [username, password] = ['hub', 'secret']
    for (const mechanism of ['SCRAM-SHA-256', 'SCRAM-SHA-512', 'PLAIN']) {
      const { sasl, oauth } = loadConfig({
        STREAMING_HUB_KAFKA_SCRAM_MECHANISM: mechanism,
        STREAMING_HUB_KAFKA_SCRAM_USERNAME: username,
        STREAMING_HUB_KAFKA_SCRAM_PASSWORD: password,
      }).kafka
      assert.deepEqual({ sasl, oauth }, { sasl: { mechanism, username, password }, oauth: null })
    }
    const { sasl, oauth } = loadConfig({
      STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL: 'https://id.example/token',
      STREAMING_HUB_KAFKA_OAUTH_CLIENT_ID: 'hub',
      STREAMING_HUB_KAFKA_OAUTH_CLIENT_SECRET: 'secret',
    }).kafka
    const expected = { tokenUrl: 'https://id.example/token', clientId: 'hub', clientSecret: 'secret', scope: null }
    assert.deepEqual({ sasl, oauth }, { sasl: null, oauth: expected })
  })

  it('intervals that the charts give in seconds are also taken as durations', () => {
    assert.equal(interval('60'), 60_000)
    assert.equal(interval('5m'), 300_000)
  })

  it('connections by role', () => {
    assert.deepEqual(['all', 'ingest', 'delivery'].map(connections), [25, 8, 16])
  })

  const malformed: [string, string][] = [
    ['STREAMING_HUB_ENV', 'prod'],
    ['STREAMING_HUB_ROLE', 'ALL'],
    ['STREAMING_HUB_HTTP_LISTEN_ADDR', '8080'],
    ['STREAMING_HUB_HTTP_LISTEN_ADDR', ':65536'],
    ['STREAMING_HUB_SHUTDOWN_TIMEOUT', '30'],
    ['STREAMING_HUB_SHUTDOWN_TIMEOUT', '11m'],
    ['STREAMING_HUB_DISPATCH_WORKERS', '0'],
    ['STREAMING_HUB_DISPATCH_WORKERS', '8.5'],
    ['STREAMING_HUB_DISPATCH_WORKERS', '1e2'],
    ['STREAMING_HUB_METRICS_ENABLED', 'yes'],
    ['STREAMING_HUB_KAFKA_BROKERS', 'a:9092,'],
    ['STREAMING_HUB_KAFKA_BROKERS', ':9092'],
    ['STREAMING_HUB_KAFKA_GROUP', 'a group'],
    ['STREAMING_HUB_KAFKA_SCRAM_MECHANISM', 'OAUTHBEARER'],
    ['STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL', 'id.example/token'],
    ['STREAMING_HUB_POSTGRES_DSN', 'mysql://db/hub'],
    ['STREAMING_HUB_TENANT_ID', ' padded'],
    ['STREAMING_HUB_DEV_KEK', 'c2hvcnQ='],
    ['PLUGIN_AUTH_ENABLED', '1'],
  ]
  for (const [name, value] of malformed)
    it(`${name}=${value} is refused`, () => assert.deepEqual(refused({ [name]: value }), [name]))
})

describe('one message', () => {
  it('lists every fault: what was found and what is expected', () => {
    const { message } = faultsOf({
      STREAMING_HUB_ROLE: 'worker',
      STREAMING_HUB_DISPATCH_WORKERS: 'many',
      STREAMING_HUB_DISPATCH_WORKER: '4',
      PLUGIN_AUTH_ENABLE: 'true',
    })
    assert.equal(
      message,
      [
        'The configuration has 4 faults:',
        '  STREAMING_HUB_ROLE is "worker": expected all, ingest or delivery',
        '  STREAMING_HUB_DISPATCH_WORKERS is "many": expected a whole number from 1 to 256',
        '  STREAMING_HUB_DISPATCH_WORKER is not a variable of the hub',
        '  PLUGIN_AUTH_ENABLE is not a variable of the hub',
      ].join('\n'),
    )
  })

  it('never holds a secret', () => {
    const secrets = { dsn: 'mysql://hub:hunter2@db/hub', kek: 'bm90IGxvbmcgZW5vdWdo', password: 'hunter3\n' }
    const { message, faults } = faultsOf({
      STREAMING_HUB_POSTGRES_DSN: secrets.dsn,
      STREAMING_HUB_DEV_KEK: secrets.kek,
      STREAMING_HUB_KAFKA_SCRAM_PASSWORD: secrets.password,
    })
    assert.equal(faults.length, 3)
    for (const secret of ['hunter2', secrets.kek, 'hunter3']) assert.ok(!message.includes(secret), message)
  })

  it('names a faulty variable once, although rules over it cannot be checked', () => {
    assert.deepEqual(refused({ ...production, STREAMING_HUB_POSTGRES_DSN: 'db' }), ['STREAMING_HUB_POSTGRES_DSN'])
  })

  it("takes manifests' addresses in their order, each once, without anything secret in them", () => {
    const given = { STREAMING_HUB_MANIFEST_URLS: 'http://b/m.json, https://a/?x=1,http://b/m.json' }
    assert.deepEqual(loadConfig(given).manifests.urls, ['http://b/m.json', 'https://a/?x=1'])
    for (const wrong of ['https://user@a/', 'https://u:p@a/', 'https://a/#x', 'ftp://a/', 'a', 'https://a/,', ' '])
      assert.deepEqual(refused({ STREAMING_HUB_MANIFEST_URLS: wrong }), ['STREAMING_HUB_MANIFEST_URLS'], wrong)
    assert.deepEqual(refused({ ...production, STREAMING_HUB_MANIFEST_URLS: 'http://a/' }), [
      'STREAMING_HUB_MANIFEST_URLS',
    ])
  })

  it('leaves the variables of others alone', () => {
    loadConfig({ PATH: '/bin', HOME: '/home/somebody', OTEL_SERVICE_NAME: 'hub', STREAMING: 'x' })
  })
})

describe('local mode', () => {
  it('is open as long as no other way to authenticate than API keys is configured, and nowhere else', () => {
    const jwks = {
      STREAMING_HUB_AUTH_JWKS_URL: 'http://id.example/keys',
      STREAMING_HUB_AUTH_ISSUER: 'https://id.example',
      STREAMING_HUB_AUTH_AUDIENCE: 'hub',
    }
    const plugin = { PLUGIN_AUTH_ENABLED: 'true', PLUGIN_AUTH_ADDRESS: 'http://auth.example' }
    assert.equal(loadConfig({}).auth.open, true)
    for (const env of [jwks, plugin, { ...jwks, ...plugin }, production]) assert.equal(loadConfig(env).auth.open, false)
    const { STREAMING_HUB_AUTH_JWKS_URL: _, ...keysAlone } = production
    assert.deepEqual(loadConfig(keysAlone).auth, { open: false, plugin: null, jwt: null })
  })
})

describe('production', () => {
  it('starts with a database, brokers, a key and a way to authenticate', () => {
    const config = loadConfig(production)
    assert.deepEqual(config.http, { host: '0.0.0.0', port: 8080, docsEnabled: false, trustedProxies: [] })
    assert.deepEqual(config.kek, { kind: 'env', value: KEK })
    assert.deepEqual(config.auth.jwt, {
      jwksUrl: 'https://id.example/keys',
      issuer: 'https://id.example',
      audience: 'streaming-hub',
      tenantClaim: 'tenant_id',
    })
  })

  it('lacks all of them when nothing else is set', () => {
    assert.deepEqual(refused({ STREAMING_HUB_ENV: 'production' }), [
      'STREAMING_HUB_KEK_REF',
      'STREAMING_HUB_POSTGRES_DSN',
      'STREAMING_HUB_KAFKA_BROKERS',
    ])
  })

  it('needs no brokers in the delivery role', () => {
    const { STREAMING_HUB_KAFKA_BROKERS: _, ...rest } = production
    assert.equal(loadConfig({ ...rest, STREAMING_HUB_ROLE: 'delivery' }).kafka.brokers, null)
    assert.deepEqual(refused({ ...rest, STREAMING_HUB_ROLE: 'ingest' }), ['STREAMING_HUB_KAFKA_BROKERS'])
  })

  const insecure: [string, Record<string, string>, string][] = [
    ['private sinks', { STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true' }, 'STREAMING_HUB_ALLOW_PRIVATE_SINKS'],
    [
      'the waiver of TLS to the database',
      { STREAMING_HUB_ALLOW_INSECURE_DB_TLS: 'true' },
      'STREAMING_HUB_ALLOW_INSECURE_DB_TLS',
    ],
    [
      'the waiver of TLS to Kafka',
      { STREAMING_HUB_ALLOW_INSECURE_KAFKA: 'true' },
      'STREAMING_HUB_ALLOW_INSECURE_KAFKA',
    ],
    [
      'a database without TLS',
      { STREAMING_HUB_POSTGRES_DSN: 'postgres://db.example/hub' },
      'STREAMING_HUB_POSTGRES_DSN',
    ],
    [
      'tokens for Kafka over http',
      {
        STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL: 'http://id.example/token',
        STREAMING_HUB_KAFKA_OAUTH_CLIENT_ID: 'hub',
        STREAMING_HUB_KAFKA_OAUTH_CLIENT_SECRET: 'secret',
      },
      'STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL',
    ],
    ['Kafka without TLS', { STREAMING_HUB_KAFKA_TLS_ENABLED: 'false' }, 'STREAMING_HUB_KAFKA_TLS_ENABLED'],
    ['keys of a JWT over http', { STREAMING_HUB_AUTH_JWKS_URL: 'http://id.example' }, 'STREAMING_HUB_AUTH_JWKS_URL'],
    ['requests without limits', { STREAMING_HUB_RATE_LIMIT_ENABLED: 'false' }, 'STREAMING_HUB_RATE_LIMIT_ENABLED'],
    [
      'Redis without TLS',
      { STREAMING_HUB_REDIS_ADDRESS: 'redis.example:6379', STREAMING_HUB_REDIS_TLS: 'false' },
      'STREAMING_HUB_REDIS_TLS',
    ],
    ['the local key', { STREAMING_HUB_DEV_KEK: KEK }, 'STREAMING_HUB_DEV_KEK'],
    ['a key that is too short', { HUB_KEK: 'c2hvcnQ=' }, 'STREAMING_HUB_KEK_REF'],
  ]
  for (const [what, change, variable] of insecure)
    it(`refuses ${what}`, () => assert.deepEqual(refused({ ...production, ...change }), [variable]))

  it('takes plain connections that do not leave the machine', () => {
    loadConfig({
      ...production,
      STREAMING_HUB_POSTGRES_DSN: 'postgres://[::1]/hub',
      STREAMING_HUB_KAFKA_BROKERS: 'localhost:9092,127.0.0.1:9093',
      STREAMING_HUB_KAFKA_TLS_ENABLED: 'false',
    })
  })
})

describe('staging', () => {
  const staging = { ...production, STREAMING_HUB_ENV: 'staging' }

  it('may waive TLS, and allow private sinks', () => {
    const plain = { STREAMING_HUB_POSTGRES_DSN: 'postgres://db/hub', STREAMING_HUB_KAFKA_TLS_ENABLED: 'false' }
    assert.deepEqual(refused({ ...staging, ...plain }), [
      'STREAMING_HUB_POSTGRES_DSN',
      'STREAMING_HUB_KAFKA_TLS_ENABLED',
    ])
    const waived = { STREAMING_HUB_ALLOW_INSECURE_DB_TLS: 'true', STREAMING_HUB_ALLOW_INSECURE_KAFKA: 'true' }
    loadConfig({ ...staging, ...plain, ...waived, STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true' })
  })
})

describe('rate limits', () => {
  it('have the numbers of the deployment charts, and are out of the way in local', () => {
    const minute = { windowMs: 60_000 }
    const { tiers, failedAuth, failOpen } = limits({})
    assert.deepEqual(tiers, {
      default: { max: 500, ...minute },
      aggressive: { max: 100, ...minute },
      relaxed: { max: 1000, ...minute },
    })
    assert.deepEqual([failedAuth, failOpen], [{ max: 30, ...minute }, false])
    assert.deepEqual(loadConfig({}).rateLimits.tiers?.aggressive, { max: 100_000, ...minute })
    assert.equal(loadConfig({ STREAMING_HUB_AGGRESSIVE_RATE_LIMIT_MAX: '7' }).rateLimits.tiers?.aggressive.max, 7)
  })

  it('are read as the charts of the platform name them too; the hub’s own names come first', () => {
    const shared = { RATE_LIMIT_MAX: '5', AGGRESSIVE_RATE_LIMIT_WINDOW_SEC: '10', ALLOW_RATELIMIT_FAIL_OPEN: 'true' }
    const { tiers, failOpen } = limits(shared)
    assert.deepEqual([tiers?.default.max, tiers?.aggressive.windowMs, failOpen], [5, 10_000, true])
    assert.equal(limits({ ...shared, STREAMING_HUB_RATE_LIMIT_MAX: '6' }).tiers?.default.max, 6)
    assert.deepEqual(refused({ RELAXED_RATE_LIMIT_MAX: 'many' }), ['STREAMING_HUB_RELAXED_RATE_LIMIT_MAX'])
  })

  it('can be switched off in local, and elsewhere where that is allowed', () => {
    const off = { STREAMING_HUB_RATE_LIMIT_ENABLED: 'false' }
    assert.equal(loadConfig(off).rateLimits.tiers, null)
    assert.equal(limits({ ...off, STREAMING_HUB_ALLOW_RATELIMIT_DISABLED: 'true' }).tiers, null)
  })

  it('are shared by Redis, with TLS outside local', () => {
    const none = { password: null, caCert: null, timeoutMs: 500 }
    assert.deepEqual(redis({}), { host: '::1', port: 6379, tls: false, ...none })
    assert.equal(redis(production)?.tls, true)
    assert.equal(redis({ ...production, STREAMING_HUB_REDIS_TLS: 'false' })?.tls, false)
    const pem = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'
    const inBase64 = { STREAMING_HUB_REDIS_CA_CERT: Buffer.from(pem).toString('base64') }
    assert.equal(redis({ ...production, ...inBase64 })?.caCert, pem)
    assert.equal(loadConfig({ STREAMING_HUB_REDIS_TLS: 'true' }).redis, null)
  })

  it('know callers behind proxies by addresses and networks', () => {
    assert.deepEqual(proxies('10.0.0.0/8, ::1,fd00::/8'), ['10.0.0.0/8', '::1', 'fd00::/8'])
    for (const value of ['10.0.0.0/33', '10.0.0', 'fd00::/129', '10.0.0.0/8/9', 'proxy', '10.0.0.1/', '1.2.3.4/x'])
      assert.deepEqual(refused({ STREAMING_HUB_TRUSTED_PROXIES: value }), ['STREAMING_HUB_TRUSTED_PROXIES'], value)
  })
})

describe('variables that need each other', () => {
  const cases: [string, Record<string, string>, string][] = [
    [
      'a spread beyond the window',
      { STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW: '6h' },
      'STREAMING_HUB_AUTODISABLE_FAILURE_SPREAD',
    ],
    [
      'retention without a horizon',
      { STREAMING_HUB_PARTITION_RETENTION_ENABLED: 'true' },
      'STREAMING_HUB_PARTITION_RETENTION_HORIZON',
    ],
    [
      'fewer connections than its parts',
      { STREAMING_HUB_POSTGRES_MAX_OPEN_CONNS: '4' },
      'STREAMING_HUB_POSTGRES_MAX_OPEN_CONNS',
    ],
    ['a drain as long as the stop', { STREAMING_HUB_SHUTDOWN_TIMEOUT: '5s' }, 'STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT'],
    ['one group for both consumers', { STREAMING_HUB_DLQ_GROUP: 'streaming-hub' }, 'STREAMING_HUB_DLQ_GROUP'],
    ['half of a login by token', { STREAMING_HUB_KAFKA_OAUTH_CLIENT_ID: 'hub' }, 'STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL'],
    ['a scope for no login', { STREAMING_HUB_KAFKA_OAUTH_SCOPE: 'kafka' }, 'STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL'],
    [
      'two logins',
      {
        STREAMING_HUB_KAFKA_SCRAM_MECHANISM: 'PLAIN',
        STREAMING_HUB_KAFKA_SCRAM_USERNAME: 'hub',
        STREAMING_HUB_KAFKA_SCRAM_PASSWORD: 'secret',
        STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL: 'https://id.example/token',
        STREAMING_HUB_KAFKA_OAUTH_CLIENT_ID: 'hub',
        STREAMING_HUB_KAFKA_OAUTH_CLIENT_SECRET: 'secret',
      },
      'STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL',
    ],
    [
      'an authority of brokers that are reached without TLS',
      { STREAMING_HUB_KAFKA_CA_CERT: '/etc/ca.pem' },
      'STREAMING_HUB_KAFKA_CA_CERT',
    ],
    [
      'a password that ends with a line break',
      {
        STREAMING_HUB_KAFKA_SCRAM_MECHANISM: 'PLAIN',
        STREAMING_HUB_KAFKA_SCRAM_USERNAME: 'hub',
        STREAMING_HUB_KAFKA_SCRAM_PASSWORD: 'secret\n',
      },
      'STREAMING_HUB_KAFKA_SCRAM_PASSWORD',
    ],
    [
      'an authority of a Redis that is reached without TLS',
      { STREAMING_HUB_REDIS_ADDRESS: 'redis:6379', STREAMING_HUB_REDIS_CA_CERT: '/etc/ca.pem' },
      'STREAMING_HUB_REDIS_CA_CERT',
    ],
    ['half of a login', { STREAMING_HUB_KAFKA_SCRAM_USERNAME: 'hub' }, 'STREAMING_HUB_KAFKA_SCRAM_MECHANISM'],
    ['an authorization service without address', { PLUGIN_AUTH_ENABLED: 'true' }, 'PLUGIN_AUTH_ADDRESS'],
    ['a key source without reference', { STREAMING_HUB_KEK_SOURCE: 'file' }, 'STREAMING_HUB_KEK_REF'],
    ['a reference to a variable that is not set', { STREAMING_HUB_KEK_REF: 'NOWHERE' }, 'STREAMING_HUB_KEK_REF'],
    [
      'a second source without reference',
      { STREAMING_HUB_KEK_PREVIOUS_SOURCE: 'file' },
      'STREAMING_HUB_KEK_PREVIOUS_REF',
    ],
    ['a second reference without source', { STREAMING_HUB_KEK_PREVIOUS_REF: 'K' }, 'STREAMING_HUB_KEK_PREVIOUS_SOURCE'],
    [
      'a second variable that holds no key',
      { STREAMING_HUB_KEK_PREVIOUS_SOURCE: 'env', STREAMING_HUB_KEK_PREVIOUS_REF: 'K', K: 'short' },
      'STREAMING_HUB_KEK_PREVIOUS_REF',
    ],
    [
      'an alias in KMS without a region',
      { STREAMING_HUB_KEK_SOURCE: 'aws-kms', STREAMING_HUB_KEK_REF: 'alias/hub' },
      'STREAMING_HUB_KEK_REF',
    ],
    [
      'a list of no keys in KMS',
      { STREAMING_HUB_KEK_SOURCE: 'aws-kms', STREAMING_HUB_KEK_REF: ',', AWS_REGION: 'eu-west-1' },
      'STREAMING_HUB_KEK_REF',
    ],
  ]
  for (const [what, env, variable] of cases) it(`${what} is refused`, () => assert.deepEqual(refused(env), [variable]))

  it('keys in KMS are in the region of their ARN, else in that of AWS_REGION', () => {
    const arn = 'arn:aws:kms:sa-east-1:111122223333:key/1'
    const env = {
      STREAMING_HUB_KEK_SOURCE: 'aws-kms',
      STREAMING_HUB_KEK_REF: `${arn}, alias/hub`,
      AWS_REGION: 'eu-west-1',
    }
    assert.deepEqual(loadConfig(env).kek, {
      kind: 'aws-kms',
      keys: [
        { ref: arn, region: 'sa-east-1' },
        { ref: 'alias/hub', region: 'eu-west-1' },
      ],
    })
  })

  it('the keys of a second source come after those of the first', () => {
    const env = {
      STREAMING_HUB_DEV_KEK: KEK,
      STREAMING_HUB_KEK_PREVIOUS_SOURCE: 'file',
      STREAMING_HUB_KEK_PREVIOUS_REF: '/keys/old',
    }
    assert.deepEqual(kekSources(loadConfig(env)), [
      { kind: 'env', value: KEK },
      { kind: 'file', path: '/keys/old' },
    ])
  })

  it('the variable that KEK_REF names may carry the prefix', () => {
    const env = { STREAMING_HUB_KEK_REF: 'STREAMING_HUB_MASTER_KEY', STREAMING_HUB_MASTER_KEY: KEK }
    assert.deepEqual(loadConfig(env).kek, { kind: 'env', value: KEK })
  })
})

describe('the reference', () => {
  it('docs/config.md holds exactly the table of the code', async () => {
    const documented = (await readFile(new URL('../docs/config.md', import.meta.url), 'utf8'))
      .split('\n')
      .filter((line) => line.startsWith('|'))
    const rows = Object.entries(variables).map(([name, variable]) => {
      const expected = `${variable.parser.expected}${'secret' in variable ? ' (secret)' : ''}`
      return `| \`${fullName(name)}\` | ${variable.default === null ? '' : `\`${variable.default}\``} | ${expected} | ${variable.about} |`
    })
    assert.equal(
      documented.join('\n'),
      ['| variable | default | takes | what it does |', '| --- | --- | --- | --- |', ...rows].join('\n'),
    )
  })

  it('every default is a value that its own grammar takes', () => {
    for (const { parser, default: fallback } of Object.values(variables))
      if (fallback !== null) assert.notEqual(parser.parse(fallback), null, `${fallback}: ${parser.expected}`)
  })
})
