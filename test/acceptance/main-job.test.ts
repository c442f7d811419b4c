// The main job on real input: events of fifty tenants through a real Kafka, a hub in a process of its own, real webhooks. Once
// undisturbed, with exact counts and order; once with the hub killed ten times on the way.
import assert from 'node:assert/strict'
import { isUtf8 } from 'node:buffer'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'
import { Webhook } from 'standardwebhooks'
import type { Pool } from '../../src/store/pool.ts'
import { testDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { spawnHub, startHub } from '../support/hub.ts'
import { ownKafka } from '../support/kafka.ts'
import { seededRandom } from '../support/random.ts'

const TENANTS = Array.from({ length: 50 }, (_, n) => `tenant-${n}`)
const PARTITIONS = 12
const EVENTS = 10_000
const SHARE = { duplicate: 0.05, malformed: 0.02, system: 0.01 }

// --- what is sent ---------------------------------------------------------------------------------------------------------

interface Sent {
  tenantId: string
  id: string
  source: string
  key: string
  major: number
  body: Buffer
  kind: 'event' | 'duplicate' | 'malformed' | 'system'
}

const BODIES = [
  Buffer.from('{"amount":123456789012345678901234567890.12}'),
  Buffer.from('{"a":1,"a":2}'),
  Buffer.from('{"nul":"\\u0000","lone":"\\ud800"}'),
  Buffer.from('\ufeff{"bom":true}'),
  Buffer.alloc(0),
  Buffer.from([0, 255, 0xed, 0xa0, 0x80]),
]

function plan(sources: readonly string[], random: () => number): Sent[] {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const sent: Sent[] = []
  const events: Sent[] = []
  for (let n = 0; n < EVENTS; n++) {
    const kind = random()
    if (kind < SHARE.duplicate && events.length > 0) {
      sent.push({ ...pick(events), kind: 'duplicate' })
      continue
    }
    const event: Sent = {
      tenantId: pick(TENANTS),
      id: uuid7(),
      source: sources[n < EVENTS / 2 ? n % (sources.length - 1) : n % sources.length]!,
      key: pick(['loan.approved', 'loan.rejected', 'account.opened']),
      major: pick([1, 1, 1, 2]),
      body: random() < 0.1 ? pick(BODIES) : Buffer.from(`{"n":${n}}`),
      kind: 'event',
    }
    if (n === 7) event.body = Buffer.alloc(1 << 20, '7')
    if (kind > 1 - SHARE.malformed) event.kind = 'malformed'
    else if (kind > 1 - SHARE.malformed - SHARE.system) event.kind = 'system'
    else events.push(event)
    sent.push(event)
  }
  return sent
}

function headersOf(sent: Sent): [Buffer, Buffer][] {
  const [resource, event] = sent.key.split('.')
  const attributes: Record<string, string> = {
    specversion: '1.0',
    id: sent.kind === 'malformed' ? `${sent.id.slice(0, 14)}4${sent.id.slice(15)}` : sent.id,
    source: sent.source,
    type: `studio.lerian.${sent.source}.${sent.key}`,
    time: '2026-05-14T13:47:30.123456789Z',
    schemaversion: `${sent.major}.0.0`,
    resourcetype: resource!,
    eventtype: event!,
    tenantid: sent.tenantId,
    ...(sent.kind === 'system' && { systemevent: 'true' }),
  }
  return Object.entries(attributes).map(([name, value]) => [Buffer.from(`ce-${name}`), Buffer.from(value)])
}

const topic = (source: string): string => `lerian.streaming.${source}`

/** Every tenant's events are in one partition of each topic, in the order of the plan. */
async function produce(producer: Producer, sent: readonly Sent[], topicOf: (sent: Sent) => string): Promise<void> {
  for (let at = 0; at < sent.length; at += 200) {
    const messages = sent.slice(at, at + 200).map((one) => ({
      topic: topicOf(one),
      partition: TENANTS.indexOf(one.tenantId) % PARTITIONS,
      key: Buffer.from(one.tenantId),
      value: one.body,
      headers: new Map(headersOf(one)),
    }))
    await producer.send({ messages, acks: -1 })
  }
}

// --- who receives it ------------------------------------------------------------------------------------------------------

interface Received {
  path: string
  eventId: string
  body: Buffer
  headers: IncomingHttpHeaders
}

/** Takes everything on every path; what it is sent must be signed by the secret of that path. */
async function receiverOf(t: TestContext, timeout: string) {
  const received: Received[] = []
  const secrets = new Map<string, string>()
  const unsigned: string[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request)
      const path = request.url ?? ''
      if (request.headers['x-lerian-event-type'] === 'hub.verification') {
        return response.end(JSON.parse(body.toString()).challenge)
      }
      if (!isSigned(request.headers, body, secrets.get(path) ?? '')) unsigned.push(path)
      received.push({ path, eventId: String(request.headers['x-lerian-event-id']), body, headers: request.headers })
      return response.end('ok')
    })()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeout, received, secrets, unsigned }
}

