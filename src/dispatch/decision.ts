// What an attempt's outcome means for its delivery: pure, so that the whole retry behaviour can be read and tested here.
// Every failure is tried again while the schedule has a step left: not even a 410 ends a delivery early.
import type { Outcome } from '../sinks/sink.ts'
import { nextDelay } from './backoff.ts'

export type Decision =
  | { kind: 'delivered' }
  /** `dueAt` in epoch ms. */
  | { kind: 'retry'; dueAt: number }
  | { kind: 'dead_letter'; reason: 'exhausted' }

/**
 * Decides on a finished attempt. `failures` counts the steps that are used up, this attempt's included: 1 when the first
 * attempt has just ended. `now` in epoch ms; `random` gives numbers in [0, 1).
 */
export function decide(attempt: {
  outcome: Outcome
  failures: number
  schedule: readonly number[]
  now: number
  random: () => number
}): Decision {
  const { outcome, now } = attempt
  if (outcome.kind === 'delivered') return { kind: 'delivered' }
  const delay = nextDelay({ ...attempt, retryAfter: outcome.retryAfter })
  return delay === null ? { kind: 'dead_letter', reason: 'exhausted' } : { kind: 'retry', dueAt: now + delay }
}
