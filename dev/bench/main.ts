// `npm run bench`: what the hub costs for each event, beside raw baselines of the same run on the same machine: the bare insert of
// the same rows, and the bare posts of the same bodies. Trust the ratios and the CPU µs; the rates are this machine's.
import assert from 'node:assert/strict'
import { parseArgs } from 'node:util'
import { Agent } from 'undici'
import { systemClock } from '../../src/base/clock.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import type { Pool } from '../../src/store/pool.ts'
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
  const used = async () =>
    [process.cpuUsage(), await cpuOf(bench.postgresPid), await cpuOf(bench.receiver.process.pid ?? 0)] as const
  const before = await used()
  const started = performance.now()
  await work()
  const seconds = (performance.now() - started) / 1000
  const after = await used()
  console.error(`${name}: ${Math.round(EVENTS / seconds)}/s`)
  return {
    name,
    seconds,
    nodeUs: after[0].user + after[0].system - before[0].user - before[0].system,
    postgresUs: after[1] - before[1],
    receiverUs: after[2] - before[2],
  }
}

function ratio(a: Figure, b: Figure): string {
  return (b.seconds / a.seconds).toFixed(2)
}

// --- the baselines --------------------------------------------------------------------------------------------------------

async function rawInsert(pool: Pool): Promise<void> {
  await pool.query(RAW_TABLE)
  const client = await pool.connect()
  for (const batch of batches()) {
    let at = 1
    const attributes = batch.map(({ headers }) =>
      JSON.stringify(Object.fromEntries(headers.map(([k, v]) => [String(k).slice(3), String(v)]))),
    )
    const values = [
      batch.map(({ headers }) => String(headers[8]?.[1])),
      batch.map(({ headers }) => String(headers[1]?.[1])),
      attributes,
      Buffer.concat(batch.map(() => BODY)),
      batch.map(() => (at += BODY.length) - BODY.length),
    ]
    await client.query({ name: 'raw_insert', text: RAW_INSERT, values: [...values, BODY.length] })
  }
  client.release()
}

const RAW_TABLE =
  'create table raw_event (tenant_id text, ce_id uuid, attributes json, data bytea, primary key (tenant_id, ce_id))'
const RAW_INSERT = `
insert into raw_event select t, i, a::json, substring($4::bytea from o for $6::int)
from unnest($1::text[], $2::uuid[], $3::text[], $5::int[]) r(t, i, a, o)`

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

async function ingestAll(pool: Pool): Promise<void> {
  const deps = ingestDeps(pool)
  for (const batch of batches()) await ingest(batch, deps)
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
  for (const batch of batches()) {
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

function* batches(): Generator<IncomingRecord[]> {
  for (let at = 0; at < EVENTS; at += BATCH) {
    yield Array.from({ length: Math.min(BATCH, EVENTS - at) }, (_, n) => record(`tenant-${(at + n) % TENANTS}`))
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
  const rawInserts = await measure(bench, 'raw insert of the same rows', () => rawInsert(bench.pool))
  const ingested = await measure(bench, 'ingest: verdict, dedup, match, queue', () => ingestAll(bench.pool))
  const out = await measure(bench, 'deliver what is queued', () => deliverAll(bench.pool))
  const posts = await measure(bench, 'raw posts, 128 in the air', () => rawPosts(bench.receiver.url))
  const both = await measure(bench, 'ingest and deliver, 1:1', () => together(bench.pool))
  print([rawInserts, ingested, out, posts, both])
  console.log(`\ningest / raw insert: ${ratio(ingested, rawInserts)}`)
  console.log(`ingest and deliver / raw posts: ${ratio(both, posts)}`)
})
