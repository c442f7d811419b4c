// The doctor on real things that are broken on purpose.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it, test } from 'node:test'
import { AclOperations, AclPermissionTypes, Admin, ResourcePatternTypes, ResourceTypes } from '@platformatic/kafka'
import { startKafka } from '../../dev/kafka.ts'
import { examine } from '../../src/cli/doctor/doctor.ts'
import type { Report } from '../../src/cli/doctor/doctor.ts'
import { systemClock } from '../../src/base/clock.ts'
import { createApiKey } from '../../src/control/api-keys.ts'
import { parseKeyRing } from '../../src/secrets/keyring.ts'
import { createSecretBox } from '../../src/secrets/secrets.ts'
import { makePartitions } from '../../src/store/partitions.ts'
import { startProgram } from '../support/cli.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'
import { realKafka } from '../support/kafka.ts'
import { startReceiver } from '../support/receiver.ts'

const KEK = randomBytes(32).toString('base64')
const dataDir = await mkdtemp(join(tmpdir(), 'hub-doctor-test-'))
after(() => rm(dataDir, { recursive: true, force: true }))

/** What the doctor finds with these variables, by the check: its verdict and what it says. */
async function found(env: Record<string, string>): Promise<Record<string, string[]>> {
  return byCheck(await examine({ STREAMING_HUB_DATA_DIR: dataDir, STREAMING_HUB_DEV_KEK: KEK, ...env }))
}

function byCheck({ findings }: Report): Record<string, string[]> {
  const all: Record<string, string[]> = {}
  for (const { check, verdict, detail, advice } of findings) {
    assert.equal(advice === null, verdict === 'ok', 'what is wrong comes with what to do')
    assert.doesNotMatch(detail, /\n/, 'one line for each finding')
    ;(all[check] ??= []).push(`${verdict}: ${detail}`)
  }
  return all
}

async function onDatabase(database: TestDatabase, env: Record<string, string> = {}): Promise<Record<string, string[]>> {
  return await found({ STREAMING_HUB_POSTGRES_DSN: database.dsn, ...env })
}

/** An enabled subscription that delivers to `url`; answers its id. */
async function subscriptionTo({ pool }: TestDatabase, url: string): Promise<string> {
  const { id } = await insertSubscription(pool)
  const sink = JSON.stringify({ kind: 'webhook', url, headers: {} })
  await pool.query('update subscription set sink = $2 where id = $1', [id, sink])
  return id
}

