// Is a destination so long broken that its subscription is switched off? Looks at the open failure streak alone, never at
// counts, so that a destination with one event a day and one with a thousand a second are judged alike. Both conditions are
// needed: the streak is sustained, and its failures are spread (one burst before a silence proves nothing).
import type { FailureClass } from '../sinks/sink.ts'

/** The failures since the last success. */
export interface FailureStreak {
  /** Epoch ms. */
  firstFailureAt: number
  /** Epoch ms. */
  lastFailureAt: number
}

export interface StreakLimits {
  windowMs: number
  spreadMs: number
}

/** Failures that need not be the destination's own: they neither begin a streak nor prolong one. */
const OF_OTHERS: readonly (string | null)[] = ['proxy', 'tunnel'] satisfies FailureClass[]

export function isOfDestination(errorClass: string | null): boolean {
  return !OF_OTHERS.includes(errorClass)
}

/** True when at `now` (epoch ms) the streak has lasted at least `windowMs`, and at least `spreadMs` lie between its first and last failure. */
export function isDue(streak: FailureStreak, now: number, limits: StreakLimits): boolean {
  const sustained = now - streak.firstFailureAt >= limits.windowMs
  const spread = streak.lastFailureAt - streak.firstFailureAt >= limits.spreadMs
  return sustained && spread
}

/** When at the earliest (epoch ms) an open streak is due, if every attempt until then fails. */
export function disablesAt({ firstFailureAt, lastFailureAt }: FailureStreak, limits: StreakLimits): number {
  const isSpread = lastFailureAt - firstFailureAt >= limits.spreadMs
  return firstFailureAt + (isSpread ? limits.windowMs : Math.max(limits.windowMs, limits.spreadMs))
}
