// The configuration: the only reader of the environment. `loadConfig` turns it into one frozen record, whole and checked, or
// throws one error that lists every fault. Each variable stands in one table with its grammar, its default and its meaning;
// `docs/config.md` holds the same table (a test keeps the two equal). A Config holds secrets: it is never logged as a whole.
import { resolve } from 'node:path'
import type { LogLevel } from './base/log.ts'
import type { SamplerName } from './base/tracing.ts'
import { messageOf } from './base/errors.ts'
import { address, duration, flag, integer, list, matching, network, oneOf, seconds, text, url } from './base/parser.ts'
import type { Address, Parser } from './base/parser.ts'
import { FEWEST_CONNECTIONS } from './store/connection-budget.ts'
import { parseKeyRing, type KekSource } from './secrets/keyring.ts'

type Role = 'all' | 'ingest' | 'delivery'

export interface Config {
  env: 'local' | 'staging' | 'production'
  role: Role
  /** `trustedProxies`: addresses and networks whose `X-Forwarded-For` is believed. */
  http: { host: string; port: number; docsEnabled: boolean; trustedProxies: readonly string[] }
  /** Absolute. */
  dataDir: string
  logLevel: LogLevel
  metricsEnabled: boolean
  /** `dsn` null: the embedded PostgreSQL, in local only. */
  postgres: { dsn: string | null; maxConnections: number }
  kafka: {
    /** Null: the development broker in local; elsewhere only a role that needs none. Each is `host:port`. */
    brokers: readonly string[] | null
    devBrokerPort: number
    group: string
    dlqGroup: string
    tlsEnabled: boolean
    /** PEM text, or the path of a PEM file. */
    caCert: string | null
    sasl: { mechanism: SaslMechanism; username: string; password: string } | null
    /** In place of `sasl`: OAUTHBEARER, with tokens by the client credentials grant. */
    oauth: { tokenUrl: string; clientId: string; clientSecret: string; scope: string | null } | null
  }
  /** The tenant of callers who carry none, in a single-tenant installation. */
  tenantId: string
  dispatch: { workers: number; claimBatch: number; idleIntervalMs: number; poisonThreshold: number }
  autodisable: { enabled: boolean; failureWindowMs: number; failureSpreadMs: number }
  pull: { perSecond: number; burst: number }
  healthWindowMs: number
  reconciler: { enabled: boolean; intervalMs: number }
  manifests: { urls: readonly string[]; intervalMs: number }
  partitions: { intervalMs: number; futureWeeks: number; retentionEnabled: boolean; retentionHorizonMs: number }
  deadLetters: { retentionMs: number; pruneIntervalMs: number }
  idempotency: { ttlMs: number; reapIntervalMs: number }
  /** `generated`, in local only: a random key that is kept in the data directory. */
  kek: KekSource | { kind: 'generated' }
  /** Another source whose keys only open: while what is stored moves from one source to the other. */
  previousKek: KekSource | null
  allowPrivateSinks: boolean
  /** What webhooks by https are sent through; its URL may hold a password. Null: nothing. */
  proxy: { url: string; except: readonly string[] } | null
  shutdown: { timeoutMs: number; preStopDrainMs: number }
  rateLimits: {
    /** Null: unlimited. */
    tiers: { default: Quota; aggressive: Quota; relaxed: Quota } | null
    tenantFactor: number
    failedAuth: Quota
    failOpen: boolean
  }
  /** Null: each process counts by itself. */
  redis: {
    host: string
    port: number
    password: string | null
    tls: boolean
    /** PEM text, or the path of a PEM file. */
    caCert: string | null
    timeoutMs: number
  } | null
  auth: {
    /** Nobody is asked who they are: in local, as long as no way to authenticate is configured. */
    open: boolean
    plugin: { address: string; tenantClaim: string } | null
    jwt: { jwksUrl: string; issuer: string; audience: string; tenantClaim: string } | null
  }
  /** Null: nobody collects traces. Where they go, and by which headers, the exporter reads from the standard variables itself. */
  traces: { sampler: SamplerName; ratio: number } | null
}

interface Quota {
  max: number
  windowMs: number
}

export interface ConfigFault {
  /** The variable's whole name. */
  variable: string
  /** What was found and what was expected; holds no secret. */
  message: string
}

export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly faults: readonly ConfigFault[]

  constructor(faults: readonly ConfigFault[]) {
    const lines = faults.map(({ variable, message }) => `\n  ${variable} ${message}`)
    super(`The configuration has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:${lines.join('')}`)
    this.faults = faults
  }
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Where the key ring's keys are, the sealing one's source first. In local a generated key may not be there yet. */
export function kekSources({ kek, previousKek, dataDir }: Config): KekSource[] {
  const current: KekSource = kek.kind === 'generated' ? { kind: 'file', path: resolve(dataDir, 'kek') } : kek
  return previousKek ? [current, previousKek] : [current]
}

