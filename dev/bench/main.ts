// `npm run bench`: what the hub costs for each event, beside raw baselines of the same run on the same machine: the bare insert of
// the same rows, and the bare posts of the same bodies. Trust the ratios and the CPU µs; the rates are this machine's.
import assert from 'node:assert/strict'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Agent } from 'undici'
import { systemClock } from '../../src/base/clock.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { verdict } from '../../src/ingest/verdict.ts'
import type { ArrivedEvent } from '../../src/store/inbox.ts'
import type { Pool } from '../../src/store/pool.ts'
import { packed, timeOf } from '../../src/store/raw-record.ts'
import { BODY, dispatching, ingestDeps, record, subscribe, withBench } from './bench.ts'
import type { Bench } from './bench.ts'
import { cpuOf } from './cpu.ts'

const { values: args } = parseArgs({
  options: {
    events: { type: 'string', default: '20000' },
    tenants: { type: 'string', default: '1000' },
    batch: { type: 'string', default: '200' },
  },
})
const EVENTS = Number(args.events)
const TENANTS = Number(args.tenants)
const BATCH = Number(args.batch)
const ROUNDS = 5
/** Events that go in before anything is measured. */
const WARM_UP = 4_000
/** Events that are in but not out yet, in the last run. */
const MAX_BACKLOG = 3000

interface Figure {
  name: string
  seconds: number
  nodeUs: number
  postgresUs: number
  receiverUs: number
}

async function measure(bench: Bench, name: string, work: () => Promise<void>): Promise<Figure> {
  const others = async () => [await cpuOf(bench.postgresPid), await cpuOf(bench.receiver.process.pid ?? 0)] as const
  const before = await others()
  const own = process.cpuUsage()
  const started = performance.now()
  await work()
  const seconds = (performance.now() - started) / 1000
  const { user, system } = process.cpuUsage(own)
  const after = await others()
  return { name, seconds, nodeUs: user + system, postgresUs: after[0] - before[0], receiverUs: after[1] - before[1] }
}

/** What it works on is made before the time runs. */
interface Work {
  name: string
  prepare: () => () => Promise<void>
}

/** What is compared with each other takes turns, so that whatever else the machine does meets all of them alike. */
async function inTurns(bench: Bench, works: Work[]): Promise<Figure[]> {
  const sums = works.map(({ name }) => ({ name, seconds: 0, nodeUs: 0, postgresUs: 0, receiverUs: 0 }))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [n, { name, prepare }] of works.entries()) {
      const run = prepare()
      collectGarbage()
      const figure = await measure(bench, name, run)
      const sum = sums[n]!
      sum.seconds += figure.seconds
      sum.nodeUs += figure.nodeUs
      sum.postgresUs += figure.postgresUs
      sum.receiverUs += figure.receiverUs
    }
  }
  return sums
}

/** What was made before the time runs is not to be cleared away while it does. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

function ratio(a: Figure, b: Figure): string {
  return (b.seconds / a.seconds).toFixed(2)
}

// --- the baselines --------------------------------------------------------------------------------------------------------

/** The inbox's rows, and where asked for a delivery each, with the hub's own columns and indexes, and nothing else done. */
async function rawInsert(pool: Pool, rows: ArrivedEvent[][], text: string): Promise<void> {
  const client = await pool.connect()
  for (const batch of rows)
    await client.query({
      name: text === RAW_INSERT ? 'raw_insert' : 'raw_insert_and_queue',
      text,
      values: columnsOf(batch),
    })
  client.release()
}

const RAW_TABLES = `
create table raw_event (like event_inbox including defaults including constraints including indexes);
create table raw_delivery (like delivery including defaults including constraints including indexes)`

const RAW_EVENTS = `
with i as (
  select * from unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[],
    $12::integer[], $13::integer[], $14::text[], $15::integer[], $16::bigint[], $17::timestamptz[])
  i(tenant_id, ce_id, source, resource_type, event_key, schema_major, attributes, traceparent, tracestate, data_at, data_bytes, topic,
    kafka_partition, kafka_offset, record_time)
), e as (
  insert into raw_event (tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, attributes, traceparent,
    tracestate, data, data_bytes, topic, kafka_partition, kafka_offset, record_time)
  select tenant_id, ce_id, $1, source, resource_type, event_key, schema_major, attributes::json, traceparent, tracestate,
    substring($11::bytea from data_at for data_bytes), data_bytes, topic, kafka_partition, kafka_offset, record_time from i
)`
const RAW_INSERT = `${RAW_EVENTS} select`
const RAW_INSERT_AND_QUEUE = `${RAW_EVENTS}
insert into raw_delivery (id, tenant_id, subscription_id, ce_id, due_at, created_at)
select uuid7($1), tenant_id, '01900000-0000-7000-8000-000000000001', ce_id, $1, $1 from i`

function columnsOf(batch: ArrivedEvent[]): unknown[] {
  const data = packed(batch.map(({ event }) => event.data))
  return [
    new Date(),
    batch.map(({ event }) => event.tenantId),
    batch.map(({ event }) => event.id),
    batch.map(({ event }) => event.source),
    batch.map(({ event }) => event.resourceType),
    batch.map(({ event }) => event.key),
    batch.map(({ event }) => event.schemaMajor),
    batch.map(({ event }) => JSON.stringify(event.attributes)),
    batch.map(({ event }) => event.traceparent),
    batch.map(({ event }) => event.tracestate),
    data.blob,
    data.offsets,
    data.lengths,
    batch.map(({ record: { topic } }) => topic),
    batch.map(({ record: { position } }) => position?.partition),
    batch.map(({ record: { position } }) => position?.offset),
    batch.map(({ record: { timestamp } }) => timeOf(timestamp)),
  ]
}

