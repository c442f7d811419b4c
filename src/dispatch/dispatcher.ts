// The engine: claims lanes from the ring, runs their turns, and gives them back. Any number of processes run one on the same
// database; leases with fencing tokens keep them apart, and the ring keeps tenants fair.
//
//   ring ──claim──▶ turn: attempt ─▶ settle (group commit) ─▶ next attempt … ─▶ released ──▶ ring, or waits, or idle
//    ▲                                                                              │
//    └───────────── tick: due retries, leases that ran out ◀─────────────────────────┘
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { settledBefore } from '../base/patience.ts'
import type { Service } from '../base/service.ts'
import { claimLanes, claimMore } from '../store/lanes.ts'
import type { ClaimedJob, ClaimedLane } from '../store/lanes.ts'
import type { AttemptRow } from '../store/outcomes.ts'
import type { Pool } from '../store/pool.ts'
import { runAttempt } from './attempt.ts'
import type { AttemptDeps } from './attempt.ts'
import { Flusher } from './flusher.ts'
import { Postponements, type Postponed } from './postponement.ts'
import { Slots } from './slots.ts'
import { TestDeliveries } from './test-deliveries.ts'
import { tick } from './timer.ts'
import type { TimerOptions } from './timer.ts'
import { runTurn } from './turn.ts'

export interface DispatchOptions extends TimerOptions {
  /** Together with claimBatch: workers × claimBatch attempts may be in the air that are not slow. */
  workers: number
  /** Lanes claimed at once, and jobs of one lane run in one turn. */
  claimBatch: number
  /** How long an idle dispatcher waits for a wake-up before it looks by itself. */
  idleIntervalMs: number
}

/** How much longer than its attempt a lease lasts: time for the outcome to be written while the database is slow. */
const LEASE_MARGIN_MS = 15_000
/** Data of one lane's turn beyond its first job: a lane of large bodies takes fewer jobs a turn. */
const LANE_BYTES = 64 << 10
/** After a claim that found something: what ends meanwhile is claimed for together. */
const CLAIM_PAUSE_MS = 2
/** All slots are taken: some turn slow with time alone. */
const FULL_PAUSE_MS = 20
const TICK_MS = 200
/** After the deadline of a stop. */
const LAST_FLUSH_MS = 1_000
const FAILURE_PAUSE_MS = { first: 100, longest: 5_000 }

export class Dispatcher implements Service {
  readonly name = 'dispatcher'
  readonly #pool: Pool
  readonly #deps: AttemptDeps
  readonly #options: DispatchOptions
  readonly #clock: Clock
  readonly #slots: Slots
  readonly #flusher: Flusher
  readonly #postponements: Postponements
  readonly #tests: TestDeliveries
  readonly #turns = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #brokenOff = new AbortController()
  readonly #stopped = new AbortController()
  #wake = new AbortController()
  #loops: Promise<void>[] = []
  #soloInAir = false
  /** The last claim left out tenants that had all their slots. */
  #leftOut = false
  readonly #failures = { claim: 0, timer: 0, refill: 0 }
  /** The last claim found less than there was room for: nobody waits for a turn. */
  #hasSpare = false
  readonly #noticeSpare = new Set<() => void>()

  constructor(deps: AttemptDeps & { pool: Pool; options: DispatchOptions }) {
    this.#pool = deps.pool
    this.#deps = deps
    this.#options = deps.options
    this.#clock = deps.clock
    this.#slots = new Slots(deps.clock, { quick: deps.options.workers * deps.options.claimBatch })
    this.#postponements = new Postponements(deps)
    this.#tests = new TestDeliveries({ ...deps, postponements: this.#postponements })
    this.#flusher = new Flusher({ ...deps, onReady: () => this.wake() })
  }

  async start(): Promise<void> {
    this.#loops = [this.#claimLoop(), this.#timerLoop()]
    this.#tests.start()
  }