/** By the library that receivers use; it reads bodies as text, so what is no UTF-8, or has a mark to strip, is checked by hand. */
function isSigned(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  if (isUtf8(body) && !body.subarray(0, 3).equals(Buffer.from('\ufeff'))) {
    try {
      new Webhook(secret).verify(body, headers as Record<string, string>, { jsonParse: false })
    } catch {
      return false
    }
  }
  const signed = Buffer.concat([
    Buffer.from(`${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.`),
    body,
  ])
  const mac = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
    .update(signed)
    .digest('base64')
  return headers['webhook-signature'] === `v1,${mac}`
}

interface Wish {
  path: string
  tenantId: string
  wants: (sent: Sent) => boolean
}

/** Per tenant: one exact type, one resource of one origin and major; for some also everything; and two that must get nothing. */
async function subscribeAll(
  api: string,
  receiver: Awaited<ReturnType<typeof receiverOf>>,
  sources: readonly string[],
): Promise<Wish[]> {
  const wishes: Wish[] = []
  const create = async (tenantId: string, body: object, wants: (sent: Sent) => boolean): Promise<string> => {
    const path = `/${tenantId}/${wishes.length}`
    const sink = { kind: 'webhook', url: `${receiver.url}${path}`, timeout: receiver.timeout }
    const made = await call(`${api}/v1/subscriptions`, 'POST', tenantId, { name: path, sink, ...body })
    receiver.secrets.set(path, String(made['signing_secret']))
    wishes.push({ path, tenantId, wants: (sent) => sent.tenantId === tenantId && wants(sent) })
    return String(made['id'])
  }
  for (const [n, tenantId] of TENANTS.entries()) {
    const ids = [
      await create(tenantId, { event_types: ['loan.approved'] }, ({ key }) => key === 'loan.approved'),
      await create(
        tenantId,
        { event_types: ['loan.*'], origin: sources[0], schema_major: 1 },
        ({ key, source, major }) => key.startsWith('loan.') && source === sources[0] && major === 1,
      ),
    ]
    if (n % 10 === 0) ids.push(await create(tenantId, { event_types: ['*'] }, () => true))
    const disabled = await create(tenantId, { event_types: ['*'] }, () => false)
    for (const id of [...ids, disabled]) await call(`${api}/v1/subscriptions/${id}/verify`, 'POST', tenantId)
    await call(`${api}/v1/subscriptions/${disabled}`, 'PATCH', tenantId, { enabled: false })
  }
  return wishes
}

