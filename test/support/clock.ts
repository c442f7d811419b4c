// A clock that stands still until a test moves it. Whoever sleeps on it wakes when it has been moved far enough.
import type { Clock } from '../../src/base/clock.ts'

export interface ManualClock extends Clock {
  /** Moves time on by `ms` and wakes those whose time has come. */
  advance(ms: number): void
  /** Moves time on to `at` (epoch ms), never back. */
  moveTo(at: number): void
}

/** Starts at `start`, epoch ms. */
export function manualClock(start: number = Date.parse('2026-05-14T13:00:00Z')): ManualClock {
  let now = start
  const sleepers = new Set<{ until: number; wake: () => void }>()
  const moveTo = (at: number): void => {
    now = Math.max(now, at)
    for (const sleeper of [...sleepers].sort((a, b) => a.until - b.until)) if (sleeper.until <= now) sleeper.wake()
  }
  return {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve()
        const wake = (): void => {
          sleepers.delete(sleeper)
          signal?.removeEventListener('abort', wake)
          resolve()
        }
        const sleeper = { until: now + ms, wake }
        sleepers.add(sleeper)
        signal?.addEventListener('abort', wake, { once: true })
      }),
    advance: (ms) => moveTo(now + ms),
    moveTo,
  }
}