/** This process's own: what `loadConfig` is given, but in tests. */
export const environment: Environment = process.env

/** Throws `ConfigError`. An empty variable counts as one that is not set. */
export function loadConfig(env: Environment): Config {
  const { values, faults } = readAll(env)
  const named = new Set(faults.map(({ variable }) => variable))
  const all = [
    ...faults,
    ...unknownVariables(env),
    ...conflicts(values, env).filter(({ variable }) => !named.has(variable)),
  ]
  if (all.length > 0) throw new ConfigError(all)
  return deepFreeze(assemble(values, env))
}

// --- the variables --------------------------------------------------------------------------------------------------------

type SaslMechanism = 'SCRAM-SHA-256' | 'SCRAM-SHA-512' | 'PLAIN'

interface Variable<T, D extends string | null> {
  parser: Parser<T>
  /** As it would be written in the environment; null: none. */
  default: D
  /** One line for the reference; what it does, not how it is written. */
  about: string
  secret?: true
}

const to = <T>(parser: Parser<T>, fallback: string, about: string): Variable<T, string> => ({
  parser,
  default: fallback,
  about,
})
const optional = <T>(parser: Parser<T>, about: string): Variable<T, null> => ({ parser, default: null, about })
const secret = <T>(parser: Parser<T>, about: string): Variable<T, null> => ({
  parser,
  default: null,
  about,
  secret: true,
})

/** It is shown to operators: no password has a place in it. */
const manifestUrl: Parser<string> = {
  expected: 'URLs that begin with http:// or https://, without a user, a password or a fragment',
  parse: (value) => {
    const parsed = url('http', 'https').parse(value) === null ? null : new URL(value)
    const isPlain = parsed && value.length <= 2048 && `${parsed.username}${parsed.password}${parsed.hash}` === ''
    return isPlain ? parsed.href : null
  },
}

const groupName = matching(/^[A-Za-z0-9._-]{1,200}$/, 'letters, digits, dots, hyphens and underscores, at most 200')

/** Files of variables cannot hold line breaks: they write them as `\\n`, or the whole in base64. */
const pemOrPath: Parser<string> = {
  expected: 'PEM text, as it is or in base64, or the path of a PEM file',
  parse: (value) => {
    const pem = value.startsWith(BEGIN_IN_BASE64) ? Buffer.from(value, 'base64').toString() : value
    const isText = pem.includes('-----BEGIN CERTIFICATE-----')
    return isText ? pem.replaceAll('\\n', '\n') : text('the path of a PEM file').parse(value)
  },
}

const BEGIN_IN_BASE64 = Buffer.from('-----BEGIN CER').toString('base64').slice(0, 18)

/** Spaces may belong to it; the line break at the end of a file, which often comes with one, does not. */
const password = matching(/^\P{Cc}{1,1024}$/u, 'no line breaks or other control characters')

const requests = integer(1, 10_000_000)
const window = seconds('1s', '24h')