/** A port of loopback on which nobody listens. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

describe('the doctor, of the database,', () => {
  it('says that all is well where it is', async () => {
    await using database = await testDatabase()
    await makePartitions(database.pool, new Date(), 2)
    const report = await onDatabase(database)
    assert.match(report['database']?.[0] ?? '', /^ok: PostgreSQL \d+/)
    for (const check of ['schema', 'partitions', 'clock', 'connections', 'key ring', 'stored secrets', 'destinations'])
      assert.match(report[check]?.join() ?? check, /^ok: /, check)
  })

  it('names the settings that lose events, and the isolation that the hub does not expect', async () => {
    await using database = await testDatabase()
    const name = new URL(database.dsn).pathname.slice(1)
    await database.pool.query(`alter database ${name} set synchronous_commit = off`)
    await database.pool.query(`alter database ${name} set default_transaction_isolation = 'serializable'`)
    const settings = (await onDatabase(database))['database settings']?.filter((told) => !/fsync|full_page/.test(told))
    assert.deepEqual(settings, [
      'warn: synchronous_commit is off: a crash can lose events whose offsets are committed',
      'fail: default_transaction_isolation is serializable',
    ])
  })

  it('sees a schema that lacks something, and one that is newer', async () => {
    await using database = await testDatabase()
    await database.pool.query("delete from schema_migration where name = '0007_upkeep'")
    assert.deepEqual((await onDatabase(database))['schema'], ['fail: lacks 0007_upkeep'])
    await database.pool.query("insert into schema_migration (name, run_on) values ('9999_tomorrow', now())")
    assert.deepEqual((await onDatabase(database))['schema'], ['fail: newer than this program: 9999_tomorrow'])
  })

  it('sees that no partitions were made ahead, and rows that lie in none', async () => {
    await using database = await testDatabase()
    assert.match((await onDatabase(database))['partitions']?.[0] ?? '', /^warn: next week has none in \w+/)
  })

  it('reckons whether the replicas fit into its connections', async () => {
    await using database = await testDatabase()
    const report = await onDatabase(database, { STREAMING_HUB_POSTGRES_MAX_OPEN_CONNS: '1000' })
    assert.match(
      report['connections']?.[0] ?? '',
      /^fail: too few for the replicas that are there: 1 all × 1000 of \d+/,
    )
  })

  it('goes on with the rest where it cannot be reached, and shows no password', async () => {
    await using receiver = await startReceiver()
    const port = await closedPort()
    const report = await found({
      STREAMING_HUB_POSTGRES_DSN: `postgres://hub:PLANTED@127.0.0.1:${port}/hub`,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiver.port}`,
    })
    assert.match(report['database']?.[0] ?? '', /^fail: .*ECONNREFUSED/)
    assert.match(report['key ring']?.[0] ?? '', /^ok: 1 key; [0-9a-f]{16} seals$/)
    assert.match(report['stored secrets']?.[0] ?? '', /^warn: not looked at/)
    assert.deepEqual(report['traces'], [`ok: 127.0.0.1:${receiver.port} takes connections`])
    assert.doesNotMatch(JSON.stringify(report), /PLANTED/)
    assert.equal(receiver.requests.length, 0)
  })
})

describe('the doctor, of the keys,', () => {
  it('opens what is stored, and says when the key that sealed it is not there', async () => {
    await using database = await testDatabase()
    const subscriptionId = await subscriptionTo(database, 'https://example.com/')
    const context = { tenantId: 'acme', subscriptionId, field: 'signing_secret' }
    const sealed = await createSecretBox(parseKeyRing(KEK)).seal('whsec_PLANTED', context)
    await database.pool.query(
      'insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at) values ($1, $2, $3, $4, $5, now())',
      [uuid7(), subscriptionId, 'acme', 'signing_secret', sealed],
    )
    assert.deepEqual((await onDatabase(database))['stored secrets'], ['ok: 1 looked at, all open'])
    const other = { STREAMING_HUB_DEV_KEK: randomBytes(32).toString('base64') }
    assert.deepEqual((await onDatabase(database, other))['stored secrets'], ['fail: unknown key: 1 of 1'])
    const both = { STREAMING_HUB_DEV_KEK: `${randomBytes(32).toString('base64')},${KEK}` }
    assert.deepEqual((await onDatabase(database, both))['stored secrets'], ['ok: 1 looked at, all open'])
    const sealing = async (env: Record<string, string>): Promise<string> =>
      (await onDatabase(database, env))['sealing keys']?.join() ?? ''
    assert.equal(await sealing({}), 'ok: every stored secret is sealed by the first key')
    assert.match(await sealing(both), /^warn: older ones than the first are needed: 1 by [0-9a-f]{16}$/)
    assert.match(await sealing(other), /^fail: stored secrets need keys that are not in the ring: 1 by [0-9a-f]{16}$/)
  })

  it('says that the file that should hold them is not there', async () => {
    const report = await found({
      STREAMING_HUB_DEV_KEK: '',
      STREAMING_HUB_KEK_SOURCE: 'file',
      STREAMING_HUB_KEK_REF: join(dataDir, 'nowhere'),
    })
    assert.match(report['key ring']?.[0] ?? '', /^fail: the file of key-encryption keys cannot be read/)
  })
})

describe('the doctor, of the destinations,', () => {
  it('connects to them without a request, and names those that take none by their host alone', async () => {
    await using database = await testDatabase()
    await using receiver = await startReceiver()
    await subscriptionTo(database, `${receiver.url}?key=PLANTED`)
    const allowed = { STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true' }
    assert.deepEqual((await onDatabase(database, allowed))['destinations'], ['ok: 1 looked at, all take connections'])
    assert.deepEqual([receiver.connections, receiver.requests.length], [1, 0])
    const port = await closedPort()
    await subscriptionTo(database, `http://127.0.0.1:${port}/PLANTED`)
    assert.deepEqual((await onDatabase(database, allowed))['destinations'], [
      `warn: 1 of 2 cannot be reached: 127.0.0.1:${port} (ECONNREFUSED)`,
    ])
  })

  it('goes through the guard of addresses', async () => {
    await using database = await testDatabase()
    await using receiver = await startReceiver()
    await subscriptionTo(database, receiver.url)
    assert.deepEqual((await onDatabase(database))['destinations'], [
      `warn: 1 of 1 cannot be reached: 127.0.0.1:${receiver.port} (a private address, which is refused)`,
    ])
    assert.equal(receiver.connections, 0)
  })
})

describe('the doctor', () => {
  it('lists every fault of the configuration, and looks at nothing else', async () => {
    const report = await found({ STREAMING_HUB_LOG_LEVEL: 'loud', STREAMING_HUB_TYPO: '1' })
    assert.equal(report['configuration']?.length, 2)
    assert.match(report['configuration']?.join() ?? '', /LOG_LEVEL is "loud".*TYPO is not a variable/)
    assert.deepEqual(Object.keys(report), ['configuration', 'the rest'])
  })

  it('ends with 0, 1 or 2 for scripts, one line for each finding, or JSON', async () => {
    const env = { STREAMING_HUB_DATA_DIR: dataDir }
    await using well = startProgram(['doctor'], env)
    assert.equal(await well.ended, 0)
    for (const line of well.output().trim().split('\n')) assert.match(line, /^ok {4}/)
    await using warned = startProgram(['doctor'], { ...env, STREAMING_HUB_MANIFEST_REFRESH_INTERVAL: '60' })
    assert.ok([0, 1].includes((await warned.ended) ?? 2))
    await using broken = startProgram(['doctor', '--json'], {
      ...env,
      STREAMING_HUB_KAFKA_BROKERS: `127.0.0.1:${await closedPort()}`,
    })
    assert.equal(await broken.ended, 2)
    const report = JSON.parse(broken.output()) as Report
    assert.equal(report.verdict, 'fail')
    assert.deepEqual(
      report.findings.filter(({ verdict }) => verdict === 'fail').map(({ check }) => check),
      ['broker'],
    )
  })
})

test('the doctor, of a real Kafka, names what may not be read or joined, and topics whose dead letters have nowhere to go', async (t) => {
  if (!realKafka(t)) return
  const kafka = await startKafka({
    properties: {
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'allow.everyone.if.no.acl.found': 'true',
    },
  })
  t.after(() => kafka.stop())
  const env = { STREAMING_HUB_KAFKA_BROKERS: kafka.brokers.join(',') }
  const empty = await found(env)
  assert.deepEqual(empty['broker'], ['ok: 1 of them'])
  assert.deepEqual(empty['groups'], ['ok: may be joined'])
  assert.match(empty['topics']?.[0] ?? '', /^warn: there is none/)

  const admin = new Admin({ clientId: 'test', bootstrapBrokers: kafka.brokers })
  t.after(() => admin.close())
  const topics = ['lerian.streaming.lender', 'lerian.streaming.ledger', 'lerian.streaming.ledger.dlq']
  await admin.createTopics({ topics, partitions: 1, replicas: 1 })
  const [everybody, pattern] = [
    { principal: 'User:*', host: '*' },
    { resourcePatternType: ResourcePatternTypes.LITERAL },
  ]
  const maySee = {
    permissionType: AclPermissionTypes.ALLOW,
    operation: AclOperations.DESCRIBE,
    ...everybody,
    ...pattern,
  }
  const mayNotRead = {
    permissionType: AclPermissionTypes.DENY,
    operation: AclOperations.READ,
    ...everybody,
    ...pattern,
  }
  const topic = { resourceType: ResourceTypes.TOPIC, resourceName: 'lerian.streaming.lender' }
  const group = { resourceType: ResourceTypes.GROUP, resourceName: 'streaming-hub' }
  await admin.createAcls({
    creations: [
      { ...topic, ...maySee },
      { ...topic, ...mayNotRead },
      { ...group, ...maySee },
      { ...group, ...mayNotRead },
    ],
  })
  for (;;) {
    const report = await found(env)
    const inEffect = report['groups']?.[0]?.startsWith('fail') && report['topics']?.[1] !== undefined
    if (!inEffect || !report['topics']?.[0]?.includes('2 with facts')) continue
    assert.deepEqual(report['groups'], ['fail: may not be joined: streaming-hub'])
    assert.deepEqual(report['topics'], [
      'ok: 2 with facts, 1 with dead letters',
      'fail: may not be read: lerian.streaming.lender',
    ])
    assert.deepEqual(report['dead letters'], ['warn: nowhere to go for lerian.streaming.lender'])
    break
  }
})

test('it says who gets in, and whether the database keeps tenants apart', async () => {
  await using database = await testDatabase()
  assert.deepEqual((await onDatabase(database))['row security'], ['ok: tenants are kept apart by the database too'])
  assert.match(String((await onDatabase(database))['authentication']), /^ok: none, on loopback/)
  const beyond = await onDatabase(database, { STREAMING_HUB_HTTP_LISTEN_ADDR: ':0' })
  assert.match(String(beyond['authentication']), /^warn: none, on 0\.0\.0\.0/)
  const staging = {
    STREAMING_HUB_ENV: 'staging',
    STREAMING_HUB_ROLE: 'delivery',
    STREAMING_HUB_KEK_REF: 'KEK',
    KEK,
    STREAMING_HUB_DEV_KEK: '',
  }
  const closed = async () =>
    String((await found({ STREAMING_HUB_POSTGRES_DSN: database.dsn, ...staging }))['authentication'])
  assert.match(await closed(), /^fail: no active API key in staging/)
  const wish = { name: 'x', tenantId: null, scopes: ['admin' as const], expiresInMs: null, createdBy: 'test' }
  await createApiKey(wish, { pool: database.pool, clock: systemClock })
  assert.equal(await closed(), 'ok: API keys')
})
