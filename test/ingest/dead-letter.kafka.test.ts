// Producers' dead letters on a real Kafka, through a hub in a process of its own: all of them are kept, once, whatever they hold, and
// nothing of them is delivered, although they are valid events of a tenant that subscribes to everything.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'
import { readTopicLimits } from '../../src/stream/topic-limits.ts'
import { Wire } from '../../src/stream/wire.ts'
import { testDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { startHub } from '../support/hub.ts'
import { ownKafka } from '../support/kafka.ts'
import { startReceiver } from '../support/receiver.ts'
import { header, recordWith } from '../support/records.ts'

const LENDER = 'lerian.streaming.lender'
const LEDGER = 'lerian.streaming.ledger'
const TENANT = 'acme'
const VALID = 300
const FACTS = 20
const GIVE_UP_MS = 60_000

/** Looks until it holds, as a person who watches does. */
async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + GIVE_UP_MS; !(await holds()); await delay(50))
    assert.ok(Date.now() < deadline, `never: ${what}`)
}

interface Message {
  headers: Map<Buffer, Buffer>
  key?: Buffer
  value?: Buffer
}

function validEvent(): Message & { id: string } {
  const id = uuid7()
  const { headers } = recordWith({ id, tenantid: TENANT })
  return {
    id,
    headers: new Map(headers as [Buffer, Buffer][]),
    key: Buffer.from(TENANT),
    value: Buffer.from('{"ok":true}'),
  }
}

function validDeadLetter(nth: number): Message {
  const { headers, ...event } = validEvent()
  const fields = {
    'source-topic': LENDER,
    'error-class': `E${nth % 3}`,
    'cause-kind': nth % 2 === 0 ? 'codec' : 'handler',
    'retry-count': String(nth),
  }
  for (const [name, value] of Object.entries(fields))
    headers.set(Buffer.from(`x-lerian-dlq-${name}`), Buffer.from(value))
  return { ...event, headers }
}

const junk = Buffer.from([0xff, 0x00, 0xed, 0xa0, 0x80])

/** Nothing that anybody could read. */
function malformed(): Message[] {
  const names = [
    'ce-tenantid',
    'ce-id',
    'x-lerian-dlq-error-class',
    'x-lerian-dlq-retry-count',
    'x-lerian-dlq-error-class',
  ]
  const twice = names.map((name, nth) => header(name, nth % 2 === 0 ? junk : 'x')) as [Buffer, Buffer][]
  return [
    { headers: new Map() },
    { headers: new Map(), value: Buffer.alloc(0) },
    { headers: new Map(twice), key: junk, value: junk },
    { headers: new Map([[junk, junk]]) },
    { headers: new Map([[Buffer.from('x-lerian-dlq-error-message'), Buffer.alloc(300_000, 'ä')]]) },
    { headers: new Map(), value: Buffer.alloc(900_000, 1) },
  ]
}

async function clientsOf(t: TestContext, brokers: string[]) {
  const client = { clientId: 'test', bootstrapBrokers: brokers }
  const [admin, producer] = [new Admin(client), new Producer(client)]
  t.after(async () => await Promise.allSettled([producer.close(), admin.close()]))
  const topic = async (name: string, maxMessageBytes: number): Promise<void> => {
    const configs = [{ name: 'max.message.bytes', value: String(maxMessageBytes) }]
    await admin.createTopics({ topics: [name], partitions: 2, replicas: 1, configs })
  }
  const send = async (name: string, messages: readonly Message[]): Promise<void> => {
    for (let at = 0; at < messages.length; at += 100) {
      const some = messages.slice(at, at + 100).map((message, nth) => ({ topic: name, partition: nth % 2, ...message }))
      await producer.send({ messages: some, acks: -1 })
    }
  }
  return { admin, topic, send }
}