/** By name, without the prefix `STREAMING_HUB_`. */
export const variables = {
  ENV: to(oneOf('local', 'staging', 'production'), 'local', 'Where it runs: the last two refuse insecure options'),
  ROLE: to(
    oneOf('all', 'ingest', 'delivery'),
    'all',
    'Which part of the work this replica takes; each serves the whole API',
  ),
  HTTP_LISTEN_ADDR: optional(address({ anyHost: true }), '`:8080`; in local `127.0.0.1:8080`'),
  DATA_DIR: to(text('a path'), '.data', 'Local only: the embedded PostgreSQL and the generated key'),
  LOG_LEVEL: to(oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), 'info', 'What is logged'),
  METRICS_ENABLED: to(flag, 'true', 'Serves `/metrics`'),
  SWAGGER_ENABLED: optional(flag, '`false`; in local `true`: serves `/docs`'),

  POSTGRES_DSN: secret(url('postgres', 'postgresql'), 'PostgreSQL 15 or later; without it, in local, an embedded one'),
  POSTGRES_MAX_OPEN_CONNS: optional(
    integer(3, 1000),
    '25; in role ingest 8, in role delivery 16: connections of one replica, at least 5, 3 and 4',
  ),
  ALLOW_INSECURE_DB_TLS: to(flag, 'false', 'Staging may then reach PostgreSQL without TLS'),

  KAFKA_BROKERS: optional(
    list(address({ anyHost: false })),
    'Without it, in local, the development broker (in memory)',
  ),
  DEV_BROKER_PORT: to(
    integer(0, 65_535),
    '19092',
    'Where the development broker listens; if that is taken, on a free port',
  ),
  KAFKA_GROUP: to(groupName, 'streaming-hub', 'The consumer group of the facts'),
  DLQ_GROUP: to(groupName, 'streaming-hub-dlq', "The consumer group of the producers' dead letters"),
  KAFKA_TLS_ENABLED: to(flag, 'false', 'TLS to the brokers'),
  KAFKA_CA_CERT: optional(pemOrPath, 'Trusted beside the public authorities'),
  KAFKA_SCRAM_MECHANISM: optional(
    oneOf('SCRAM-SHA-256', 'SCRAM-SHA-512', 'PLAIN'),
    'How to log in to the brokers by password',
  ),
  KAFKA_SCRAM_USERNAME: optional(text('a user name'), 'For the mechanism'),
  KAFKA_SCRAM_PASSWORD: secret(password, 'For the mechanism'),
  KAFKA_OAUTH_TOKEN_URL: optional(
    url('https', 'http'),
    'In place of `KAFKA_SCRAM_…`: where tokens for OAUTHBEARER come from; `https` outside local',
  ),
  KAFKA_OAUTH_CLIENT_ID: optional(text('a client id'), 'For the tokens'),
  KAFKA_OAUTH_CLIENT_SECRET: secret(password, 'For the tokens'),
  KAFKA_OAUTH_SCOPE: optional(text('scopes, separated by spaces'), 'Asked for with the tokens'),
  ALLOW_INSECURE_KAFKA: to(flag, 'false', 'Staging may then reach Kafka, and fetch its tokens, without TLS'),

  TENANT_ID: to(
    text('a tenant id of at most 256 characters', 256),
    'default',
    'The tenant of callers that the open local mode or the authorization service lets in without one',
  ),
  DISPATCH_WORKERS: to(integer(1, 256), '8', 'Attempts of one replica that are in the air at one time, at least'),
  DISPATCH_CLAIM_BATCH: to(integer(1, 1000), '16', 'How much work is claimed in one go'),
  DISPATCH_IDLE_INTERVAL_MS: to(integer(1, 60_000), '250', 'Milliseconds until an idle dispatcher looks again'),
  POISON_THRESHOLD: to(
    integer(1, 100),
    '5',
    'Crashes in mid-attempt after which a delivery is dead-lettered as poisoned',
  ),
  AUTODISABLE_ENABLED: to(flag, 'true', 'Whether a destination that stays broken is switched off'),
  AUTODISABLE_FAILURE_WINDOW: to(duration('1m', '8760h'), '120h', 'For how long it must have been failing'),
  AUTODISABLE_FAILURE_SPREAD: to(duration('0s', '8760h'), '12h', 'How far its first and last failure must lie apart'),

  PULL_RATE: to(integer(1, 100_000), '100', 'Pull requests a second, for each tenant'),
  PULL_BURST: to(integer(1, 1_000_000), '200', 'Pull requests at once, for each tenant'),
  HEALTH_WINDOW: to(duration('1h', '8760h'), '720h', "What a subscription's health looks back on"),
  RECONCILER_ENABLED: to(flag, 'true', "Whether each topic's standing is watched"),
  RECONCILER_INTERVAL: to(seconds('1s', '24h'), '300', 'How often'),
  MANIFEST_URLS: optional(
    list(manifestUrl),
    "Producers' manifests, which describe their types of events in the catalog; `https` outside local",
  ),
  MANIFEST_REFRESH_INTERVAL: to(seconds('1s', '24h'), '300', 'How often they are fetched'),
  PARTITION_CRON_INTERVAL: to(duration('1m', '168h'), '6h', 'How often weekly partitions are made, and dropped'),
  PARTITION_FUTURE_BUFFER_WEEKS: to(integer(1, 52), '4', 'Weeks that are made ahead'),
  PARTITION_RETENTION_ENABLED: to(flag, 'false', 'Whether old partitions are dropped'),
  PARTITION_RETENTION_HORIZON: to(duration('0s', '87600h'), '0', 'How old; at least `168h` when they are dropped'),
  DLQ_RETENTION: to(duration('1h', '87600h'), '168h', "How long producers' dead letters are kept"),
  DLQ_PRUNE_INTERVAL: to(duration('1m', '168h'), '1h', 'How often they are pruned'),
  IDEMPOTENCY_TTL: to(duration('1m', '720h'), '24h', 'How long an `Idempotency-Key` is remembered'),
  IDEMPOTENCY_REAP_INTERVAL: to(duration('10s', '24h'), '5m', 'How often forgotten ones are removed'),

  KEK_SOURCE: to(oneOf('env', 'file', 'aws-kms'), 'env', 'Where the key that encrypts stored secrets comes from'),
  KEK_REF: optional(
    text('the name of a variable, a path or a key id'),
    'The variable or file that holds it (base64 of 32 bytes or more), or the KMS key (ARN, id or alias); several, separated by commas: the first seals, all open',
  ),
  KEK_PREVIOUS_SOURCE: optional(
    oneOf('env', 'file', 'aws-kms'),
    'A second source, whose keys only open: for a move from one source to another',
  ),
  KEK_PREVIOUS_REF: optional(text('the name of a variable, a path or a key id'), 'As `KEK_REF`, for the second source'),
  DEV_KEK: secret(
    text('base64 of 32 bytes or more'),
    'Local only: the key itself; without any, one is made in the data directory',
  ),
  ALLOW_PRIVATE_SINKS: to(flag, 'false', 'Destinations may be http and in private networks; refused in production'),
  HTTPS_PROXY: secret(
    url('http', 'https'),
    'What webhooks by https are sent through, by CONNECT to an address that the hub has looked up; `https_proxy` does too',
  ),
  NO_PROXY: optional(
    list(text('a host, .domain, host:port or *')),
    'What is connected to without it; `no_proxy` does too',
  ),
  SHUTDOWN_TIMEOUT: to(duration('2s', '10m'), '30s', 'The most that a stop may take, the drain before it included'),
  PRE_STOP_DRAIN_TIMEOUT: to(
    duration('0s', '5m'),
    '5s',
    'How long a replica that was sent SIGTERM is not ready but still serves, at least',
  ),

  TRUSTED_PROXIES: optional(
    list(network),
    'Whose `X-Forwarded-For` is believed: without it, a caller has the address that the connection comes from',
  ),
  RATE_LIMIT_ENABLED: to(flag, 'true', 'Whether requests are limited'),
  ALLOW_RATELIMIT_DISABLED: to(flag, 'false', 'They may then be unlimited outside local'),
  RATE_LIMIT_MAX: optional(requests, '500; in local 100000: requests of one key that change something, in one window'),
  RATE_LIMIT_WINDOW_SEC: to(window, '60', 'That window'),
  AGGRESSIVE_RATE_LIMIT_MAX: optional(
    requests,
    '100; in local 100000: requests of one key that set much in motion (verify, test, replay, retry, rotate)',
  ),
  AGGRESSIVE_RATE_LIMIT_WINDOW_SEC: to(window, '60', 'Their window'),
  RELAXED_RATE_LIMIT_MAX: optional(requests, '1000; in local 100000: requests of one key that only read'),
  RELAXED_RATE_LIMIT_WINDOW_SEC: to(window, '60', 'Their window'),
  RATE_LIMIT_TENANT_FACTOR: to(
    integer(1, 1000),
    '4',
    'How many times what one of its keys may all keys of a tenant may',
  ),
  RATE_LIMIT_FAILED_AUTH_MAX: to(
    integer(1, 100_000),
    '30',
    'Wrong credentials from one address in a `RATE_LIMIT_WINDOW_SEC`; after that only those that were right before are looked at',
  ),
  REDIS_ADDRESS: optional(
    address({ anyHost: false }),
    'Where replicas count together; without it each counts by itself',
  ),
  REDIS_PASSWORD: secret(password, 'For Redis'),
  REDIS_TLS: optional(flag, '`true`; in local `false`: TLS to Redis; it has to be true in production'),
  REDIS_CA_CERT: optional(pemOrPath, 'Trusted for Redis beside the public authorities'),
  RATE_LIMIT_REDIS_TIMEOUT_MS: to(integer(10, 10_000), '500', 'Milliseconds until Redis counts as away'),
  ALLOW_RATELIMIT_FAIL_OPEN: to(
    flag,
    'false',
    'While Redis is away each replica then counts by itself; otherwise the API answers 503',
  ),

  AUTH_JWKS_URL: optional(url('https', 'http'), 'The keys that verify JWTs; `https` outside local'),
  AUTH_ISSUER: optional(text('the iss claim'), 'Needed with `AUTH_JWKS_URL`'),
  AUTH_AUDIENCE: optional(text('the aud claim'), 'Needed with `AUTH_JWKS_URL`'),
  AUTH_TENANT_CLAIM: to(text('the name of a claim'), 'tenant_id', "The claim that names the caller's tenant"),
  PLUGIN_AUTH_ENABLED: to(flag, 'false', "Whether the platform's authorization service is asked"),
  PLUGIN_AUTH_ADDRESS: optional(url('https', 'http'), 'Where it is; `https` in production'),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    url('https', 'http'),
    'Where traces go, by OTLP over HTTP (protobuf); without it there are none. `OTEL_EXPORTER_OTLP_…`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` have their standard meaning',
  ),
  OTEL_SDK_DISABLED: to(flag, 'false', 'No traces, whatever else is set'),
  OTEL_TRACES_SAMPLER: to(
    oneOf(
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ),
    'parentbased_always_on',
    'Which traces are kept; `parentbased_…`: as the producer has decided, where there is one',
  ),
  OTEL_TRACES_SAMPLER_ARG: to(
    matching(/^(0(\.\d+)?|1(\.0+)?)$/, 'a number from 0 to 1'),
    '1',
    'For the samplers by ratio: the share of the traces',
  ),
} as const satisfies Record<string, Variable<unknown, string | null>>

