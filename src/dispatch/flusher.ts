// Group commit: outcomes that end while one flush is under way are written by the next one, back to back, so that a thousand
// attempts a second cost a few dozen commits. A worker goes on with its lane only after its outcome is durable.
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { settledBefore } from '../base/patience.ts'
import type { BreakerRow, DestinationKey } from '../store/destinations.ts'
import { blockedLanes, lockBreakers, returnProbes, saveBreakers, troubledBreakers } from '../store/destinations.ts'
import { wakeLanes } from '../store/lanes.ts'
import { flushOutcomes, leaseKey, recordedAttempts } from '../store/outcomes.ts'
import type { AttemptRow, Flushed, LaneOutcome, LaneStep } from '../store/outcomes.ts'
import type { Pool } from '../store/pool.ts'
import { transaction } from '../store/transaction.ts'
import { mayBeRecordFault } from '../store/fault.ts'
import { afterOutcome } from './breaker.ts'
import type { DispatchMetrics } from './metrics.ts'

/** Attempts of a lane that have ended, in their order (none: it is only released), and its next step. One at a time for each lane. */
export interface Settlement extends LaneOutcome {
  destination: DestinationKey
  /** It was to be the one probe of a half-open breaker. */
  probe: boolean
}

/** `going`: the lane is ours until `leaseUntil`; `released`: as asked; `stopped`: released although it was to go on; `lost`: no longer ours. */
export type Settled = { kind: 'going'; leaseUntil: number } | { kind: 'released' | 'stopped' | 'lost' }

interface Waiting {
  settlement: Settlement
  done: (settled: Settled) => void
}

const MAX_BATCH = 256
const RETRY_MS = { first: 50, longest: 5_000 }

export class Flusher {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #log: Log
  readonly #random: () => number
  readonly #metrics: DispatchMetrics
  readonly #onReady: () => void
  readonly #waiting: Waiting[] = []
  readonly #given = new AbortController()
  #running = false

  constructor(deps: {
    pool: Pool
    clock: Clock
    log: Log
    random: () => number
    metrics: DispatchMetrics
    /** Called when a flush has put lanes back into the ring. */
    onReady: () => void
  }) {
    this.#pool = deps.pool
    this.#clock = deps.clock
    this.#log = deps.log
    this.#random = deps.random
    this.#metrics = deps.metrics
    this.#onReady = deps.onReady
  }

  /** Resolves when the settlement is durable, however long the database is away; `lost` when it never will be. Never rejects. */
  settle(settlement: Settlement): Promise<Settled> {
    return new Promise((resolve) => {
      this.#waiting.push({ settlement, done: resolve })
      if (!this.#running) void this.#run()
    })
  }

  /** Gives up on what is still to be written: the leases run out, and the work is done again. */
  abandon(): void {
    this.#given.abort()
  }

  async #run(): Promise<void> {
    this.#running = true
    await Promise.resolve() // what settles in the same turn of the loop is one batch
    while (this.#waiting.length > 0) await this.#flush(takeBatch(this.#waiting))
    this.#running = false
  }

  async #flush(batch: Waiting[]): Promise<void> {
    const given = this.#given.signal
    for (let pause = RETRY_MS.first; !given.aborted; pause = Math.min(pause * 2, RETRY_MS.longest)) {
      try {
        const written = this.#write(batch, pause > RETRY_MS.first)
        // A database that hangs answers neither yes nor no.
        await settledBefore(given, written)
        if (given.aborted) break
        return await written
      } catch (error) {
        this.#metrics.flushFailures.inc()
        if (mayBeRecordFault(error)) return await this.#isolate(batch, error)
        this.#log.warn({ err: messageOf(error), outcomes: batch.length, retry_in_ms: pause }, 'outcomes not written')
        await this.#clock.sleep(pause, given)
      }
    }
    this.#log.error({ outcomes: batch.length }, 'outcomes given up: what they are of is done again')
    for (const { done } of batch) done({ kind: 'lost' })
  }

