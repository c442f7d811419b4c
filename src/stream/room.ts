// Memory for what record batches have become: decompressed bytes and records as objects, which are many times what the broker sent.
// A batch is opened only while less than the budget is held, so that never more is held than the budget and one batch more,
// however many partitions have something to be written. Who waits comes in in the order of coming.

export class Room {
  readonly #budget: number
  readonly #waiting: (() => void)[] = []
  #held = 0
  /** Somebody has been let in and has not taken yet. */
  #entering = false

  constructor(budgetBytes: number) {
    this.#budget = budgetBytes
  }

  /** Bytes held at the moment. */
  get held(): number {
    return this.#held
  }

  /** Whether `enter` would let in at once. */
  get isOpen(): boolean {
    return this.#waiting.length === 0 && !this.#entering && this.#held < this.#budget
  }

  /** Resolves when there is room: `take` is to follow at once. Rejects when `left` aborts before that. */
  async enter(left: AbortSignal): Promise<void> {
    if (!this.isOpen) await this.#turn(left)
    this.#entering = true
  }

  take(bytes: number): void {
    this.#held += bytes
    this.#entering = false
    this.#letIn()
  }

  give(bytes: number): void {
    this.#held -= bytes
    this.#letIn()
  }

  async #turn(left: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const leave = (): void => {
      const place = this.#waiting.indexOf(resolve)
      if (place < 0) return
      this.#waiting.splice(place, 1)
      reject(new Error('what waited for room is no longer wanted'))
    }
    this.#waiting.push(resolve)
    left.addEventListener('abort', leave, { once: true })
    if (left.aborted) leave()
    await promise.finally(() => left.removeEventListener('abort', leave))
  }

  #letIn(): void {
    if (this.#entering || this.#held >= this.#budget) return
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#entering = true
    next()
  }
}