type Name = keyof typeof variables
type ValueOf<V> = V extends Variable<infer T, infer D> ? (D extends null ? T | null : T) : never
type Values = { [N in Name]: ValueOf<(typeof variables)[N]> }

/** The variable's name in the environment. */
export function fullName(name: string): string {
  return /^(PLUGIN_AUTH_|OTEL_)/.test(name) || OF_THE_SYSTEM.test(name) ? name : `STREAMING_HUB_${name}`
}

/** Read by many programs, some of which want them in lower case. */
const OF_THE_SYSTEM = /^(HTTPS|NO)_PROXY$/

/** The platform's charts give these to all its products, without a prefix. */
const OF_THE_PLATFORM = /^((AGGRESSIVE_|RELAXED_)?RATE_LIMIT_|ALLOW_RATELIMIT_)/

/** By which it is read too; otherwise its whole name. */
function otherName(name: string): string {
  if (OF_THE_SYSTEM.test(name)) return name.toLowerCase()
  return OF_THE_PLATFORM.test(name) ? name : fullName(name)
}

// --- reading and checking -------------------------------------------------------------------------------------------------

function readAll(env: Environment): { values: Values; faults: ConfigFault[] } {
  const faults: ConfigFault[] = []
  const read = ([name, variable]: [string, Variable<unknown, string | null>]) => {
    const fallback = variable.default === null ? null : variable.parser.parse(variable.default)
    const found = env[fullName(name)] || env[otherName(name)]
    if (!found) return [name, fallback]
    const value = variable.parser.parse(found)
    if (value === null) {
      const shown = variable.secret ? 'has a value that cannot be used' : `is ${JSON.stringify(found.slice(0, 100))}`
      faults.push({ variable: fullName(name), message: `${shown}: expected ${variable.parser.expected}` })
    }
    return [name, value ?? fallback]
  }
  return { values: Object.fromEntries(Object.entries(variables).map(read)) as Values, faults }
}

