// Time as a part that is handed over: production uses `systemClock`, tests a clock that they move themselves.
import { setTimeout as delay } from 'node:timers/promises'

export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Resolves after `ms` milliseconds (at most 2³¹−1: longer delays belong in the database), or at once when `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: async (ms, signal) => {
    // An abort ends the wait early; it is not an error for who waits.
    await delay(ms, undefined, signal ? { signal } : {}).catch(() => undefined)
  },
}
