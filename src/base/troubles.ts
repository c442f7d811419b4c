// Troubles that last: each is logged once when it begins and once when it is over, however often it is met in between, and the
// first one still open is what health shows.
import { messageOf } from './errors.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'

export interface Trouble {
  message: string
  /** Epoch ms. */
  since: number
}

export class Troubles {
  readonly #open = new Map<string, Trouble>()
  readonly #log: Log
  readonly #clock: Clock

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** `subject` is what cannot be done, as the log line shall say it; `reason` is kept up to date, and not logged again. */
  raise(subject: string, reason: unknown): void {
    const message = typeof reason === 'string' ? reason : messageOf(reason)
    const known = this.#open.get(subject)
    if (known === undefined) this.#log.warn({ reason: message }, subject)
    this.#open.set(subject, { message, since: known?.since ?? this.#clock.now() })
  }

  clear(subject: string): void {
    const known = this.#open.get(subject)
    if (known === undefined) return
    this.#open.delete(subject)
    this.#log.info({ lasted_ms: this.#clock.now() - known.since }, `${subject}: over`)
  }

  /** As `clear`, where it is not over but no longer our matter. */
  forget(subject: string): void {
    this.#open.delete(subject)
  }

  find(subject: string): Trouble | null {
    return this.#open.get(subject) ?? null
  }
}
