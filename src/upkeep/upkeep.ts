// What has to be done now and then, by one replica at a time: each chore under its own advisory lock.
import type { PoolClient } from 'pg'
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import type { Pool } from '../store/pool.ts'
import { onlyOne } from '../store/singleton.ts'

export interface Chore {
  /** Names its lock, and it in the log. */
  name: string
  everyMs: number
  /** Answers what it did, for the log; null when there was nothing to do. */
  run: (client: PoolClient, now: Date) => Promise<Record<string, unknown> | null>
}

/** A chore that failed is tried again after this long, or its own interval if that is shorter. */
const RETRY_MS = 60_000

export class Upkeep implements Service {
  readonly name = 'upkeep'
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #log: Log
  readonly #chores: readonly Chore[]
  readonly #stopping = new AbortController()
  #loops: Promise<void>[] = []

  constructor(deps: { pool: Pool; clock: Clock; log: Log; chores: readonly Chore[] }) {
    this.#pool = deps.pool
    this.#clock = deps.clock
    this.#log = deps.log
    this.#chores = deps.chores
  }

  /** Resolves when every chore has been done once, here or by another replica, or has failed and will be tried again. */
  async start(): Promise<void> {
    const pauses = await Promise.all(this.#chores.map((chore) => this.#once(chore)))
    this.#loops = this.#chores.map((chore, at) => this.#repeat(chore, pauses[at] ?? chore.everyMs))
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#loops)
  }

  async #repeat(chore: Chore, firstPause: number): Promise<void> {
    for (let pause = firstPause; ; pause = await this.#once(chore)) {
      await this.#clock.sleep(pause, this.#stopping.signal)
      if (this.#stopping.signal.aborted) return
    }
  }

  /** Does it, and answers how long to wait until the next time. */
  async #once({ name, everyMs, run }: Chore): Promise<number> {
    try {
      const done = await onlyOne(this.#pool, name, (client) => run(client, new Date(this.#clock.now())))
      if (done) this.#log.info({ chore: name, ...done }, 'upkeep')
      return everyMs
    } catch (error) {
      this.#log.warn({ chore: name, err: messageOf(error) }, 'upkeep failed')
      return Math.min(everyMs, RETRY_MS)
    }
  }
}
