// The circuit breaker of one (tenant, destination), as a value: five failures in a row open it, and what comes due then is
// shed instead of sent; after a cool-down a single probe goes through and decides. Every failed outcome counts, whatever its
// class, and any success closes it. The caller stores the state, under a lock, and asks `admit` before each attempt.
//
//               5 failures in a row                    blockedUntil has passed: startProbe
//     closed ───────────────────────────▶ open ───────────────────────────────────────────▶ half_open ─┐
//       ▲                                 │  ▲                                               │   │  ▲   │ the probe's time has passed
//       │        a late success           │  │            a failure: open for longer         │   │  └───┘ without an outcome: startProbe
//       ├─────────────────────────────────┘  └───────────────────────────────────────────────┘   │
//       └────────────────────────────────────────────────────────────────────────────────────────┘
//                                                                                       a success
//
// A failure while open, or while half open of another attempt than the probe, is of an attempt that was in the air when it opened, and
// changes nothing: it must not lengthen the wait.

export interface BreakerState {
  state: 'closed' | 'open' | 'half_open'
  /** Failures in a row. */
  failures: number
  /** How many times it has opened since it was last closed: the cool-down doubles with each. */
  opened: number
  /** Epoch ms. open: until when everything is shed; half_open: how long the one probe may last; closed: null. */
  blockedUntil: number | null
}

export type Admission = 'pass' | 'probe' | { shedUntil: number }

export const CLOSED: BreakerState = Object.freeze({ state: 'closed', failures: 0, opened: 0, blockedUntil: null })

export const OPENS_AFTER_FAILURES = 5
export const FIRST_COOL_DOWN_MS = 30_000
export const LONGEST_COOL_DOWN_MS = 600_000
/** A cool-down lasts between its step and a fifth more: never less, and not all breakers of one outage probe at once. */
export const COOL_DOWN_JITTER = 0.2

/** May an attempt start at `now` (epoch ms)? On `probe` the caller stores `startProbe` first; only who stored it may send. */
export function admit(breaker: BreakerState, now: number): Admission {
  if (breaker.state === 'closed') return 'pass'
  const { blockedUntil } = breaker
  return blockedUntil !== null && now < blockedUntil ? { shedUntil: blockedUntil } : 'probe'
}

/** The state while the probe is in the air. If no outcome has come by `until` (epoch ms), another probe may go. */
export function startProbe(breaker: BreakerState, until: number): BreakerState {
  return { ...breaker, state: 'half_open', blockedUntil: until }
}

/** The state after an attempt's outcome; `probe`: it was let through as such. `random` gives numbers in [0, 1). */
export function afterOutcome(
  breaker: BreakerState,
  outcome: { delivered: boolean; probe: boolean; now: number; random: () => number },
): BreakerState {
  if (outcome.delivered) return CLOSED
  if (breaker.state === 'open' || (breaker.state === 'half_open' && !outcome.probe)) return breaker
  const failed = { ...breaker, failures: breaker.failures + 1 }
  // A half-open one has had its five failures already: the probe's alone opens it again.
  return failed.failures < OPENS_AFTER_FAILURES ? failed : open(failed, outcome)
}

function open(breaker: BreakerState, at: { now: number; random: () => number }): BreakerState {
  const step = Math.min(FIRST_COOL_DOWN_MS * 2 ** breaker.opened, LONGEST_COOL_DOWN_MS)
  const coolDown = step + Math.floor(at.random() * COOL_DOWN_JITTER * step)
  return { ...breaker, state: 'open', opened: breaker.opened + 1, blockedUntil: at.now + coolDown }
}