  /** The database refuses something in this batch for what it holds: find it by writing one by one, and let the others pass. */
  async #isolate(batch: Waiting[], error: unknown): Promise<void> {
    if (batch.length > 1) {
      for (const waiting of batch) await this.#flush([waiting])
      return
    }
    const [refused] = batch
    this.#log.error({ err: messageOf(error), ...refused?.settlement.destination }, 'outcome refused by the database')
    refused?.done({ kind: 'lost' })
  }

  async #write(batch: Waiting[], again: boolean): Promise<void> {
    const now = this.#clock.now()
    const settlements = batch.map(({ settlement }) => settlement)
    const flushed = await this.#record(settlements, { now, again })
    this.#metrics.flushSize.observe(batch.length)
    const [lost, stopped] = [new Set(flushed.lost), new Set(flushed.stopped)]
    for (const { settlement, done } of batch) done(settledOf(settlement.step, { lost, stopped, now }))
    if (flushed.ready > 0) this.#onReady()
  }

  /** `again`: it failed before, and may have happened all the same, if only its answer was lost. */
  async #record(settlements: Settlement[], { now, again }: { now: number; again: boolean }): Promise<Flushed> {
    await this.#giveProbesBack(settlements, now)
    const keys = await this.#breakersToMove(settlements)
    if (keys.length === 0) return await flushOutcomes(this.#pool, settlements, new Date(now))
    const { flushed, opened, closed } = await transaction(this.#pool, async (client) => {
      const before = await lockBreakers(client, keys)
      const counted = again
        ? await recordedAttempts(
            client,
            settlements.flatMap(({ attempts }) => attempts),
          )
        : null
      const after = before.map((breaker) => this.#afterOutcomes(breaker, settlements, { now, counted }))
      await saveBreakers(client, after)
      const became = (state: string) => after.filter((b, at) => b.state === state && before[at]?.state !== state)
      const written = await flushOutcomes(client, settlements, new Date(now))
      return { flushed: written, opened: became('open'), closed: became('closed') }
    })
    this.#metrics.breakerOpened.inc(opened.length)
    // After the commit: waking others' lanes under this transaction's locks could deadlock. If we die in between, they wait for their due_at.
    if (closed.length > 0) {
      await wakeLanes(this.#pool, await blockedLanes(this.#pool, closed))
      this.#onReady()
    }
    return flushed
  }

  /** A probe without an outcome says nothing: the next lane may be it, at once. */
  async #giveProbesBack(settlements: Settlement[], now: number): Promise<void> {
    const unused = settlements.filter(({ probe, attempts }) => probe && !attempts.some(isKnown))
    if (unused.length === 0) return
    await returnProbes(
      this.#pool,
      unused.map(({ step }) => step),
      new Date(now),
    )
  }

  /** A failure moves any breaker, a success only one that is not pristine. */
  async #breakersToMove(settlements: Settlement[]): Promise<DestinationKey[]> {
    const ended = settlements.filter(({ attempts }) => attempts.some(isKnown))
    const isFailing = ({ attempts }: Settlement): boolean => attempts.some(({ outcome }) => outcome === 'failed')
    const failing = keysOf(ended.filter(isFailing))
    const others = keysOf(ended).filter((key) => !failing.some((other) => keyOf(other) === keyOf(key)))
    return others.length === 0 ? failing : [...failing, ...(await troubledBreakers(this.#pool, others))]
  }

  /** `counted`: attempts that have moved it already. */
  #afterOutcomes(
    breaker: BreakerRow,
    settlements: Settlement[],
    { now, counted }: { now: number; counted: ReadonlySet<string> | null },
  ): BreakerRow {
    const isNews = (attempt: AttemptRow): boolean => isKnown(attempt) && !counted?.has(attempt.attemptId)
    return settlements
      .filter(({ destination }) => keyOf(destination) === keyOf(breaker))
      .flatMap(({ attempts, probe }) => attempts.filter(isNews).map(({ outcome }) => ({ outcome, probe })))
      .reduce((before, { outcome, probe }) => {
        const end = { delivered: outcome === 'delivered', probe, now, random: this.#random }
        return { ...before, ...afterOutcome(before, end) }
      }, breaker)
  }
}

function isKnown({ outcome }: AttemptRow): boolean {
  return outcome !== 'outcome_unknown'
}

function takeBatch(waiting: Waiting[]): Waiting[] {
  return waiting.splice(0, MAX_BATCH)
}

function settledOf(step: LaneStep, flushed: { lost: Set<string>; stopped: Set<string>; now: number }): Settled {
  const lease = leaseKey(step)
  if (flushed.lost.has(lease)) return { kind: 'lost' }
  if (step.inAir.length === 0) return { kind: 'released' }
  if (flushed.stopped.has(lease)) return { kind: 'stopped' }
  return { kind: 'going', leaseUntil: flushed.now + step.leaseMs }
}

function keysOf(settlements: Settlement[]): DestinationKey[] {
  return [...new Map(settlements.map(({ destination }) => [keyOf(destination), destination])).values()]
}

function keyOf({ tenantId, destinationKey }: DestinationKey): string {
  return `${tenantId} ${destinationKey}`
}