function arrivedBatches(count = EVENTS): ArrivedEvent[][] {
  return [...batches('tenant', count)].map((batch) =>
    batch.map((each) => {
      const decision = verdict(each)
      assert(decision.kind === 'accept')
      return { event: decision.event, record: each }
    }),
  )
}

async function rawPosts(url: string): Promise<void> {
  const agent = new Agent({ connections: 128 })
  let left = EVENTS
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const { body } = await agent.request({ origin: new URL(url).origin, path: '/', method: 'POST', body: BODY })
      await body.dump()
    }
  }
  await Promise.all(Array.from({ length: 128 }, worker))
  await agent.close()
}

// --- the hub --------------------------------------------------------------------------------------------------------------

async function ingestAll(pool: Pool, records: IncomingRecord[][]): Promise<void> {
  const deps = ingestDeps(pool)
  for (const batch of records) await ingest(batch, deps)
}

async function deliverAll(pool: Pool): Promise<void> {
  const { dispatcher, stop } = dispatching(pool)
  await dispatcher.start()
  await delivered(pool, EVENTS)
  await stop()
}

async function together(pool: Pool): Promise<void> {
  const { dispatcher, metrics, stop } = dispatching(pool)
  await dispatcher.start()
  const deps = ingestDeps(pool, () => dispatcher.wake())
  const out = async (): Promise<number> =>
    (await metrics.attempts.get()).values.reduce((sum, { value }) => sum + value, 0)
  let sent = 0
  for (const batch of batches('tenant')) {
    while (sent - (await out()) > MAX_BACKLOG) await systemClock.sleep(5)
    await ingest(batch, deps)
    sent += batch.length
  }
  await delivered(pool, 2 * EVENTS)
  await stop()
}

async function delivered(pool: Pool, count: number): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ n: number }>(
      "select count(*) as n from delivery_history where state = 'delivered'",
    )
    if (rows[0]!.n >= count) return assert.equal(rows[0]!.n, count)
    await systemClock.sleep(100)
  }
}

function* batches(tenants: string, count = EVENTS): Generator<IncomingRecord[]> {
  for (let at = 0; at < count; at += BATCH) {
    yield Array.from({ length: Math.min(BATCH, count - at) }, (_, n) => record(`${tenants}-${(at + n) % TENANTS}`))
  }
}

// --- the report -----------------------------------------------------------------------------------------------------------

function print(figures: Figure[]): void {
  console.log(`\n${EVENTS} events of ${TENANTS} tenants, batches of ${BATCH}, bodies of ${BODY.length} bytes\n`)
  console.log(
    '| | events/s | node µs/event | PostgreSQL µs/event | receiver µs/event |\n| --- | ---: | ---: | ---: | ---: |',
  )
  for (const f of figures) {
    const per = (us: number): string => Math.round(us / EVENTS).toString()
    console.log(
      `| ${f.name} | ${Math.round(EVENTS / f.seconds)} | ${per(f.nodeUs)} | ${per(f.postgresUs)} | ${per(f.receiverUs)} |`,
    )
  }
}

// Last, because a module's constants exist only once it has been read to where they stand.
await withBench(async (bench) => {
  for (let n = 0; n < TENANTS; n++) await subscribe(bench.pool, { tenantId: `tenant-${n}`, url: bench.receiver.url })
  await bench.pool.query(RAW_TABLES)
  // Neither the first one nor the last one is to pay for what the runtime has yet to compile.
  await ingestAll(bench.pool, [...batches('stranger', WARM_UP)])
  await rawInsert(bench.pool, arrivedBatches(WARM_UP), RAW_INSERT)
  const inserting = (text: string) => () => {
    const rows = arrivedBatches(EVENTS / ROUNDS)
    return () => rawInsert(bench.pool, rows, text)
  }
  const ingesting = (tenants: 'tenant' | 'stranger') => () => {
    const records = [...batches(tenants, EVENTS / ROUNDS)]
    return () => ingestAll(bench.pool, records)
  }
  const figures = await inTurns(bench, [
    { name: 'raw insert of the inbox rows', prepare: inserting(RAW_INSERT) },
    { name: 'ingest: verdict, dedup, no match', prepare: ingesting('stranger') },
    { name: 'raw insert of the inbox and delivery rows', prepare: inserting(RAW_INSERT_AND_QUEUE) },
    { name: 'ingest: verdict, dedup, one match, queue', prepare: ingesting('tenant') },
  ])
  const [bare, unmatched, bareQueue, ingested] = figures as [Figure, Figure, Figure, Figure]
  const out = await measure(bench, 'deliver what is queued', () => deliverAll(bench.pool))
  const posts = await measure(bench, 'raw posts, 128 in the air', () => rawPosts(bench.receiver.url))
  const both = await measure(bench, 'ingest and deliver, 1:1', () => together(bench.pool))
  print([...figures, out, posts, both])
  console.log(`\ningest without a match / raw insert: ${ratio(unmatched, bare)}`)
  console.log(`ingest with one match / raw insert with deliveries: ${ratio(ingested, bareQueue)}`)
  console.log(`ingest and deliver / raw posts: ${ratio(both, posts)}`)
})