async function call<T>(url: string, body?: object): Promise<T> {
  const headers = { 'x-tenant-id': TENANT, ...(body && { 'content-type': 'application/json' }) }
  const response = await fetch(url, { headers, ...(body && { method: 'POST', body: JSON.stringify(body) }) })
  const text = await response.text()
  assert.ok(response.ok, `${url}: ${response.status} ${text}`)
  return JSON.parse(text) as T
}

interface Topic {
  topic: string
  kind: string
  state: string
  dead_letters: string | null
}

interface Lag {
  group: string
  topic: string
  lag: number | null
}

async function setUp(t: TestContext) {
  const brokers = await ownKafka(t)
  if (!brokers) return null
  const database = await testDatabase()
  const dataDir = await mkdtemp(join(tmpdir(), 'hub-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const clients = await clientsOf(t, brokers)
  await clients.topic(LENDER, 2_000_000)
  await clients.topic(`${LENDER}.dlq`, 1_000_000)
  await clients.topic(`${LENDER}.commands`, 1_000_000)
  await clients.topic(LEDGER, 1_000_000)
  await clients.topic('payments', 1_000_000)
  const start = async () => {
    const hub = await startHub({
      STREAMING_HUB_POSTGRES_DSN: database.dsn,
      STREAMING_HUB_KAFKA_BROKERS: brokers.join(),
      STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
      STREAMING_HUB_RECONCILER_INTERVAL: '1s',
      STREAMING_HUB_DATA_DIR: dataDir,
    })
    t.after(() => hub.kill())
    return hub
  }
  const count = async (table: string): Promise<number> =>
    (await database.pool.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]!.n
  return { ...clients, start, count }
}

test('dead letters that are valid events of a subscribed tenant are kept once, and none is delivered', async (t) => {
  const run = await setUp(t)
  if (!run) return
  const { admin, send, start, count } = run
  await using receiver = await startReceiver((response, { body }) => {
    const { challenge } = JSON.parse(body.toString()) as { challenge?: string }
    response.end(challenge ?? 'ok')
  })
  const dead = [...Array.from({ length: VALID }, (_, nth) => validDeadLetter(nth)), ...malformed()]
  await send(`${LENDER}.dlq`, dead)
  const hub = await start()
  const sink = { kind: 'webhook', url: receiver.url }
  const { id } = await call<{ id: string }>(`${hub.url}/v1/subscriptions`, { name: 'all', event_types: ['*'], sink })
  await call(`${hub.url}/v1/subscriptions/${id}/verify`, {})
  await until('all were kept', async () => (await count('producer_dead_letter')) >= dead.length)

  // What comes after them shows that the subscription works, and that nothing of theirs was in line before it.
  const facts = Array.from({ length: FACTS }, validEvent)
  await send(LENDER, facts)
  await send(`${LENDER}.dlq`, [validDeadLetter(0)])
  await until('the facts were delivered', async () => (await count('delivery_history')) >= FACTS)
  await until('the last was kept', async () => (await count('producer_dead_letter')) >= dead.length + 1)

  const { items } = await call<{ items: { cause_kind: string | null; count: number }[] }>(
    `${hub.url}/admin/dlq/counts?by=cause_kind&tenant_id=${TENANT}`,
  )
  assert.deepEqual(
    items.map(({ cause_kind, count: n }) => [cause_kind, n]),
    [
      ['codec', VALID / 2 + 1],
      ['handler', VALID / 2],
    ],
  )

  // The group forgets where it was, so that everything is read a second time.
  assert.equal(await hub.stop(), 0)
  await admin.deleteGroups({ groups: ['streaming-hub-dlq'] })
  const again = await start()
  await send(`${LENDER}.dlq`, [validDeadLetter(1)])
  await until('all was read again', async () => (await count('producer_dead_letter')) >= dead.length + 2)
  await until('no lag is left', async () => {
    const lag = (await call<{ items: Lag[] }>(`${again.url}/admin/lag`)).items
    return lag.filter(({ group }) => group === 'streaming-hub-dlq').length === 2 && lag.every((each) => each.lag === 0)
  })
  assert.equal(await count('producer_dead_letter'), dead.length + 2)

  assert.equal(await count('event_inbox'), FACTS)
  assert.equal(await count('delivery'), 0)
  assert.equal(await count('delivery_history'), FACTS)
  assert.equal(await count('quarantine'), 0)
  const delivered = receiver.requests.filter(({ headers }) => headers['x-lerian-event-type'] !== 'hub.verification')
  assert.equal(delivered.length, FACTS)
  assert.deepEqual(
    new Set(delivered.map(({ headers }) => headers['x-lerian-event-id'])),
    new Set(facts.map((fact) => fact.id)),
  )
  await again.stop()
})

test('each topic’s standing is shown, counted and told; both groups’ lag is', async (t) => {
  const run = await setUp(t)
  if (!run) return
  const { topic, send, start } = run
  const hub = await start()
  await send(LENDER, [validEvent()])
  const topics = async (): Promise<Topic[]> => (await call<{ items: Topic[] }>(`${hub.url}/admin/topics`)).items
  const standing = async (name: string): Promise<(string | null)[]> => {
    const found = (await topics()).find((each) => each.topic === name)
    return found ? [found.kind, found.state, found.dead_letters] : []
  }
  await until('the limits were read', async () => (await standing(LENDER))[2] === 'too_small')
  assert.deepEqual(await standing(LENDER), ['facts', 'subscribed', 'too_small'])
  assert.deepEqual(await standing(`${LENDER}.dlq`), ['dead_letters', 'subscribed', null])
  assert.deepEqual(await standing(`${LENDER}.commands`), ['commands', 'ignored', null])
  assert.deepEqual(await standing(LEDGER), ['facts', 'subscribed', 'missing'])
  assert.deepEqual(await standing('payments'), ['other', 'foreign', null])
  await topic(`${LEDGER}.dlq`, 1_000_000)
  await until('it has room now', async () => (await standing(LEDGER))[2] === 'ok')

  const metrics = async (): Promise<string> => await (await fetch(`${hub.url}/metrics`)).text()
  await until('the counts have followed', async () => (await metrics()).includes('{standing="dead_letters_missing"} 0'))
  const text = await metrics()
  assert.match(text, /hub_topics\{standing="dead_letters_too_small"\} 1/)
  assert.match(text, /hub_topics\{standing="subscribed"\} 4/)
  for (const [group, name] of [
    ['streaming-hub', LENDER],
    ['streaming-hub-dlq', `${LENDER}.dlq`],
  ])
    await until(`the lag of ${group} is counted`, async () =>
      (await metrics()).includes(`hub_stream_lag_records{group="${group}",topic="${name}",partition="0"} 0`),
    )
  const told = hub.lines.filter((line) => line.includes('dead letters'))
  assert.equal(told.filter((line) => line.includes(LENDER)).length, 1, told.join('\n'))
  assert.equal(told.filter((line) => line.includes(LEDGER)).length, 1, told.join('\n'))

  const { checks } = await call<{ checks: { name: string; problem: string | null; advisory: boolean }[] }>(
    `${hub.url}/readyz`,
  )
  const ofStreams = checks.filter(({ name }) => ['stream', 'progress', 'dead_letters'].includes(name))
  assert.deepEqual(
    ofStreams.map(({ name, problem, advisory }) => [name, problem, advisory]),
    [
      ['stream', null, false],
      ['progress', null, false],
      ['dead_letters', null, true],
    ],
  )
  await hub.stop()
})

test('a topic whose limit the broker does not tell leaves the others’ known', async (t) => {
  const brokers = await ownKafka(t)
  if (!brokers) return
  const { topic } = await clientsOf(t, brokers)
  await topic(LENDER, 1_234_567)
  const wire = new Wire({ brokers, clientId: 'test' }, 10_000)
  t.after(() => wire.close())
  const limits = await readTopicLimits(wire, brokers, [LEDGER, LENDER])
  assert.deepEqual(limits, new Map([[LENDER, 1_234_567]]))
})
