// `npm run bench:backlog`: what it costs to claim and finish one delivery while many others wait in the same table: µs of this process
// and of PostgreSQL for each, at one depth after the other. Nothing is sent: the sink says yes at once. The cost has to be flat: the
// dearest depth at most a fifth above the cheapest one, else the exit code is 1. Each depth has a database of its own.
import { parseArgs } from 'node:util'
import { systemClock } from '../../src/base/clock.ts'
import type { Sink } from '../../src/sinks/sink.ts'
import { wakeLanes } from '../../src/store/lanes.ts'
import type { Pool } from '../../src/store/pool.ts'
import { dispatching, subscribe, withBench } from './bench.ts'
import type { Bench } from './bench.ts'
import { cpuOf } from './cpu.ts'

const { values: args } = parseArgs({
  options: {
    depths: { type: 'string', default: '10000,100000,1000000' },
    events: { type: 'string', default: '8000' },
    rounds: { type: 'string', default: '3' },
    tenants: { type: 'string', default: '1000' },
  },
})
const EVENTS = Number(args.events)
const ROUNDS = Number(args.rounds)
const TENANTS = Number(args.tenants)
/** Before each measurement, so that plans, caches and connections are what they will be. */
const WARM_UP = 1000
const FLAT = 1.2
const CHUNK = 100_000

interface Cost {
  depth: number
  nodeUs: number
  postgresUs: number
  claimMs: number
  perSecond: number
  tableMb: number
}

const sayYes: Sink = {
  deliver: async () => ({ kind: 'delivered', status: 200, response: Buffer.alloc(0) }),
  probe: async () => ({ kind: 'delivered', status: 200, response: Buffer.alloc(0) }),
  close: async () => undefined,
}

/** The cheapest of several rounds: what the machine does beside can only make one dearer. */
async function costAt(depth: number): Promise<Cost> {
  let cheapest: Cost | null = null
  await withBench(async (bench) => {
    const { pool } = bench
    for (let n = 0; n < TENANTS; n++) await subscribe(pool, { tenantId: `tenant-${n}`, url: bench.receiver.url })
    for (let round = 0; round < ROUNDS; round++) {
      // Half of what a round finishes lies above the depth, and half below it.
      await fill(pool, round === 0 ? depth + Math.round((EVENTS + WARM_UP) / 2) : EVENTS + WARM_UP)
      await pool.query('vacuum analyze')
      const cost = await measure(bench, depth)
      console.error(`${depth}, round ${round + 1}: ${Math.round(totalOf(cost))} µs`)
      if (cheapest === null || totalOf(cost) < totalOf(cheapest)) cheapest = cost
    }
  })
  return cheapest!
}

let filled = 0

/** `count` deliveries of as many events, in the lanes by turns; written as the hub would leave them, but faster. */
async function fill(pool: Pool, count: number): Promise<void> {
  const client = await pool.connect()
  await client.query('set enable_seqscan = on; set statement_timeout = 0')
  for (const end = filled + count; filled < end; filled = Math.min(filled + CHUNK, end)) {
    await client.query(FILL, [filled, Math.min(filled + CHUNK, end) - 1, TENANTS])
  }
  const { rows } = await client.query<{ id: string }>('select subscription_id as id from lane')
  await wakeLanes(
    client,
    rows.map(({ id }) => id),
  )
  client.release(true)
}

const FILL = `
with event as materialized (
  select n, 'tenant-' || n % $3::integer as tenant,
    (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid as id
  from generate_series($1::bigint, $2::bigint) n
), stored as (
  insert into event_inbox (tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, attributes, data,
    data_bytes, topic)
  select tenant, id, now(), 'lender', 'loan', 'loan.approved', 1,
    json_build_object('specversion', '1.0', 'id', id, 'source', 'lender', 'type', 'studio.lerian.lender.loan.approved'),
    '{"amount":"1200.00"}'::bytea, 20, 'lerian.streaming.lender'
  from event
)
insert into delivery (id, tenant_id, subscription_id, ce_id, due_at, created_at)
select (left(e.id::text, 19) || 'f' || substring(e.id::text from 21))::uuid, e.tenant, l.subscription_id, e.id, now(), now()
from event e join lane l on l.tenant_id = e.tenant order by e.n`

async function measure({ pool, postgresPid }: Bench, depth: number): Promise<Cost> {
  const { dispatcher, metrics, stop } = dispatching(pool, sayYes)
  const finished = async (): Promise<number> =>
    (await metrics.attempts.get()).values.reduce((sum, v) => sum + v.value, 0)
  const claims = async (): Promise<{ sum: number; count: number }> => {
    const { values } = await metrics.claimSeconds.get()
    const of = (end: string): number => values.find(({ metricName }) => metricName?.endsWith(end))?.value ?? 0
    return { sum: of('_sum'), count: of('_count') }
  }
  const look = async () => ({
    at: performance.now(),
    node: process.cpuUsage(),
    postgres: await cpuOf(postgresPid),
    finished: await finished(),
    claims: await claims(),
  })
  await dispatcher.start()
  while ((await finished()) < WARM_UP) await systemClock.sleep(2)
  const before = await look()
  while ((await finished()) < WARM_UP + EVENTS) await systemClock.sleep(2)
  const after = await look()
  await stop()
  const events = after.finished - before.finished
  const { rows } = await pool.query<{ mb: number }>(
    "select (pg_total_relation_size('delivery') / 1048576.0)::float8 as mb",
  )
  return {
    depth,
    nodeUs: (after.node.user + after.node.system - before.node.user - before.node.system) / events,
    postgresUs: (after.postgres - before.postgres) / events,
    claimMs: ((after.claims.sum - before.claims.sum) / (after.claims.count - before.claims.count)) * 1000,
    perSecond: (events / (after.at - before.at)) * 1000,
    tableMb: rows[0]?.mb ?? 0,
  }
}

function totalOf({ nodeUs, postgresUs }: Cost): number {
  return nodeUs + postgresUs
}

const costs: Cost[] = []
for (const depth of args.depths.split(',').map(Number)) costs.push(await costAt(depth))
console.log(`\n${TENANTS} lanes, ${EVENTS} deliveries finished at each depth, the cheapest of ${ROUNDS} rounds\n`)
console.log('| waiting | node µs | PostgreSQL µs | together µs | one claim ms | deliveries/s | table and indexes MiB |')
console.log('| ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
for (const cost of costs) {
  const cells = [cost.depth, cost.nodeUs, cost.postgresUs, totalOf(cost)].map(Math.round)
  console.log(
    `| ${cells.join(' | ')} | ${cost.claimMs.toFixed(1)} | ${Math.round(cost.perSecond)} | ${Math.round(cost.tableMb)} |`,
  )
}
const totals = costs.map(totalOf)
const spread = Math.max(...totals) / Math.min(...totals)
console.log(`\nthe dearest is ${spread.toFixed(2)} times the cheapest: ${spread <= FLAT ? 'flat' : 'NOT flat'}`)
process.exitCode = spread <= FLAT ? 0 : 1
