// A subscription's health as the API shows it.
import { LATENCY_BOUNDS_MS } from '../../store/outcome-hours.ts'
import { percentile } from '../percentile.ts'
import type { SubscriptionHealthJson } from '../schemas/subscription-health.ts'
import type { HealthSettings, SubscriptionHealth } from '../subscription-health.ts'
import { isoTime, isoTimeOrNull } from './bytes.ts'

export function viewHealth(h: SubscriptionHealth, { autodisable }: HealthSettings): SubscriptionHealthJson {
  const { counts, queue } = h
  const latency = (fraction: number) => percentile(counts.latencies, LATENCY_BOUNDS_MS, fraction)
  return {
    subscription_id: h.subscription.id,
    since: isoTime(h.since),
    until: isoTime(h.until),
    success_rate: rate(counts.delivered, counts.failed),
    attempts: {
      total: counts.delivered + counts.failed + counts.outcomeUnknown,
      delivered: counts.delivered,
      failed: counts.failed,
      outcome_unknown: counts.outcomeUnknown,
    },
    deliveries: {
      delivered: counts.deliveriesDelivered,
      dead_lettered: counts.deliveriesDeadLettered,
      success_rate: rate(counts.deliveriesDelivered, counts.deliveriesDeadLettered),
    },
    latency_ms: { p50: latency(0.5), p95: latency(0.95) },
    last_success_at: isoTimeOrNull(counts.lastDeliveredAt),
    last_failure_at: isoTimeOrNull(queue.lastFailureAt ?? counts.lastFailedAt),
    failure_streak: viewStreak(queue),
    breaker: {
      state: queue.breaker.state,
      failures: queue.breaker.failures,
      opened: queue.breaker.opened,
      blocked_until: isoTimeOrNull(queue.breaker.blockedUntil),
    },
    backlog: viewBacklog(h),
    auto_disable: { enabled: autodisable.enabled, disables_at: isoTimeOrNull(h.disablesAt) },
  }
}

function rate(good: number, bad: number): number | null {
  return good + bad === 0 ? null : good / (good + bad)
}

function viewStreak({
  firstFailureAt,
  lastFailureAt,
}: SubscriptionHealth['queue']): SubscriptionHealthJson['failure_streak'] {
  if (!firstFailureAt || !lastFailureAt) return null
  return { first_failure_at: isoTime(firstFailureAt), last_failure_at: isoTime(lastFailureAt) }
}

function viewBacklog({ queue, isExact, until, nextAttemptAt }: SubscriptionHealth): SubscriptionHealthJson['backlog'] {
  const age = queue.oldest && Math.max(0, Math.floor((until.getTime() - queue.oldest.getTime()) / 1000))
  return {
    state: queue.state,
    queued: queue.queued,
    retrying: queue.retrying,
    is_exact: isExact,
    oldest_created_at: isoTimeOrNull(queue.oldest),
    oldest_age_seconds: age,
    next_attempt_at: isoTimeOrNull(nextAttemptAt),
  }
}
