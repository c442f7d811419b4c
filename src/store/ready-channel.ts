// How replicas that ingest tell those that deliver that there is something in the ring, by NOTIFY. It only saves waiting: who
// misses it looks by itself a moment later.
import { Client } from 'pg'
import type { Clock } from '../base/clock.ts'
import type { Service } from '../base/service.ts'
import type { Database } from './pool.ts'

const CHANNEL = 'streaming_hub_ready'
const RECONNECT_MS = 1_000
/** PostgreSQL serialises commits that notify: one notice covers all that happens within this time. */
const QUIET_MS = 10

/** A function that tells the listening replicas; calls within a few milliseconds of each other are one. Never rejects. */
export function readyNotifier(db: Database, clock: Clock): () => void {
  let pending = false
  const notify = async (): Promise<void> => {
    pending = true
    await clock.sleep(QUIET_MS)
    pending = false
    await db.query(`notify ${CHANNEL}`).catch(() => undefined)
  }
  return () => {
    if (!pending) void notify()
  }
}

/** Calls `onReady` for each notice, on a connection of its own that is made anew when it breaks. */
export class ReadyListener implements Service {
  readonly name = 'ready listener'
  readonly #dsn: string
  readonly #clock: Clock
  readonly #onReady: () => void
  readonly #stopping = new AbortController()
  #running: Promise<void> = Promise.resolve()

  constructor(deps: { dsn: string; clock: Clock; onReady: () => void }) {
    this.#dsn = deps.dsn
    this.#clock = deps.clock
    this.#onReady = deps.onReady
  }

  async start(): Promise<void> {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await this.#listen().catch(() => undefined)
      await this.#clock.sleep(RECONNECT_MS, this.#stopping.signal)
    }
  }

  /** Resolves or rejects when the connection has ended. */
  async #listen(): Promise<void> {
    const client = new Client({ connectionString: this.#dsn, application_name: 'streaming-hub ready', keepAlive: true })
    const ended = Promise.withResolvers<void>()
    const end = (): void => ended.resolve()
    client.on('error', end).on('end', end).on('notification', this.#onReady)
    this.#stopping.signal.addEventListener('abort', end, { once: true })
    try {
      await client.connect()
      await client.query(`listen ${CHANNEL}`)
      this.#onReady()
      await ended.promise
    } finally {
      this.#stopping.signal.removeEventListener('abort', end)
      await client.end().catch(() => undefined)
    }
  }
}
