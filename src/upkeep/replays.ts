// Works off the replays of ranges. Of a subscription's line only a few places are a replay's at any time, filled up about once a
// second in the order of arrival, so that a live event never waits behind more than those. Each step is one transaction on the
// locked row of one replay: what it queues, what it counts and how far it has come are written together or not at all, so a
// crash neither loses nor doubles an event, and any replica takes the next step.
//
//   running ──everything queued, and finished──▶ done
//      └──by hand, or its subscription is deleted──▶ cancelled (what it has queued goes on, and is counted)
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { wakeLanes } from '../store/lanes.ts'
import type { Database, Pool } from '../store/pool.ts'
import { nextEvents, queueReplayed, saveReplay, statesOf, takeReplay } from '../store/replays.ts'
import type { NextEvent, Replay, TakenReplay } from '../store/replays.ts'
import { transaction } from '../store/transaction.ts'

/** A subscription's deliveries that are replays' and unfinished: what a live event may have to wait for. */
export const PLACES = 16
/** Looks for replays that are due. */
const TICK_MS = 1_000
/** Until its next step; as long again as nothing has changed with it, within these bounds. */
const STEP_MS = { shortest: 1_000, longest: 10_000 }
/** Events of the range that one step reads, wanted or not. */
const EVENTS_PER_STEP = 200
/** The rest is for the next tick, or for other replicas. */
const STEPS_PER_TICK = 500
const LONGEST_PAUSE_MS = 60_000

export interface ReplayDeps {
  pool: Pool
  clock: Clock
  log: Log
  /** Something was queued: the dispatcher may look at once. */
  onQueued: () => void
}

export class Replays implements Service {
  readonly name = 'replays'
  readonly #deps: ReplayDeps
  readonly #stopping = new AbortController()
  #loop: Promise<void> | null = null

  constructor(deps: ReplayDeps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    this.#loop = this.#run()
  }

  /** Resolves when the step under way has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
  }

  /** Takes every step that is due. */
  async tick(): Promise<void> {
    for (let steps = 0; steps < STEPS_PER_TICK && !this.#stopping.signal.aborted; steps++) {
      if (!(await this.step())) return
    }
  }

  /** One step of the replay that has waited longest; answers false when none was due. */
  async step(): Promise<boolean> {
    const { pool, clock, log, onQueued } = this.#deps
    const now = new Date(clock.now())
    const stepped = await transaction(pool, async (db) => {
      const taken = await takeReplay(db, now)
      return taken && { before: taken.replay, after: await proceed(db, taken, now) }
    })
    if (!stepped) return false
    const { before, after } = stepped
    if (after.queued > before.queued) onQueued()
    if (after.status !== before.status) log.info(wideLine(after), `replay ${after.status}`)
    return true
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#deps
    for (let pause = TICK_MS; !this.#stopping.signal.aborted; await clock.sleep(pause, this.#stopping.signal)) {
      try {
        await this.tick()
        if (pause > TICK_MS) log.info('replays go on')
        pause = TICK_MS
      } catch (error) {
        if (pause === TICK_MS) log.error({ err: messageOf(error) }, 'replays stall')
        pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
      }
    }
  }
}

async function proceed(db: Database, taken: TakenReplay, now: Date): Promise<Replay> {
  const counted = counting(taken.replay, await statesOf(db, taken.replay.outstanding))
  const current = taken.deleted ? cancelled(counted, now) : counted
  const room = roomOf(current, taken)
  const queued = room > 0 ? await fill(db, current, { room, now }) : current
  const next = planned(queued, { before: taken.replay, room, now })
  await saveReplay(db, next)
  return next
}

/** Takes the finished ones off the outstanding. */
function counting(replay: Replay, states: Awaited<ReturnType<typeof statesOf>>): Replay {
  const count = (wanted: string): number => replay.outstanding.filter((id) => states.get(id) === wanted).length
  return {
    ...replay,
    delivered: replay.delivered + count('delivered'),
    deadLettered: replay.deadLettered + count('dead_lettered'),
    outstanding: replay.outstanding.filter((id) => states.get(id) === null),
  }
}

function cancelled(replay: Replay, now: Date): Replay {
  return replay.status === 'running' ? { ...replay, status: 'cancelled', finishedAt: now } : replay
}

/** Places that are the replay's to fill now. While its subscription cannot be sent anything, it waits. */
function roomOf(replay: Replay, taken: TakenReplay): number {
  if (replay.status !== 'running' || replay.allQueued || taken.behind || !taken.deliverable) return 0
  return PLACES - replay.outstanding.length - taken.outstandingOfOthers
}

async function fill(db: Database, replay: Replay, { room, now }: { room: number; now: Date }): Promise<Replay> {
  const events = await nextEvents(db, replay, EVENTS_PER_STEP)
  const { passed, wanted } = upTo(events, room)
  const kept = wanted.filter((event) => event.kept)
  const ids = kept.length > 0 ? await queueReplayed(db, replay, { events: kept, now }) : []
  if (ids.length > 0) await wakeLanes(db, [replay.subscriptionId])
  const last = passed.at(-1)
  return {
    ...replay,
    queued: replay.queued + ids.length,
    skipped: replay.skipped + wanted.length - ids.length,
    outstanding: [...replay.outstanding, ...ids],
    cursor: last ? { at: last.at, seq: last.seq } : replay.cursor,
    allQueued: events.length === 0,
  }
}

/** The events that can be passed before the one for which there is no place. */
function upTo(events: readonly NextEvent[], room: number): { passed: readonly NextEvent[]; wanted: NextEvent[] } {
  let places = room
  const full = events.findIndex(({ wanted, kept }) => wanted && kept && places-- === 0)
  const passed = full === -1 ? events : events.slice(0, full)
  return { passed, wanted: passed.filter(({ wanted }) => wanted) }
}

/** Whether it is done, and when it is looked at again: at once while there is room and more of the range to read. */
function planned(replay: Replay, step: { before: Replay; room: number; now: Date }): Replay {
  const { before, room, now } = step
  const { queued, skipped, allQueued, outstanding } = replay
  const placed = queued - before.queued
  const changed = placed > 0 || skipped > before.skipped || outstanding.length < before.outstanding.length
  const unchangedMs = changed ? 0 : now.getTime() - before.updatedAt.getTime()
  const waiting = Math.min(Math.max(unchangedMs, STEP_MS.shortest), STEP_MS.longest)
  const pause = placed < room && !allQueued ? 0 : waiting
  const isDone = replay.status === 'running' && allQueued && outstanding.length === 0
  const next: Replay = isDone ? { ...replay, status: 'done', finishedAt: now } : replay
  return {
    ...next,
    // What was being finished in the moment of the count, or has been dropped from the history since, shows here.
    total: allQueued ? queued + skipped : Math.max(replay.total, queued + skipped),
    nextStepAt: next.status === 'running' || outstanding.length > 0 ? new Date(now.getTime() + pause) : null,
    updatedAt: changed || next.status !== before.status ? now : replay.updatedAt,
  }
}

function wideLine(replay: Replay): Record<string, unknown> {
  return {
    replay_id: replay.id,
    tenant_id: replay.tenantId,
    subscription_id: replay.subscriptionId,
    total: replay.total,
    queued: replay.queued,
    skipped: replay.skipped,
    delivered: replay.delivered,
    dead_lettered: replay.deadLettered,
  }
}
