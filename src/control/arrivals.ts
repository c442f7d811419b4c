// Long polls wait here. However many wait, a process asks the database one question at a time: whose events have become readable
// since it asked last? It asks when ingest has told of something, again a moment later while transactions are under way, and now and
// then in any case. Nobody holds a connection while waiting.
//
//   nobody waits ─▶ somebody waits: pause until told, or for a while ─▶ look ─▶ wake those who have something ─┐
//        ▲                              ▲───────────────────── others wait on ─────────────────────────────────┤
//        └───────────────────────────────────────────────────────────────────────── nobody waits any more ────┘
import type { Clock } from '../base/clock.ts'
import { findArrivals } from '../store/pull.ts'
import type { Database } from '../store/pool.ts'

/** While something is under way: the shortest pause, doubled up to the longest, which is that of quiet times too. */
const PAUSE_MS = { shortest: 20, longest: 500 }

interface Waiter {
  tenantId: string
  wake: () => void
}

export class Arrivals {
  readonly #db: Database
  readonly #clock: Clock
  readonly #waiters = new Set<Waiter>()
  /** What is below it has been looked at. */
  #horizon = 0n
  #pause = PAUSE_MS.longest
  #told = new AbortController()
  #watching = false

  constructor(deps: { db: Database; clock: Clock }) {
    this.#db = deps.db
    this.#clock = deps.clock
  }

  get waiting(): number {
    return this.#waiters.size
  }

  /** Something has been stored: to be looked at now. */
  tell(): void {
    this.#pause = PAUSE_MS.shortest
    this.#told.abort()
  }

  /**
   * Resolves when the tenant may have events that could not be read when the horizon was at `since`, or when `signal` aborts. Never rejects:
   * while the database is away it lasts until then.
   */
  async arrived(tenantId: string, since: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    if (this.#waiters.size === 0) this.#begin(since)
    // Others have looked since the caller read: what they saw was told to those who waited then.
    else if (this.#horizon > BigInt(since)) return
    const woken = Promise.withResolvers<void>()
    const waiter = { tenantId, wake: () => woken.resolve() }
    signal.addEventListener('abort', waiter.wake, { once: true })
    this.#waiters.add(waiter)
    if (!this.#watching) void this.#watch()
    await woken.promise
    this.#waiters.delete(waiter)
    signal.removeEventListener('abort', waiter.wake)
    // Nobody to look for.
    if (this.#waiters.size === 0) this.#told.abort()
  }

  #begin(since: string): void {
    this.#horizon = BigInt(since)
    // What was under way when the caller read may be over by now.
    this.#pause = PAUSE_MS.shortest
  }

  async #watch(): Promise<void> {
    this.#watching = true
    while (this.#waiters.size > 0) {
      await this.#clock.sleep(this.#pause, this.#told.signal)
      this.#told = new AbortController()
      if (this.#waiters.size > 0) await this.#look()
    }
    this.#watching = false
  }

  async #look(): Promise<void> {
    try {
      const since = this.#horizon
      const { tenants, horizon, pending } = await findArrivals(this.#db, String(since))
      // Unless somebody has begun anew meanwhile, from further back.
      if (this.#horizon === since) this.#horizon = BigInt(horizon)
      this.#pause = pending ? Math.min(this.#pause * 2, PAUSE_MS.longest) : PAUSE_MS.longest
      const concerned = tenants && new Set(tenants)
      for (const { tenantId, wake } of this.#waiters) if (concerned?.has(tenantId) ?? true) wake()
    } catch {
      // The pool has said so, and the next look comes.
      this.#pause = PAUSE_MS.longest
    }
  }
}
