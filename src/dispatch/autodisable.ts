// Is a destination so long broken that its subscription is switched off? Looks at the open failure streak alone, never at
// counts, so that a destination with one event a day and one with a thousand a second are judged alike. Both conditions are
// needed: the streak is sustained, and its failures are spread (one burst before a silence proves nothing).

/** The failures since the last success. */
export interface FailureStreak {
  /** Epoch ms. */
  firstFailureAt: number
  /** Epoch ms. */
  lastFailureAt: number
}

/** True when at `now` (epoch ms) the streak has lasted at least `windowMs`, and at least `spreadMs` lie between its first and last failure. */
export function isDue(streak: FailureStreak, now: number, limits: { windowMs: number; spreadMs: number }): boolean {
  const sustained = now - streak.firstFailureAt >= limits.windowMs
  const spread = streak.lastFailureAt - streak.firstFailureAt >= limits.spreadMs
  return sustained && spread
}
