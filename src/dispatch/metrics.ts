// What dispatch counts. Names and units by Prometheus conventions; never a tenant or a subscription as a label.
import { Counter, Gauge, Histogram } from '@prometheus-io/client'
import type { Registry } from '../base/metrics.ts'

export type DispatchMetrics = ReturnType<typeof dispatchMetrics>

/** Defines dispatch's metrics on `registry`. */
export function dispatchMetrics(registry: Registry) {
  const registers = [registry]
  return {
    claims: new Counter({ name: 'hub_claims_total', help: 'Claims made', registers }),
    claimSeconds: new Histogram({
      name: 'hub_claim_seconds',
      help: 'Time of one claim',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1],
      registers,
    }),
    attempts: new Counter({
      name: 'hub_attempts_total',
      help: 'Attempts by outcome and error class',
      labelNames: ['outcome', 'error_class'] as const,
      registers,
    }),
    attemptSeconds: new Histogram({
      name: 'hub_attempt_seconds',
      help: 'Time of one attempt',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    endToEndSeconds: new Histogram({
      name: 'hub_end_to_end_seconds',
      help: "From an event's record time to the 2xx, replays left out; attempt: first, or later, where the back-off counts",
      labelNames: ['attempt'] as const,
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600, 21_600, 108_000],
      registers,
    }),
    inAir: new Gauge({ name: 'hub_attempts_in_air', help: 'Lanes whose attempts are under way', registers }),
    deadLettered: new Counter({
      name: 'hub_dead_lettered_total',
      help: 'Deliveries dead-lettered by reason',
      labelNames: ['reason'] as const,
      registers,
    }),
    postponed: new Counter({
      name: 'hub_postponed_total',
      help: 'Attempts not made because the hub could not open what they need, by reason',
      labelNames: ['reason'] as const,
      registers,
    }),
    shed: new Counter({ name: 'hub_shed_total', help: 'Lanes shed by an open breaker', registers }),
    breakerOpened: new Counter({ name: 'hub_breaker_opened_total', help: 'Times a breaker opened', registers }),
    reclaimed: new Counter({ name: 'hub_reclaimed_total', help: 'Leases that ran out', registers }),
    autodisabled: new Counter({ name: 'hub_autodisabled_total', help: 'Subscriptions switched off', registers }),
    malformedSchedules: new Counter({
      name: 'hub_malformed_schedules_total',
      help: 'Attempts whose stored retry schedule was malformed, and the default curve was used',
      registers,
    }),
    flushSize: new Histogram({
      name: 'hub_flush_outcomes',
      help: 'Outcomes written by one flush',
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
      registers,
    }),
    flushFailures: new Counter({ name: 'hub_flush_failures_total', help: 'Flushes that failed', registers }),
  }
}
