// Waiting to be told to stop: Ctrl-C, or an orchestrator's SIGTERM.
import { constants } from 'node:os'

type StopSignal = 'SIGINT' | 'SIGTERM'

export interface StopSignals {
  /** Resolves at the first signal. */
  told: Promise<StopSignal>
  /** Aborts at the second one. The third ends the process at once. */
  hurry: AbortSignal
}

/** A terminal and npm each send one for the same Ctrl-C: what comes so soon after another one counts as the same. */
const SAME_MS = 250

/** Listens from now on. */
export function stopSignals(): StopSignals {
  const told = Promise.withResolvers<StopSignal>()
  const hurry = new AbortController()
  let times = 0
  let last = -Infinity
  const take = (signal: StopSignal): void => {
    const now = performance.now()
    if (now - last < SAME_MS) return
    last = now
    times++
    if (times === 1) told.resolve(signal)
    else if (times === 2) hurry.abort()
    else process.exit(128 + constants.signals[signal])
  }
  process.on('SIGINT', take).on('SIGTERM', take)
  return { told: told.promise, hurry: hurry.signal }
}

/** Resolves at the first SIGINT or SIGTERM; for what has nothing to finish. */
export async function interrupted(): Promise<void> {
  await stopSignals().told
}
