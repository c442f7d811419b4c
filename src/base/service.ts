// The one lifecycle of everything long-lived. The composition root starts services in order and stops them in reverse.

export interface Service {
  readonly name: string
  /** Resolves when the service works; rejects when it cannot. */
  start(): Promise<void>
  /** Finishes what is under way, as far as `deadline` allows; once it aborts, lets go at once. May be called twice, also before `start`. Never rejects. */
  stop(deadline: AbortSignal): Promise<void>
}
