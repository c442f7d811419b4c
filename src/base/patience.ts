// Waiting with a limit: for work that is abandoned, not cancelled, when it takes too long.
import type { Clock } from './clock.ts'

/** Resolves when `work` has settled, however, or when `limit` has aborted. */
export async function settledBefore(limit: AbortSignal, work: Promise<unknown>): Promise<void> {
  if (limit.aborted) return
  const { promise: limitReached, resolve } = Promise.withResolvers<void>()
  const reached = (): void => resolve()
  limit.addEventListener('abort', reached, { once: true })
  await Promise.race([limitReached, Promise.allSettled([work])])
  limit.removeEventListener('abort', reached)
}

/** As `settledBefore`, where the limit is a time in ms. Leaves no timer behind. */
export async function settledWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const settled = new AbortController()
  const abort = (): void => settled.abort()
  void work.then(abort, abort)
  await clock.sleep(ms, settled.signal)
}
