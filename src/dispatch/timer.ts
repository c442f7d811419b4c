// What time alone brings about: retries come due, leases run out, streaks get old. Every replica runs it; each row is done by one.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { cancelDeleted } from '../store/cancel.ts'
import { tickLanes } from '../store/lanes.ts'
import type { Pool } from '../store/pool.ts'
import { disableForStreak, openStreaks } from '../store/streaks.ts'
import { isDue } from './autodisable.ts'
import type { DispatchMetrics } from './metrics.ts'

export interface TimerOptions {
  poisonThreshold: number
  autodisable: { enabled: boolean; windowMs: number; spreadMs: number }
}

/** Lanes that one tick takes of each kind; the rest is for the next one. */
const LANES_PER_TICK = 500
/** Deliveries of deleted subscriptions that one tick cancels. */
const CANCELLED_PER_TICK = 1000

interface TimerDeps {
  clock: Clock
  log: Log
  metrics: DispatchMetrics
  options: TimerOptions
}

/** Brings everything up to the clock's time; answers how many lanes are ready again. */
export async function tick(pool: Pool, deps: TimerDeps): Promise<number> {
  const now = new Date(deps.clock.now())
  const { poisonThreshold, autodisable } = deps.options
  const lanes = await tickLanes(pool, { now, limit: LANES_PER_TICK, poisonThreshold })
  if (lanes.expired > 0) deps.log.warn(lanes, 'leases ran out: a worker crashed, or was cut off')
  deps.metrics.reclaimed.inc(lanes.expired)
  deps.metrics.deadLettered.inc({ reason: 'poisoned' }, lanes.poisoned)
  if (autodisable.enabled) await disableBroken(pool, deps, now)
  const cancelled = await cancelDeleted(pool, now, CANCELLED_PER_TICK)
  deps.metrics.deadLettered.inc({ reason: 'cancelled' }, cancelled)
  return lanes.ready
}

async function disableBroken(pool: Pool, deps: TimerDeps, now: Date): Promise<void> {
  const limits = deps.options.autodisable
  const began = new Date(now.getTime() - limits.windowMs)
  for (const streak of await openStreaks(pool, { began, spreadMs: limits.spreadMs })) {
    if (!isDue(streak, now.getTime(), limits)) continue
    const reason = `failing since ${new Date(streak.firstFailureAt).toISOString()} without one success`
    if (!(await disableForStreak(pool, streak, { reason, now }))) continue
    deps.metrics.autodisabled.inc()
    deps.log.warn(
      { tenant_id: streak.tenantId, subscription_id: streak.subscriptionId, reason },
      'subscription switched off',
    )
  }
}