async function call(url: string, method: string, tenantId: string, body?: object): Promise<Record<string, unknown>> {
  const headers = { 'x-tenant-id': tenantId, ...(body && { 'content-type': 'application/json' }) }
  const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${url}: ${response.status} ${text}`)
  return JSON.parse(text || '{}')
}

// --- the runs -------------------------------------------------------------------------------------------------------------

async function setUp(t: TestContext, { seed, timeout }: { seed: number; timeout: string }) {
  const brokers = await ownKafka(t)
  if (!brokers) return null
  const database = await testDatabase()
  const dataDir = await mkdtemp(join(tmpdir(), 'hub-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const run = `${process.pid}-${seed}`
  const sources = [`lender-${run}`, `matcher-${run}`, `ledger-${run}`]
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: brokers })
  const producer = new Producer({
    clientId: 'test',
    bootstrapBrokers: brokers,
    idempotent: true,
  })
  t.after(async () => {
    await producer.close()
    await admin.close()
  })
  const create = (topics: string[]) =>
    admin.createTopics({
      topics,
      partitions: PARTITIONS,
      replicas: 1,
      configs: [{ name: 'max.message.bytes', value: '4000000' }],
    })
  const sent = plan(sources, seededRandom(seed))
  await create([topic(sources[0]!), topic(sources[1]!), `${topic(sources[0]!)}.dlq`, `${topic(sources[0]!)}.commands`])
  const decoys = sent
    .filter(({ kind }) => kind === 'event')
    .slice(0, 500)
    .map((one) => ({ ...one, id: uuid7() }))
  await produce(producer, decoys, ({ source }) => `${topic(sources[0]!)}.${source === sources[0] ? 'dlq' : 'commands'}`)
  const variables = {
    STREAMING_HUB_POSTGRES_DSN: database.dsn,
    STREAMING_HUB_KAFKA_BROKERS: brokers.join(),
    STREAMING_HUB_KAFKA_GROUP: `hub-${run}`,
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    STREAMING_HUB_DATA_DIR: dataDir,
  }
  const half = sent.slice(0, EVENTS / 2)
  const rest = sent.slice(EVENTS / 2)
  return {
    database,
    sources,
    sent,
    half,
    rest,
    variables,
    producer,
    create,
    topic,
    receiver: await receiverOf(t, timeout),
  }
}

function expectedOf(wishes: readonly Wish[], sent: readonly Sent[]): Map<string, string[]> {
  const events = sent.filter(({ kind }) => kind === 'event')
  return new Map(wishes.map(({ path, wants }) => [path, events.filter(wants).map(({ id }) => id)]))
}

async function allDone(pool: Pool, events: number, deliveries: number): Promise<void> {
  for (const deadline = Date.now() + 240_000; ; await delay(100)) {
    const { rows } = await pool.query<{ events: number; done: number }>(
      "select (select count(*) from event_inbox)::int as events, (select count(*) from delivery_history where state = 'delivered')::int as done",
    )
    const [now] = rows
    if (now!.events >= events && now!.done >= deliveries) return
    assert.ok(
      Date.now() < deadline,
      `only ${now!.events} of ${events} events, ${now!.done} of ${deliveries} deliveries`,
    )
  }
}

function byPath(received: readonly Received[]): Map<string, string[]> {
  const paths = new Map<string, string[]>()
  for (const { path, eventId } of received) paths.set(path, [...(paths.get(path) ?? []), eventId])
  return paths
}

test(
  'every accepted event reaches its tenant and nobody else, once, in order, byte for byte; the counts are exact',
  { timeout: 300_000 },
  async (t) => {
    const run = await setUp(t, { seed: 1, timeout: '60s' })
    if (!run) return
    const { database, sources, sent, receiver, producer } = run
    const hub = await startHub(run.variables)
    t.after(() => hub.kill())
    const wishes = await subscribeAll(hub.url, receiver, sources)
    await produce(producer, run.half, ({ source }) => topic(source))
    await run.create([topic(sources[2]!)])
    await produce(producer, run.rest, ({ source }) => topic(source))

    const expected = expectedOf(wishes, sent)
    const count = (kind: Sent['kind']): number => sent.filter((one) => one.kind === kind).length
    const deliveries = [...expected.values()].reduce((sum, { length }) => sum + length, 0)
    await allDone(database.pool, count('event'), deliveries)

    const metrics = await (await fetch(`${hub.url}/metrics`)).text()
    const counted = (verdict: string): number =>
      Number(new RegExp(`^hub_ingested_records_total\\{verdict="${verdict}"\\} (\\d+)`, 'm').exec(metrics)?.[1] ?? 0)
    assert.deepEqual(
      {
        accepted: counted('accepted'),
        duplicate: counted('duplicate'),
        dropped: counted('dropped'),
        quarantined: counted('quarantined'),
      },
      {
        accepted: count('event'),
        duplicate: count('duplicate'),
        dropped: count('system'),
        quarantined: count('malformed'),
      },
    )
    const { rows } = await database.pool.query(
      'select count(*)::int as n, count(distinct topic)::int as topics from quarantine',
    )
    assert.deepEqual(rows, [{ n: count('malformed'), topics: 3 }])

    const got = byPath(receiver.received)
    const sourceOf = new Map(sent.map(({ id, source }) => [id, source]))
    for (const { path } of wishes) {
      const ids = got.get(path) ?? []
      assert.deepEqual(ids.toSorted(), expected.get(path)!.toSorted(), `${path} gets what it wants, each once`)
      for (const source of sources) {
        const from = (all: readonly string[]): string[] => all.filter((id) => sourceOf.get(id) === source)
        assert.deepEqual(from(ids), from(expected.get(path)!), `${path} gets ${source}'s in the partition's order`)
      }
    }
    assert.deepEqual(
      [...got.keys()].filter((path) => !expected.has(path)),
      [],
    )
    assert.deepEqual(receiver.unsigned, [])
    const bodies = new Map(sent.map(({ id, body }) => [id, body]))
    for (const { eventId, body } of receiver.received)
      assert.ok(body.equals(bodies.get(eventId)!), `the body of ${eventId}`)
    assert.equal(await hub.stop(), 0)
  },
)

test(
  'killed ten times on the way, nothing is lost, the inbox holds each event once, and nobody gets what is not theirs',
  { timeout: 600_000 },
  async (t) => {
    const run = await setUp(t, { seed: 2, timeout: '2s' })
    if (!run) return
    const { database, sources, sent, receiver, producer } = run
    const random = seededRandom(3)
    const first = await startHub(run.variables)
    const wishes = await subscribeAll(first.url, receiver, sources)
    await first.stop()
    await run.create([topic(sources[2]!)])
    let reached = 0
    for (let kills = 0; kills < 10; kills++) {
      const chunk = sent.slice((kills * EVENTS) / 10, ((kills + 1) * EVENTS) / 10)
      await produce(producer, chunk, ({ source }) => topic(source))
      const hub = spawnHub(run.variables)
      t.after(() => hub.kill())
      // From its start, when it only joins the group, to well into the work.
      await delay(500 + random() * 9_000)
      await hub.kill()
      const { rows } = await database.pool.query<{ n: number }>('select count(*)::int as n from event_inbox')
      if (rows[0]!.n > reached) reached = rows[0]!.n
    }
    const last = await startHub(run.variables)
    t.after(() => last.kill())
    const expected = expectedOf(wishes, sent)
    const events = sent.filter(({ kind }) => kind === 'event').length
    const deliveries = [...expected.values()].reduce((sum, { length }) => sum + length, 0)
    await allDone(database.pool, events, deliveries)
    t.diagnostic(`killed ten times, ${reached} of ${events} events were in by the last time`)

    const { rows } = await database.pool.query(
      'select (select count(*) from event_inbox)::int as events, (select count(*) from quarantine)::int as quarantined, (select count(*) from delivery)::int as unfinished, (select count(*) from delivery_history)::int as deliveries',
    )
    const malformed = sent.filter(({ kind }) => kind === 'malformed').length
    assert.deepEqual(rows, [{ events, quarantined: malformed, unfinished: 0, deliveries }])
    const got = byPath(receiver.received)
    for (const { path } of wishes) {
      assert.deepEqual(
        [...new Set(got.get(path))].toSorted(),
        expected.get(path)!.toSorted(),
        `${path} gets each at least once`,
      )
    }
    assert.deepEqual(receiver.unsigned, [])
    t.diagnostic(`${deliveries} deliveries, ${receiver.received.length - deliveries} of them more than once`)
    assert.equal(await last.stop(), 0)
  },
)
