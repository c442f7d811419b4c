// A sleep that someone else can end early: what a loop waits on between two turns.
import type { Clock } from '../base/clock.ts'

export class Waker {
  readonly #clock: Clock
  #alarm = new AbortController()
  #woken = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Ends the sleep under way, or, where nobody sleeps, the next one before it begins. */
  wake(): void {
    this.#woken = true
    this.#alarm.abort()
  }

  /** Resolves after `ms`, on `wake`, or when `stopped` aborts. */
  async sleep(ms: number, stopped: AbortSignal): Promise<void> {
    if (!this.#woken && !stopped.aborted) {
      this.#alarm = new AbortController()
      await this.#clock.sleep(ms, AbortSignal.any([this.#alarm.signal, stopped]))
    }
    this.#woken = false
  }
}