function unknownVariables(env: Environment): ConfigFault[] {
  const known = new Set(Object.keys(variables).map(fullName))
  return Object.keys(env)
    .filter(
      (name) =>
        /^(STREAMING_HUB_|PLUGIN_AUTH_)/.test(name) &&
        !known.has(name) &&
        name !== env['STREAMING_HUB_KEK_REF'] &&
        name !== env['STREAMING_HUB_KEK_PREVIOUS_REF'],
    )
    .map((variable) => ({ variable, message: 'is not a variable of the hub' }))
}

function conflicts(values: Values, env: Environment): ConfigFault[] {
  const faults: ConfigFault[] = []
  const refuse = (name: Name, message: string) => faults.push({ variable: fullName(name), message })
  checkAgreement(values, refuse)
  checkKek(values, env, refuse)
  if (values.ENV !== 'local') checkSafety(values, refuse)
  return faults
}

type Refuse = (name: Name, message: string) => void

function checkAgreement(v: Values, refuse: Refuse): void {
  if (v.AUTODISABLE_FAILURE_SPREAD > v.AUTODISABLE_FAILURE_WINDOW)
    refuse('AUTODISABLE_FAILURE_SPREAD', 'is longer than the failure window: expected at most that')
  if (v.PARTITION_RETENTION_ENABLED && v.PARTITION_RETENTION_HORIZON < 7 * 86_400_000)
    refuse(
      'PARTITION_RETENTION_HORIZON',
      'would drop what is still in use: expected at least 168h when retention is enabled',
    )
  const fewest = FEWEST_CONNECTIONS[v.ROLE]
  if (v.POSTGRES_MAX_OPEN_CONNS !== null && v.POSTGRES_MAX_OPEN_CONNS < fewest)
    refuse('POSTGRES_MAX_OPEN_CONNS', `is too few: expected at least ${fewest} in role ${v.ROLE}`)
  if (v.PRE_STOP_DRAIN_TIMEOUT >= v.SHUTDOWN_TIMEOUT)
    refuse('PRE_STOP_DRAIN_TIMEOUT', 'leaves no time to stop: expected less than the shutdown time-out')
  if (v.KAFKA_GROUP === v.DLQ_GROUP) refuse('DLQ_GROUP', 'is the group of the facts: expected another')
  checkKafka(v, refuse)
  checkRedis(v, refuse)
  if (v.PLUGIN_AUTH_ENABLED && !v.PLUGIN_AUTH_ADDRESS)
    refuse('PLUGIN_AUTH_ADDRESS', 'is not set: expected the address of the authorization service, which is enabled')
  if (v.AUTH_JWKS_URL && !v.AUTH_ISSUER) refuse('AUTH_ISSUER', 'is not set: expected the issuer of the tokens')
  if (v.AUTH_JWKS_URL && !v.AUTH_AUDIENCE) refuse('AUTH_AUDIENCE', 'is not set: expected the audience of the tokens')
}

const KAFKA_SASL = ['KAFKA_SCRAM_MECHANISM', 'KAFKA_SCRAM_USERNAME', 'KAFKA_SCRAM_PASSWORD'] as const
const KAFKA_OAUTH = ['KAFKA_OAUTH_TOKEN_URL', 'KAFKA_OAUTH_CLIENT_ID', 'KAFKA_OAUTH_CLIENT_SECRET'] as const

