// A dispatcher on a test's database, moved by hand: no loops, a clock that stands still, a scripted sink.
import { silentLog } from '../../src/base/log.ts'
import type { Log } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import type { Tracer } from '../../src/base/tracing.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import type { AttemptDeps } from '../../src/dispatch/attempt.ts'
import type { DispatchOptions } from '../../src/dispatch/dispatcher.ts'
import { dispatchMetrics, type DispatchMetrics } from '../../src/dispatch/metrics.ts'
import type { Destination, Sink } from '../../src/sinks/sink.ts'
import type { Pool } from '../../src/store/pool.ts'
import type { ManualClock } from './clock.ts'
import { seededRandom } from './random.ts'

export const testOptions: DispatchOptions = {
  workers: 8,
  claimBatch: 16,
  idleIntervalMs: 250,
  poisonThreshold: 5,
  autodisable: { enabled: true, windowMs: 120 * 3_600_000, spreadMs: 12 * 3_600_000 },
}

export function testDispatcher(deps: {
  pool: Pool
  clock: ManualClock
  sink: Sink
  options?: Partial<DispatchOptions>
  random?: () => number
  log?: Log
  metrics?: DispatchMetrics
  tracer?: Tracer | null
  /** In place of one that no sink can reach. */
  destination?: Destination
  /** In place of both. */
  destinationOf?: AttemptDeps['destinationOf']
}): Dispatcher {
  const { pool, clock, sink } = deps
  return new Dispatcher({
    pool,
    clock,
    log: deps.log ?? silentLog,
    tracer: deps.tracer ?? null,
    metrics: deps.metrics ?? dispatchMetrics(createRegistry({ processMetrics: false })),
    random: deps.random ?? seededRandom(1),
    options: { ...testOptions, ...deps.options },
    destinationOf: async (lane) =>
      (await deps.destinationOf?.(lane)) ?? {
        sink,
        destination: deps.destination ?? {
          subscriptionId: lane.subscriptionId,
          tenantId: lane.tenantId,
          sink: { kind: 'webhook', url: 'https://example.com/', headers: {} },
          contentMode: 'binary',
          timeoutMs: lane.timeoutMs,
          signingKeys: [],
        },
      },
  })
}

/** Claims and runs until the ring holds nothing that can be claimed. */
export async function drain(dispatcher: Dispatcher): Promise<void> {
  while ((await dispatcher.claim()) > 0) await dispatcher.settled()
}
