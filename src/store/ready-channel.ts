// How replicas tell each other, by NOTIFY, that there is something in the ring, or that events were stored. It only saves waiting:
// who misses it looks by itself a moment later.
import { Client } from 'pg'
import type { Clock } from '../base/clock.ts'
import type { Service } from '../base/service.ts'
import type { Database } from './pool.ts'

/** `ready`: lanes were put into the ring; `stored`: events were. */
type Notice = 'ready' | 'stored'

const CHANNELS: Record<Notice, string> = { ready: 'streaming_hub_ready', stored: 'streaming_hub_stored' }
const RECONNECT_MS = 1_000
/** PostgreSQL serialises commits that notify: one notice covers all that happens within this time. */
const QUIET_MS: Record<Notice, number> = { ready: 10, stored: 25 }

/** A function that tells the listening replicas; calls within a few milliseconds of each other are one. Never rejects. */
export function notifier(notice: Notice, db: Database, clock: Clock): () => void {
  let pending = false
  const notify = async (): Promise<void> => {
    pending = true
    await clock.sleep(QUIET_MS[notice])
    pending = false
    await db.query(`notify ${CHANNELS[notice]}`).catch(() => undefined)
  }
  return () => {
    if (!pending) void notify()
  }
}

/** Calls what is there for each notice, on a connection of its own that is made anew when it breaks. */
export class NoticeListener implements Service {
  readonly name = 'notices'
  readonly #dsn: string
  readonly #clock: Clock
  readonly #on: Readonly<Record<Notice, () => void>>
  readonly #stopping = new AbortController()
  #running: Promise<void> = Promise.resolve()

  constructor(deps: { dsn: string; clock: Clock; on: Readonly<Record<Notice, () => void>> }) {
    this.#dsn = deps.dsn
    this.#clock = deps.clock
    this.#on = deps.on
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
    client
      .on('error', end)
      .on('end', end)
      .on('notification', ({ channel }) => this.#heard(channel))
    this.#stopping.signal.addEventListener('abort', end, { once: true })
    try {
      await client.connect()
      for (const channel of Object.values(CHANNELS)) await client.query(`listen ${channel}`)
      // What was told while nobody listened.
      for (const heard of Object.values(this.#on)) heard()
      await ended.promise
    } finally {
      this.#stopping.signal.removeEventListener('abort', end)
      await client.end().catch(() => undefined)
    }
  }

  #heard(channel: string): void {
    this.#on[channel === CHANNELS.ready ? 'ready' : 'stored']()
  }
}
