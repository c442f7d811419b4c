// What has to be done now and then, by one replica for all: the one that holds the lock, on the lock's own connection, one chore after
// the other. The others ask for the lock every few seconds. A connection that is lost takes the lock and the chore under way with it.
//
//   connect ─▶ ask for the lock … ─▶ hold it: do what is due, sleep, look whether the connection lives ─┐
//      ▲                                                                             │ lost            │ stopped
//      └────────────────────────────── back off ◀─────────────────────────────────────┘                 ▼ let go
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { settledBefore } from '../base/patience.ts'
import type { Service } from '../base/service.ts'
import type { Database } from '../store/pool.ts'
import { listRuns, openLockSession, saveRun } from '../store/singleton.ts'
import type { LockSession } from '../store/singleton.ts'

/** Names the lock. */
export const UPKEEP_LOCK = 'upkeep'

export interface Chore {
  /** Names it in the log and for operators. */
  name: string
  everyMs: number
  /**
   * Answers what it did, for the log; null when there was nothing to do. It runs in one transaction, unless it is `stepwise`: then each
   * statement is one, and it ends early when `stopping` aborts.
   */
  run: (db: Database, now: Date, stopping: AbortSignal) => Promise<Record<string, unknown> | null>
  stepwise?: true
}

/** A chore that failed is tried again after this long, or its own interval if that is shorter. */
const RETRY_MS = 60_000
/** How often the lock is asked for, and its holder's connection is looked after. */
const LOOK_MS = 2_000
/** A connection that does not answer `select 1` for so long is taken for lost. */
const SILENCE_MS = 5_000
/** How long a start waits for another replica, which holds the lock, to have done the first chore once. */
const FIRST_ROUND_MS = 10_000
const FIRST_LOOK_MS = 100

export interface UpkeepDeps {
  dsn: string
  /** How its connection names itself: what operators see as the holder. */
  holder: string
  clock: Clock
  log: Log
  /** In the order in which they are done; what must be there before anything else works comes first. */
  chores: readonly Chore[]
  /** Called when this replica no longer holds the lock: what it has measured for all is no longer its to tell. */
  onLost?: () => void
}

export class Upkeep implements Service {
  readonly name = 'upkeep'
  readonly #deps: UpkeepDeps
  readonly #stopping = new AbortController()
  #session: LockSession | null = null
  #loop: Promise<void> | null = null
  #failures = 0

  constructor(deps: UpkeepDeps) {
    this.#deps = deps
  }

  /**
   * Resolves when every chore has been done once, or has failed and will be tried again. Where another replica holds the lock: when the first
   * chore, which is what the others need, has ever been done. (That replica may be of another version, and not know all of them.)
   */
  async start(): Promise<void> {
    const { clock } = this.#deps
    const firstRound = Promise.withResolvers<void>()
    this.#loop = this.#run(() => firstRound.resolve())
    const limit = new AbortController()
    void clock.sleep(FIRST_ROUND_MS, AbortSignal.any([limit.signal, this.#stopping.signal])).then(firstRound.resolve)
    await firstRound.promise
    limit.abort()
  }

  /** Lets the chore under way end, as far as `deadline` allows, and the lock go. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping.abort()
    await settledBefore(deadline, this.#loop ?? Promise.resolve())
    this.#session?.cut()
  }

  async #run(onFirstRound: () => void): Promise<void> {
    const { clock, log, dsn, holder } = this.#deps
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        await using session = await openLockSession(dsn, holder)
        this.#session = session
        await this.#wait(session, onFirstRound)
        if (!signal.aborted) await this.#lead(session, onFirstRound)
      } catch (error) {
        // Once for an outage: the pools say the rest.
        if (this.#failures++ === 0 && !signal.aborted) {
          log.warn({ err: messageOf(error) }, 'the connection for the chores was lost, or cannot be made')
        }
        onFirstRound()
        await clock.sleep(Math.min(LOOK_MS * this.#failures, RETRY_MS), signal)
      }
    }
  }

  /** Resolves when the lock is ours, or we are to stop. */
  async #wait(session: LockSession, onFirstRound: () => void): Promise<void> {
    const { clock, chores } = this.#deps
    const { signal } = this.#stopping
    let first = true
    while (!signal.aborted && !(await session.tryLock(UPKEEP_LOCK))) {
      this.#failures = 0
      const done = (await listRuns(session.db)).some(({ name }) => name === chores[0]?.name)
      if (done) {
        onFirstRound()
        first = false
      }
      await clock.sleep(first ? FIRST_LOOK_MS : LOOK_MS, signal)
    }
    this.#failures = 0
  }

  async #lead(session: LockSession, onFirstRound: () => void): Promise<void> {
    const { clock, log, chores, onLost } = this.#deps
    const over = AbortSignal.any([this.#stopping.signal, session.lost])
    const due = new Map(chores.map((chore) => [chore, 0]))
    log.info({ lock: UPKEEP_LOCK }, 'this replica does the chores')
    try {
      while (!over.aborted) {
        for (const [chore, at] of due) {
          if (at > clock.now() || over.aborted) continue
          due.set(chore, clock.now() + (await this.#once(chore, session)))
        }
        onFirstRound()
        const next = Math.min(...due.values()) - clock.now()
        await clock.sleep(Math.max(0, Math.min(next, LOOK_MS)), over)
        if (!over.aborted) await stillThere(session, clock)
      }
      if (!this.#stopping.signal.aborted) throw new Error('the lock is lost with its connection')
    } finally {
      onLost?.()
    }
  }

  /** Does it, and answers in how many ms it is to be done again. Rejects when the connection is lost. */
  async #once(chore: Chore, session: LockSession): Promise<number> {
    const { clock, log, holder } = this.#deps
    const startedAt = new Date(clock.now())
    const end = { done: null as Record<string, unknown> | null, error: null as string | null }
    const work = (db: Database) => chore.run(db, startedAt, this.#stopping.signal)
    try {
      end.done = await (chore.stepwise ? work(session.db) : session.transaction(work))
      if (end.done) log.info({ chore: chore.name, ...end.done }, 'upkeep')
    } catch (error) {
      await stillThere(session, clock)
      end.error = messageOf(error)
      log.warn({ chore: chore.name, err: end.error }, 'upkeep failed')
    }
    const { name, everyMs } = chore
    await saveRun(session.db, { name, everyMs, holder, startedAt, finishedAt: new Date(clock.now()), ...end })
    return end.error === null ? everyMs : Math.min(everyMs, RETRY_MS)
  }
}

/** Rejects when the connection does not answer in time: then the lock is as good as lost. */
async function stillThere(session: LockSession, clock: Clock): Promise<void> {
  const answer = session.answers().then(() => true)
  if (await answeredWithin(SILENCE_MS, answer, clock)) return
  throw new Error('the connection that holds the lock does not answer')
}

async function answeredWithin(ms: number, answer: Promise<boolean>, clock: Clock): Promise<boolean> {
  const answered = new AbortController()
  const silence = clock.sleep(ms, answered.signal).then(() => false)
  return await Promise.race([answer, silence]).finally(() => answered.abort())
}