function checkKafka(v: Values, refuse: Refuse): void {
  if (v.KAFKA_CA_CERT && !v.KAFKA_TLS_ENABLED && !v.KAFKA_OAUTH_TOKEN_URL?.startsWith('https:'))
    refuse('KAFKA_CA_CERT', 'is of no use without TLS: expected KAFKA_TLS_ENABLED to be true')
  const isSet = (name: Name): boolean => v[name] !== null
  const isOauth = KAFKA_OAUTH.some(isSet) || isSet('KAFKA_OAUTH_SCOPE')
  if (isOauth && KAFKA_SASL.some(isSet))
    return refuse('KAFKA_OAUTH_TOKEN_URL', 'is a second login beside KAFKA_SCRAM_MECHANISM: expected one of them')
  const login = isOauth ? KAFKA_OAUTH : KAFKA_SASL
  const missing = isOauth || KAFKA_SASL.some(isSet) ? login.find((name) => !isSet(name)) : undefined
  if (missing) refuse(missing, `is not set: expected all of ${login.join(', ')}, or none`)
}

function checkRedis(v: Values, refuse: Refuse): void {
  if (v.REDIS_ADDRESS && v.REDIS_CA_CERT && !usesRedisTls(v))
    refuse('REDIS_CA_CERT', 'is of no use without TLS: expected REDIS_TLS to be true')
}

function checkKek(v: Values, env: Environment, refuse: Refuse): void {
  if (v.DEV_KEK && v.ENV !== 'local') refuse('DEV_KEK', 'is for local only: expected KEK_SOURCE and KEK_REF')
  if (!v.KEK_REF && (v.KEK_SOURCE !== 'env' || v.ENV !== 'local'))
    refuse('KEK_REF', 'is not set: expected the variable, file or key that holds the key-encryption key')
  checkKeys(kekSource(v, env), (message) => refuse(v.KEK_REF ? 'KEK_REF' : 'DEV_KEK', message))
  if ((v.KEK_PREVIOUS_SOURCE === null) !== (v.KEK_PREVIOUS_REF === null))
    refuse(
      v.KEK_PREVIOUS_REF === null ? 'KEK_PREVIOUS_REF' : 'KEK_PREVIOUS_SOURCE',
      'is not set: expected both of KEK_PREVIOUS_SOURCE, KEK_PREVIOUS_REF, or none',
    )
  const previous = previousKekSource(v, env)
  if (previous) checkKeys(previous, (message) => refuse('KEK_PREVIOUS_REF', message))
}

function checkKeys(kek: Config['kek'], refuse: (message: string) => void): void {
  if (kek.kind === 'aws-kms') {
    if (kek.keys.length === 0) refuse('names no key: expected an ARN, a key id or an alias')
    const lost = kek.keys.find(({ region }) => region === '')
    if (lost) refuse(`is ${JSON.stringify(lost.ref)}: expected an ARN, or AWS_REGION beside it`)
  }
  if (kek.kind !== 'env') return
  try {
    parseKeyRing(kek.value)
  } catch (error) {
    refuse(`holds no key: ${messageOf(error)}`)
  }
}

/** Outside local nothing that leaves the machine goes in the clear, and nobody gets in unasked. */
function checkSafety(v: Values, refuse: Refuse): void {
  if (!v.POSTGRES_DSN) refuse('POSTGRES_DSN', `is not set: expected a database in ${v.ENV}`)
  if (!v.KAFKA_BROKERS && v.ROLE !== 'delivery') refuse('KAFKA_BROKERS', `is not set: expected brokers in ${v.ENV}`)
  if (v.MANIFEST_URLS?.some((each) => each.startsWith('http:')))
    refuse('MANIFEST_URLS', `is not encrypted: expected https in ${v.ENV}`)
  if (v.AUTH_JWKS_URL?.startsWith('http:')) refuse('AUTH_JWKS_URL', `is not encrypted: expected https in ${v.ENV}`)
  if (v.PLUGIN_AUTH_ENABLED && v.PLUGIN_AUTH_ADDRESS?.startsWith('http:') && v.ENV === 'production')
    refuse('PLUGIN_AUTH_ADDRESS', `is not encrypted: expected https in ${v.ENV}`)
  if (v.ENV === 'production') {
    for (const name of ['ALLOW_PRIVATE_SINKS', 'ALLOW_INSECURE_DB_TLS', 'ALLOW_INSECURE_KAFKA'] as const)
      if (v[name]) refuse(name, 'is true: expected false in production')
  }
  if (!v.RATE_LIMIT_ENABLED && !v.ALLOW_RATELIMIT_DISABLED)
    refuse('RATE_LIMIT_ENABLED', `is false: expected true in ${v.ENV}, or ALLOW_RATELIMIT_DISABLED`)
  if (v.ENV === 'production' && v.REDIS_ADDRESS && !usesRedisTls(v) && !isLoopback(v.REDIS_ADDRESS))
    refuse('REDIS_TLS', 'is false: expected true in production')
  if (v.POSTGRES_DSN && !v.ALLOW_INSECURE_DB_TLS && !isPrivateToMachineOrTls(new URL(v.POSTGRES_DSN)))
    refuse('POSTGRES_DSN', 'does not ask for TLS: expected sslmode=verify-full (or verify-ca, or require)')
  if (v.KAFKA_BROKERS && !v.KAFKA_TLS_ENABLED && !v.ALLOW_INSECURE_KAFKA && !v.KAFKA_BROKERS.every(isLoopback))
    refuse('KAFKA_TLS_ENABLED', `is false: expected true in ${v.ENV}`)
  if (v.KAFKA_OAUTH_TOKEN_URL?.startsWith('http:') && !v.ALLOW_INSECURE_KAFKA)
    refuse('KAFKA_OAUTH_TOKEN_URL', `is not encrypted: expected https in ${v.ENV}`)
}