  /**
   * Starts nothing new, lets the attempts in the air end and their outcomes be written, and gives the lanes back. At the deadline
   * what is still in the air is broken off, and given back as well; a database that does not take that within a second is let go:
   * those leases run out.
   */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping.abort()
    this.wake()
    const letGo = new AbortController()
    const breakOff = async (): Promise<void> => {
      this.#brokenOff.abort()
      await this.#clock.sleep(LAST_FLUSH_MS, this.#stopped.signal)
      this.#flusher.abandon()
      letGo.abort()
    }
    if (deadline.aborted) void breakOff()
    else deadline.addEventListener('abort', () => void breakOff(), { once: true, signal: this.#stopped.signal })
    const ended = Promise.all([...this.#loops, this.#tests.stop(deadline)]).then(() => this.settled())
    await settledBefore(letGo.signal, ended)
    this.#stopped.abort()
  }

  /** There may be something in the ring: look at once. */
  wake(): void {
    this.#wake.abort()
  }

  /** There is a test to send: look at once. */
  wakeTests(): void {
    this.#tests.wake()
  }

  /** Claims what there is room for and starts the turns; answers how many lanes it took from the ring. One step of the claim loop. */
  async claim(): Promise<number> {
    const { lanes: room, cappedTenants } = this.#slots.room()
    if (room === 0) return 0
    this.#leftOut = cappedTenants.length > 0
    const now = this.#clock.now()
    const { claimBatch } = this.#options
    const claimed = await claimLanes(this.#pool, {
      now: new Date(now),
      lanes: Math.min(room, claimBatch),
      soloLanes: this.#soloInAir ? 0 : 1,
      jobs: claimBatch,
      laneBytes: LANE_BYTES,
      cappedTenants,
      leaseMarginMs: LEASE_MARGIN_MS,
    })
    const { metrics } = this.#deps
    metrics.claims.inc()
    metrics.claimSeconds.observe((this.#clock.now() - now) / 1000)
    metrics.shed.inc(claimed.shed)
    for (const lane of claimed.lanes) this.#startTurn(lane, now + lane.timeoutMs + LEASE_MARGIN_MS)
    const taken = claimed.lanes.length + claimed.shed + claimed.held
    this.#hasSpare = taken < Math.min(room, claimBatch)
    if (this.#hasSpare) for (const notice of this.#noticeSpare) notice()
    return taken
  }

  /** Due retries, leases that ran out, and the rest of what time brings. One step of the timer loop. */
  async tick(): Promise<void> {
    const woken = await tick(this.#pool, { ...this.#deps, options: this.#options })
    if (woken > 0) this.wake()
  }

  /** Resolves when no turn is under way any more. */
  async settled(): Promise<void> {
    while (this.#turns.size > 0) await Promise.all(this.#turns)
  }

  #startTurn(lane: ClaimedLane, leaseUntil: number): void {
    const { claimBatch } = this.#options
    if (lane.solo) this.#soloInAir = true
    const turn = runTurn(lane, {
      clock: this.#clock,
      attempt: (of, job) => this.#attempt(of, job),
      settle: (settlement) => this.#flusher.settle(settlement),
      more: (of, atMost) => this.#more(of, atMost),
      onSpare: (notice) => {
        this.#noticeSpare.add(notice)
        return () => void this.#noticeSpare.delete(notice)
      },
      stopping: () => this.#stopping.signal.aborted,
      enter: (jobs) => this.#slots.enter(lane.tenantId, bytesOf(jobs)),
      leaseUntil,
      leaseMarginMs: LEASE_MARGIN_MS,
      parallel: claimBatch,
    }).finally(() => {
      if (lane.solo) this.#soloInAir = false
      // Its place is free for a lane that the last claim had to leave in the ring.
      if (lane.solo || this.#leftOut) this.wake()
      this.#turns.delete(turn)
      this.#deps.metrics.inAir.set(this.#slots.size)
    })
    this.#turns.add(turn)
    this.#deps.metrics.inAir.set(this.#slots.size)
  }

  async #attempt(lane: ClaimedLane, job: ClaimedJob): Promise<AttemptRow | Postponed> {
    const run = { signal: this.#brokenOff.signal, postponements: this.#postponements }
    return await runAttempt(lane, job, { ...this.#deps, ...run })
  }

  /** Slots that the last claim left over go to parallel lanes: never before lanes that wait for their turn. */
  async #more(lane: ClaimedLane, atMost: number): Promise<ClaimedJob[]> {
    const { lanes: room, cappedTenants } = this.#slots.room()
    if (!this.#hasSpare || room === 0 || cappedTenants.includes(lane.tenantId)) return []
    const request = {
      now: new Date(this.#clock.now()),
      jobs: Math.min(atMost, room),
      laneBytes: LANE_BYTES,
      leaseMarginMs: LEASE_MARGIN_MS,
    }
    const more = await this.#step('refill', () => claimMore(this.#pool, lane, request))
    return more ?? []
  }

  async #claimLoop(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      // Renewed before the claim, so that a wake-up that comes while it looks is not lost.
      this.#wake = new AbortController()
      const claimed = await this.#step('claim', () => this.claim())
      if (claimed !== null && claimed > 0) await this.#clock.sleep(CLAIM_PAUSE_MS, this.#stopping.signal)
      else if (this.#slots.room().lanes === 0) await this.#clock.sleep(FULL_PAUSE_MS, this.#stopping.signal)
      else await this.#clock.sleep(this.#options.idleIntervalMs, this.#wake.signal)
    }
  }

  async #timerLoop(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await this.#step('timer', () => this.tick())
      await this.#clock.sleep(TICK_MS, this.#stopping.signal)
    }
  }

  /** Runs a step; a failing one is said once, retried with back-off, and answers null. */
  async #step<T>(name: 'claim' | 'timer' | 'refill', step: () => Promise<T>): Promise<T | null> {
    try {
      const result = await step()
      if (this.#failures[name] > 0) this.#deps.log.info({ part: name }, 'dispatch goes on')
      this.#failures[name] = 0
      return result
    } catch (error) {
      const failures = this.#failures[name]++
      if (failures === 0) this.#deps.log.error({ part: name, err: messageOf(error) }, 'dispatch stalls')
      const pause = Math.min(FAILURE_PAUSE_MS.first * 2 ** failures, FAILURE_PAUSE_MS.longest)
      await this.#clock.sleep(pause, this.#stopping.signal)
      return null
    }
  }
}

function bytesOf(jobs: readonly ClaimedJob[]): number {
  return jobs.reduce((sum, { event }) => sum + (event.data?.length ?? 0), 0)
}
