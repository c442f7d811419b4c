// `npm run bench:fairness`: how long a single event of a small tenant takes, on an idle hub, and beside two tenants with a backlog of
// 100,000 deliveries each, one to a destination that is dead and one to a receiver that takes thirty seconds for each.
import { parseArgs } from 'node:util'
import { systemClock } from '../../src/base/clock.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import type { IngestDeps } from '../../src/ingest/ingest.ts'
import { dispatching, ingestDeps, record, subscribe, withBench } from './bench.ts'
import type { Bench } from './bench.ts'

const { values: args } = parseArgs({
  options: {
    backlog: { type: 'string', default: '100000' },
    subscriptions: { type: 'string', default: '20' },
    events: { type: 'string', default: '200' },
  },
})
const BACKLOG = Number(args.backlog)
const SUBSCRIPTIONS = Number(args.subscriptions)
const EVENTS = Number(args.events)
const EVERY_MS = 50

await withBench(async (bench) => {
  const { pool, receiver } = bench
  await subscribe(pool, { tenantId: 'small', url: `${receiver.url}timed` })
  const { dispatcher, stop } = dispatching(pool)
  const deps = ingestDeps(pool, () => dispatcher.wake())
  await dispatcher.start()
  const idle = await latencies(bench, deps)

  for (let n = 0; n < SUBSCRIPTIONS; n++) {
    // Nobody listens on port 1; each path is a destination of its own, with a breaker of its own.
    await subscribe(pool, { tenantId: 'dead', url: `http://127.0.0.1:1/${n}` })
    await subscribe(pool, { tenantId: 'slow', url: `${receiver.url}slow`, timeoutMs: 60_000 })
  }
  for (const tenantId of ['dead', 'slow']) {
    for (let queued = 0; queued < BACKLOG; queued += 100 * SUBSCRIPTIONS) {
      await ingest(
        Array.from({ length: 100 }, () => record(tenantId)),
        deps,
      )
    }
  }
  await pool.query('vacuum analyze delivery')
  const loaded = await latencies(bench, deps)
  const { rows } = await pool.query<{ tenant: string; n: number }>(
    'select tenant_id as tenant, count(*) as n from delivery group by 1 order by 1',
  )
  console.log(
    `\nfrom the ingest of one event to its arrival at the receiver, ${EVENTS} events, one each ${EVERY_MS} ms\n`,
  )
  console.log('| | p50 ms | p99 ms | slowest ms |\n| --- | ---: | ---: | ---: |')
  print('idle', idle)
  print(rows.map(({ tenant, n }) => `${n} waiting for "${tenant}"`).join(', '), loaded)
  await stop(AbortSignal.abort())
})

/** Milliseconds of each event, in ascending order. */
async function latencies({ receiver }: Bench, deps: IngestDeps): Promise<number[]> {
  const arrived = new Map<string, number>()
  const note = (message: { id: string; at: number }): void => void arrived.set(message.id, message.at)
  receiver.process.on('message', note)
  const sent = new Map<string, number>()
  for (let n = 0; n < EVENTS; n++) {
    const event = record('small')
    sent.set(String(event.headers[1]?.[1]), Date.now())
    await ingest([event], deps)
    await systemClock.sleep(EVERY_MS)
  }
  while (arrived.size < EVENTS) await systemClock.sleep(20)
  receiver.process.off('message', note)
  return [...sent].map(([id, at]) => arrived.get(id)! - at).sort((a, b) => a - b)
}

function print(name: string, sorted: number[]): void {
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0
  console.log(`| ${name} | ${at(0.5)} | ${at(0.99)} | ${at(1)} |`)
}
