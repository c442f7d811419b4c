// A subscription's health: what became of its attempts and deliveries over a window, and what it waits for now.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { disablesAt, type StreakLimits } from '../dispatch/autodisable.ts'
import type { Subscription } from '../event/subscription.ts'
import { findQueue, sumOutcomes, type OutcomeCounts, type QueueState } from '../store/health.ts'
import type { TenantDatabase } from '../store/tenant.ts'
import { getSubscription } from './subscriptions.ts'

export interface HealthSettings {
  windowMs: number
  autodisable: StreakLimits & { enabled: boolean }
}

export interface SubscriptionHealth {
  subscription: Subscription
  /** The beginning of an hour. */
  since: Date
  until: Date
  counts: OutcomeCounts
  queue: QueueState
  /** There is no more in the queue than was counted. */
  isExact: boolean
  /** Null: nothing, as it is. */
  nextAttemptAt: Date | null
  /** When it will be switched off if every attempt until then fails; null: it will not be. */
  disablesAt: Date | null
}

const HOUR_MS = 3_600_000
const COUNT_UP_TO = 10_000

/** Throws `not_found`. */
export async function readHealth(
  db: TenantDatabase,
  id: string,
  { clock, health }: { clock: Clock; health: HealthSettings },
): Promise<SubscriptionHealth> {
  const now = clock.now()
  const since = new Date(Math.floor((now - health.windowMs) / HOUR_MS) * HOUR_MS)
  const subscription = await getSubscription(db, id)
  const counts = await sumOutcomes(db, { subscriptionId: id, since })
  const queue = await findQueue(db, { subscriptionId: id, countUpTo: COUNT_UP_TO })
  if (!queue) throw new HubError('not_found', 'There is no such subscription.')
  return {
    subscription,
    since,
    until: new Date(now),
    counts,
    queue,
    isExact: queue.queued < COUNT_UP_TO && queue.retrying < COUNT_UP_TO,
    nextAttemptAt: nextAttemptAt(subscription, queue),
    disablesAt: forecast(subscription, queue, health),
  }
}

function nextAttemptAt({ enabled, verificationState }: Subscription, queue: QueueState): Date | null {
  if (!enabled || verificationState !== 'active' || queue.nextDue === null) return null
  const heldUntil = [queue.blockedUntil, queue.breaker.blockedUntil].map((time) => time?.getTime() ?? 0)
  return new Date(Math.max(queue.nextDue.getTime(), ...heldUntil))
}

function forecast(
  { enabled }: Subscription,
  { firstFailureAt, lastFailureAt }: QueueState,
  { autodisable }: HealthSettings,
): Date | null {
  if (!enabled || !autodisable.enabled || !firstFailureAt || !lastFailureAt) return null
  const streak = { firstFailureAt: firstFailureAt.getTime(), lastFailureAt: lastFailureAt.getTime() }
  return new Date(disablesAt(streak, autodisable))
}