function isPrivateToMachineOrTls(dsn: URL): boolean {
  const mode = dsn.searchParams.get('sslmode') ?? ''
  return (
    ['verify-full', 'verify-ca', 'require'].includes(mode) || isLoopback({ host: dsn.hostname.replace(/^\[|\]$/g, '') })
  )
}

function isLoopback({ host }: { host: string }): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

// --- the record -----------------------------------------------------------------------------------------------------------

function assemble(v: Values, env: Environment): Config {
  const local = v.ENV === 'local'
  return {
    env: v.ENV,
    role: v.ROLE,
    http: {
      ...(v.HTTP_LISTEN_ADDR ?? { host: local ? '127.0.0.1' : '0.0.0.0', port: 8080 }),
      docsEnabled: v.SWAGGER_ENABLED ?? local,
      trustedProxies: v.TRUSTED_PROXIES ?? [],
    },
    dataDir: resolve(v.DATA_DIR),
    logLevel: v.LOG_LEVEL,
    metricsEnabled: v.METRICS_ENABLED,
    postgres: {
      dsn: v.POSTGRES_DSN,
      maxConnections: v.POSTGRES_MAX_OPEN_CONNS ?? { all: 25, ingest: 8, delivery: 16 }[v.ROLE],
    },
    kafka: kafkaOf(v),
    tenantId: v.TENANT_ID,
    dispatch: {
      workers: v.DISPATCH_WORKERS,
      claimBatch: v.DISPATCH_CLAIM_BATCH,
      idleIntervalMs: v.DISPATCH_IDLE_INTERVAL_MS,
      poisonThreshold: v.POISON_THRESHOLD,
    },
    autodisable: {
      enabled: v.AUTODISABLE_ENABLED,
      failureWindowMs: v.AUTODISABLE_FAILURE_WINDOW,
      failureSpreadMs: v.AUTODISABLE_FAILURE_SPREAD,
    },
    pull: { perSecond: v.PULL_RATE, burst: v.PULL_BURST },
    healthWindowMs: v.HEALTH_WINDOW,
    reconciler: { enabled: v.RECONCILER_ENABLED, intervalMs: v.RECONCILER_INTERVAL },
    manifests: { urls: [...new Set(v.MANIFEST_URLS)], intervalMs: v.MANIFEST_REFRESH_INTERVAL },
    partitions: {
      intervalMs: v.PARTITION_CRON_INTERVAL,
      futureWeeks: v.PARTITION_FUTURE_BUFFER_WEEKS,
      retentionEnabled: v.PARTITION_RETENTION_ENABLED,
      retentionHorizonMs: v.PARTITION_RETENTION_HORIZON,
    },
    deadLetters: { retentionMs: v.DLQ_RETENTION, pruneIntervalMs: v.DLQ_PRUNE_INTERVAL },
    idempotency: { ttlMs: v.IDEMPOTENCY_TTL, reapIntervalMs: v.IDEMPOTENCY_REAP_INTERVAL },
    kek: kekSource(v, env),
    previousKek: previousKekSource(v, env),
    allowPrivateSinks: v.ALLOW_PRIVATE_SINKS,
    proxy: v.HTTPS_PROXY === null ? null : { url: v.HTTPS_PROXY, except: v.NO_PROXY ?? [] },
    shutdown: { timeoutMs: v.SHUTDOWN_TIMEOUT, preStopDrainMs: v.PRE_STOP_DRAIN_TIMEOUT },
    rateLimits: rateLimitsOf(v),
    redis: v.REDIS_ADDRESS && {
      ...v.REDIS_ADDRESS,
      password: v.REDIS_PASSWORD,
      tls: usesRedisTls(v),
      caCert: v.REDIS_CA_CERT,
      timeoutMs: v.RATE_LIMIT_REDIS_TIMEOUT_MS,
    },
    auth: authOf(v),
    traces:
      v.OTEL_EXPORTER_OTLP_ENDPOINT === null || v.OTEL_SDK_DISABLED
        ? null
        : { sampler: v.OTEL_TRACES_SAMPLER, ratio: Number(v.OTEL_TRACES_SAMPLER_ARG) },
  }
}

/** Whoever tries the hub out on a machine of their own has nobody to be protected from. */
const LOCAL_RATE_LIMIT = 100_000

function rateLimitsOf(v: Values): Config['rateLimits'] {
  const max = (given: number | null, usual: number): number => given ?? (v.ENV === 'local' ? LOCAL_RATE_LIMIT : usual)
  return {
    tiers: v.RATE_LIMIT_ENABLED
      ? {
          default: { max: max(v.RATE_LIMIT_MAX, 500), windowMs: v.RATE_LIMIT_WINDOW_SEC },
          aggressive: { max: max(v.AGGRESSIVE_RATE_LIMIT_MAX, 100), windowMs: v.AGGRESSIVE_RATE_LIMIT_WINDOW_SEC },
          relaxed: { max: max(v.RELAXED_RATE_LIMIT_MAX, 1000), windowMs: v.RELAXED_RATE_LIMIT_WINDOW_SEC },
        }
      : null,
    tenantFactor: v.RATE_LIMIT_TENANT_FACTOR,
    failedAuth: { max: v.RATE_LIMIT_FAILED_AUTH_MAX, windowMs: v.RATE_LIMIT_WINDOW_SEC },
    failOpen: v.ALLOW_RATELIMIT_FAIL_OPEN,
  }
}

function usesRedisTls(v: Values): boolean {
  return v.REDIS_TLS ?? v.ENV !== 'local'
}

function kafkaOf(v: Values): Config['kafka'] {
  return {
    brokers: v.KAFKA_BROKERS && v.KAFKA_BROKERS.map(hostPort),
    devBrokerPort: v.DEV_BROKER_PORT,
    group: v.KAFKA_GROUP,
    dlqGroup: v.DLQ_GROUP,
    tlsEnabled: v.KAFKA_TLS_ENABLED,
    caCert: v.KAFKA_CA_CERT,
    sasl: v.KAFKA_SCRAM_MECHANISM && {
      mechanism: v.KAFKA_SCRAM_MECHANISM,
      username: v.KAFKA_SCRAM_USERNAME ?? '',
      password: v.KAFKA_SCRAM_PASSWORD ?? '',
    },
    oauth:
      v.KAFKA_OAUTH_TOKEN_URL === null
        ? null
        : {
            tokenUrl: v.KAFKA_OAUTH_TOKEN_URL,
            clientId: v.KAFKA_OAUTH_CLIENT_ID ?? '',
            clientSecret: v.KAFKA_OAUTH_CLIENT_SECRET ?? '',
            scope: v.KAFKA_OAUTH_SCOPE,
          },
  }
}

function kekSource(v: Values, env: Environment): Config['kek'] {
  if (v.KEK_REF || v.KEK_SOURCE !== 'env') return sourceOf(v.KEK_SOURCE, v.KEK_REF ?? '', env)
  return v.DEV_KEK ? { kind: 'env', value: v.DEV_KEK } : { kind: 'generated' }
}

function previousKekSource(v: Values, env: Environment): KekSource | null {
  const { KEK_PREVIOUS_SOURCE: kind, KEK_PREVIOUS_REF: ref } = v
  return kind === null || ref === null ? null : sourceOf(kind, ref, env)
}

function sourceOf(kind: KekSource['kind'], ref: string, env: Environment): KekSource {
  if (kind === 'env') return { kind, value: env[ref] ?? '' }
  if (kind === 'file') return { kind, path: resolve(ref) }
  const refs = ref.split(',').map((one) => one.trim())
  const regionOf = (one: string): string => /^arn:[^:]+:kms:([^:]+):/.exec(one)?.[1] ?? env['AWS_REGION'] ?? ''
  return { kind, keys: refs.filter((one) => one !== '').map((one) => ({ ref: one, region: regionOf(one) })) }
}

function authOf(v: Values): Config['auth'] {
  return {
    open: v.ENV === 'local' && !v.PLUGIN_AUTH_ENABLED && !v.AUTH_JWKS_URL,
    plugin: v.PLUGIN_AUTH_ENABLED ? { address: v.PLUGIN_AUTH_ADDRESS ?? '', tenantClaim: v.AUTH_TENANT_CLAIM } : null,
    jwt: v.AUTH_JWKS_URL
      ? {
          jwksUrl: v.AUTH_JWKS_URL,
          issuer: v.AUTH_ISSUER ?? '',
          audience: v.AUTH_AUDIENCE ?? '',
          tenantClaim: v.AUTH_TENANT_CLAIM,
        }
      : null,
  }
}

function hostPort({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) deepFreeze(part)
  return Object.freeze(value)
}
