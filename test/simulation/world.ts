// What must be true. The world keeps its own account of subscriptions, deliveries, attempts, breakers and streaks, made from what
// the actors did and the receivers saw, and compares it with the database after every step that others can see. The rules are
// written here once more, from the specification; only the breaker's state machine is the engine's own pure function.
import { DEFAULT_SCHEDULE_MS, retryAfterMs } from '../../src/dispatch/backoff.ts'
import { afterOutcome, CLOSED, COOL_DOWN_JITTER } from '../../src/dispatch/breaker.ts'
import type { BreakerState } from '../../src/dispatch/breaker.ts'
import type { Ordering } from '../../src/event/subscription.ts'
import type { AttemptRequest, Outcome } from '../../src/sinks/sink.ts'
import type { Pool } from '../../src/store/pool.ts'
import type { Actor, TakenStep } from './scheduler.ts'
import { readAttempts, readFinished, readState } from './state.ts'
import type { DeliveryState, FinishedDelivery, LaneState, State } from './state.ts'

const POISON_THRESHOLD = 5
const LEASE_MARGIN_MS = 15_000
const LONGEST_WAIT_MS = 10 * 3_600_000

export class Violation extends Error {}

export interface Sub {
  id: string
  name: string
  tenantId: string
  ordering: Ordering
  timeoutMs: number
  enabled: boolean
  verified: boolean
  deleted: boolean
  version: number
  destinationKey: string
  schedule: unknown
  streak: { first: number; last: number } | null
  /** When its streak or its switches changed last. */
  changedAtStep: number
}

export interface Job extends DeliveryState {
  name: string
  tenantId: string
  finished: FinishedDelivery | null
  /** When it came, in changes of the world. */
  since: number
}

interface Attempt {
  id: string
  job: Job
  sub: Sub
  token: number
  key: string
  schedule: readonly number[]
  solo: boolean
  by: Actor | null
  end: { outcome: Outcome; at: number } | null
  settled: boolean
  flushed: boolean
}

interface Lease {
  subscriptionId: string
  token: number
  timeoutMs: number
}

export interface Arrival {
  event: string
  sub: string
}

export class World {
  readonly #pool: Pool
  readonly #now: () => number
  readonly #autodisable: { enabled: boolean; windowMs: number; spreadMs: number }
  readonly subs = new Map<string, Sub>()
  readonly jobs = new Map<string, Job>()
  readonly #attempts = new Map<string, Attempt>()
  readonly #inTheAir = new Set<Attempt>()
  readonly #breakers = new Map<string, BreakerState>()
  readonly #took = new Set<string>()
  /** By batch: there is an order within one only. */
  #arrived: (readonly Arrival[])[] = []
  readonly #settledNow: Attempt[] = []
  #text = ''
  state: State = { subscriptions: [], lanes: [], deliveries: [], breakers: [] }
  /** Rises with whatever may let somebody go on. */
  changes = 0

  constructor(deps: {
    pool: Pool
    now: () => number
    autodisable: { enabled: boolean; windowMs: number; spreadMs: number }
  }) {
    this.#pool = deps.pool
    this.#now = deps.now
    this.#autodisable = deps.autodisable
  }

  /** Subscriptions were made. */
  async begin(): Promise<void> {
    await this.#read()
  }

  /** What is to be in the database from the step on that is being looked at. */
  arrived(expected: readonly Arrival[]): void {
    this.#arrived.push(expected)
  }

  edited(id: string, change: Partial<Sub>): void {
    Object.assign(this.subs.get(id)!, change, { changedAtStep: this.changes })
  }

  /** A breaker was reset by hand. */
  reset({ tenantId, destinationKey }: Sub): void {
    this.#breakers.set(`${tenantId} ${destinationKey}`, CLOSED)
  }

  /** A finished delivery's event was queued again by hand. */
  replayed(job: Job): void {
    this.arrived([{ event: job.event, sub: job.sub }])
  }

  /** An unfinished delivery was made due by hand. */
  hastened(id: string, now: number): void {
    const job = this.jobs.get(id)!
    job.due = Math.min(job.due, now)
  }

  hasInTheAir(actor: Actor): boolean {
    return [...this.#inTheAir].some(({ by }) => by === actor)
  }

  /** A process is about to begin an attempt, by its own clock: its lease must outlast it, also when it has just been frozen. */
  begins(by: Actor, { subscriptionId, token, timeoutMs }: Lease): void {
    const sub = this.subs.get(subscriptionId)!
    const lane = this.lane(sub)
    const outlasts = lane.token === token && lane.leaseUntil !== null && lane.leaseUntil >= this.#now() + timeoutMs
    if (!outlasts) throw new Violation(`${by.name} begins an attempt for ${sub.name} without a lease that outlasts it`)
  }

  /** Time is about to move on: nobody waits for a breaker that is closed. */
  checkRecovered(): void {
    for (const lane of this.state.lanes) {
      const sub = this.subs.get(lane.id)!
      const { state } = this.state.breakers.find(({ key }) => key === lane.key)!
      const [head] = this.#queueOf(sub).filter(({ aside }) => !aside)
      const isDue =
        (head?.due ?? Infinity) <= this.#now() ||
        this.#queueOf(sub).some(({ aside, due }) => aside && due <= this.#now())
      if (lane.state === 'blocked' && lane.due! > this.#now() && state === 'closed' && isDue)
        throw new Violation(`${sub.name} waits for a breaker that is closed`)
    }
  }

  /** A sink was called. */
  began(by: Actor, request: AttemptRequest): void {
    const attempt = this.#attempts.get(request.attemptId)
    if (!attempt) throw new Violation(`${by.name} began an attempt that no lane has in the air`)
    const { job, sub } = attempt
    const what = `${by.name} began ${job.name} of ${sub.name}`
    if (attempt.by) throw new Violation(`${what}: the same attempt twice`)
    if (request.event.tenantId !== sub.tenantId || request.event.id !== job.event)
      throw new Violation(`${what} with another's event`)
    for (const other of this.#inTheAir) {
      // One that was frozen may have lost its lease meanwhile: then it is late, and not concurrent.
      const since = other.by?.pausedUntil ?? 0
      const isLate = other.token !== this.lane(sub).token && since >= this.#startedAt.get(other.id)!
      if (other.by?.state !== 'running' || isLate) continue
      if (other.job === job) throw new Violation(`${what} while ${other.by.name} has it in the air`)
      if (other.solo && attempt.solo && other.by === by) throw new Violation(`${what}: two solo lanes at once`)
    }
    const lane = this.lane(sub)
    const isOurs = lane.token === attempt.token && lane.attempts.includes(attempt.id)
    // Frozen between its look at the clock and the call, it calls all the same: that cannot be helped.
    const wasFrozen = by.pausedUntil !== null && by.pausedUntil >= this.#startedAt.get(attempt.id)!
    if (!isOurs && !wasFrozen) throw new Violation(`${what} without a lease`)
    if (isOurs && request.number !== job.attempts + 1)
      throw new Violation(`${what} as number ${request.number}, not ${job.attempts + 1}`)
    attempt.by = by
    this.#inTheAir.add(attempt)
  }

  /** The receiver has it. */
  took(attemptId: string): void {
    const { sub, job } = this.#attempts.get(attemptId)!
    this.#took.add(`${sub.id} ${job.event}`)
  }

  /** The sink's answer has reached the process. */
  ended(attemptId: string, outcome: Outcome): void {
    const attempt = this.#attempts.get(attemptId)!
    attempt.end = { outcome, at: this.#now() }
    this.#inTheAir.delete(attempt)
    this.changes++
  }

  died(actor: Actor): void {
    for (const attempt of this.#inTheAir) if (attempt.by === actor) this.#inTheAir.delete(attempt)
  }

  lane(sub: Sub): LaneState {
    return this.state.lanes.find(({ id }) => id === sub.id)!
  }

  /** Compares after steps that others can see. */
  async look(taken: readonly TakenStep[]): Promise<void> {
    for (const step of taken) for (const values of flushesOf(step)) this.#flushed(step.actor, values)
    if (taken.every(saysThatNothingChanged)) return
    const before = this.state
    if (!(await this.#read()) && this.#settledNow.length === 0) return
    const labels = new Set(taken.map(({ label }) => label))
    await this.#checkDeliveries(before, labels)
    this.#checkSubscriptions()
    this.#checkBreakers(before, labels)
    this.#checkLanes()
    if (labels.has('tick_lanes')) this.#checkSolo(before)
    this.#checkReleased(before)
    this.#checkNewInAir(before)
    this.#settledNow.length = 0
  }

  /** A tick that began at `began` has ended. */
  ticked(began: { at: number; changes: number }): void {
    if (!this.#autodisable.enabled) return
    for (const sub of this.subs.values()) {
      if (sub.enabled && !sub.deleted && sub.changedAtStep < began.changes && this.#isDue(sub, began.at)) {
        throw new Violation(`${sub.name} was due to be switched off and was not`)
      }
    }
  }

  /** When time alone changes something; null: never. */
  nextDue(): number | null {
    const dues: number[] = []
    for (const lane of this.state.lanes)
      if (lane.due !== null || lane.leaseUntil !== null) dues.push((lane.due ?? lane.leaseUntil)!)
    for (const sub of this.subs.values()) {
      const { streak } = sub
      const spread = streak && streak.last - streak.first >= this.#autodisable.spreadMs
      if (this.#autodisable.enabled && sub.enabled && !sub.deleted && spread)
        dues.push(streak.first + this.#autodisable.windowMs)
      if (sub.deleted && this.lane(sub).state !== 'leased' && this.#queueOf(sub).length > 0) dues.push(this.#now())
    }
    return dues.length === 0 ? null : Math.min(...dues)
  }

  /** When the youngest attempts in the air are slow ones. */
  nextSlow(slowAfterMs: number): number | null {
    const times = [...this.#inTheAir]
      .map(({ id }) => this.#startedAt.get(id)! + slowAfterMs)
      .filter((at) => at > this.#now())
    return times.length === 0 ? null : Math.min(...times)
  }

  readonly #startedAt = new Map<string, number>()

  /** Nothing moves any more. */
  async checkEnd(): Promise<void> {
    for (const lane of this.state.lanes) {
      if (lane.state !== 'idle' && lane.state !== 'held') throw new Violation(`a lane comes to rest ${lane.state}`)
    }
    for (const job of this.jobs.values()) {
      const sub = this.subs.get(job.sub)!
      if (!job.finished && (isDeliverable(sub) || sub.deleted))
        throw new Violation(`${job.name} of ${sub.name} comes to no end`)
      if (job.finished?.state === 'delivered' && !this.#took.has(`${sub.id} ${job.event}`)) {
        throw new Violation(`${job.name} is called delivered, and its receiver has nothing`)
      }
    }
    await this.#checkRecorded()
  }

  async #checkRecorded(): Promise<void> {
    const recorded = new Map((await readAttempts(this.#pool)).map((row) => [row.id, row]))
    const numbers = new Map<string, Set<number>>()
    for (const { delivery, number } of recorded.values()) {
      const seen = numbers.get(delivery) ?? new Set()
      if (seen.has(number)) throw new Violation(`${this.jobs.get(delivery)?.name}: two attempts number ${number}`)
      numbers.set(delivery, seen.add(number))
    }
    for (const attempt of this.#attempts.values()) {
      const row = recorded.get(attempt.id)
      const what = `an attempt of ${attempt.job.name}`
      if (attempt.by && !row) throw new Violation(`${what} was made and is not on record`)
      if (attempt.flushed && row?.outcome !== kindOf(attempt.end!.outcome))
        throw new Violation(`${what} is on record as ${row?.outcome}`)
      if (!attempt.flushed && row && row.outcome !== 'outcome_unknown')
        throw new Violation(`${what} has an outcome that nobody wrote`)
    }
    for (const job of this.jobs.values()) {
      const attempts = job.finished?.attempts ?? job.attempts
      if ((numbers.get(job.id)?.size ?? 0) !== attempts)
        throw new Violation(`${job.name} counts ${attempts} attempts, on record are others`)
    }
  }

  async #read(): Promise<boolean> {
    const text = await readState(this.#pool)
    if (text === this.#text) return false
    this.#text = text
    this.state = JSON.parse(text) as State
    this.changes++
    return true
  }

  /** A process looks which breakers its successes have to move: one that gets into trouble after that is not moved. */
  readBreakers(by: Actor): void {
    const troubled = [...this.#breakers].filter(([, { state, failures }]) => state !== 'closed' || failures > 0)
    this.#seenTroubled.set(by, new Set(troubled.map(([key]) => key)))
  }

  readonly #seenTroubled = new Map<Actor, Set<string>>()
  /** Attempts that a half-open breaker has let through as its probe. */
  readonly #probes = new Set<string>()

  #flushed(by: Actor, values: readonly unknown[]): void {
    const now = (values[0] as Date).getTime()
    // The statement's column of attempts, wherever it stands: the one that holds ids of attempts that we know.
    const ids = values.find((column) => Array.isArray(column) && column.some((id) => this.#attempts.has(id as string)))
    const attempts = ((ids ?? []) as (string | null | undefined)[]).flatMap((id) => this.#attempts.get(id ?? '') ?? [])
    const moved = new Set(this.#seenTroubled.get(by))
    for (const { key, end } of attempts) if (end && kindOf(end.outcome) === 'failed') moved.add(key)
    for (const attempt of attempts) {
      if (!attempt.end) throw new Violation('an outcome is written that no sink gave')
      attempt.flushed = true
      const kind = kindOf(attempt.end.outcome)
      const delivered = kind === 'delivered'
      const breaker = this.#breakers.get(attempt.key) ?? CLOSED
      const end = { delivered, probe: this.#probes.has(attempt.id), now, random: () => 0 }
      if (moved.has(attempt.key) && kind !== 'outcome_unknown')
        this.#breakers.set(attempt.key, afterOutcome(breaker, end))
      if (this.lane(attempt.sub).token !== attempt.token || attempt.settled) continue
      attempt.settled = true
      this.#settledNow.push(attempt)
      const { sub } = attempt
      const { at } = attempt.end
      if (kind === 'outcome_unknown') continue
      sub.streak = delivered ? null : { first: sub.streak?.first ?? at, last: at }
      sub.changedAtStep = this.changes + 1
    }
  }

  async #checkDeliveries(before: State, labels: Set<string>): Promise<void> {
    const left = new Set(before.deliveries.map(({ id }) => id))
    for (const row of this.state.deliveries) {
      left.delete(row.id)
      const job = this.jobs.get(row.id)
      if (job) this.#checkMoved(job, row, before)
      else this.#checkNew(row)
    }
    const [missing] = this.#arrived.flat()
    if (missing) {
      const { event, sub } = missing
      throw new Violation(`event …${event.slice(-4)} made no delivery for ${this.subs.get(sub)!.name}`)
    }
    this.#arrived = []
    if (left.size === 0) return
    const finished = new Map((await readFinished(this.#pool, [...left])).map((row) => [row.id, row]))
    for (const id of left) this.#checkFinished(this.jobs.get(id)!, finished.get(id), { before, labels })
  }

  #checkNew(row: DeliveryState): void {
    const sub = this.subs.get(row.sub)!
    const isIt = (expected: Arrival): boolean => expected.event === row.event && expected.sub === row.sub
    const batch = this.#arrived.find((arrivals) => arrivals.some(isIt))
    if (!batch) throw new Violation(`a delivery for ${sub.name} that no arrival explains`)
    if (batch.find((other) => other.sub === row.sub)!.event !== row.event) {
      throw new Violation(`${sub.name}: deliveries out of arrival order`)
    }
    this.#arrived = this.#arrived.with(this.#arrived.indexOf(batch), batch.toSpliced(batch.findIndex(isIt), 1))
    this.jobs.set(row.id, {
      ...row,
      name: `d${this.jobs.size + 1}`,
      tenantId: sub.tenantId,
      finished: null,
      since: this.changes,
    })
  }

  #checkMoved(job: Job, row: DeliveryState, before: State): void {
    const settled = this.#settledNow.find((attempt) => attempt.job === job)
    const same = ['attempts', 'failures', 'crashes', 'aside', 'due'] as const
    if (settled) this.#checkRetry(job, row, settled)
    else if (same.some((key) => job[key] !== row[key])) this.#checkCrash(job, row, before)
    Object.assign(job, row)
  }

  #checkRetry(job: Job, row: DeliveryState, { end, schedule, sub }: Attempt): void {
    const { outcome, at } = end!
    if (kindOf(outcome) === 'outcome_unknown') return this.#checkBrokenOff(job, row, at)
    if (outcome.kind === 'delivered') throw new Violation(`${job.name} was delivered and is still queued`)
    const step = schedule[job.failures + 1]
    if (step === undefined) throw new Violation(`${job.name} has used up its schedule and is still queued`)
    if (row.failures !== job.failures + 1 || row.attempts !== job.attempts + 1 || row.crashes !== 0) {
      throw new Violation(`${job.name} is miscounted after a failure: ${JSON.stringify(row)}`)
    }
    const least = Math.min(step, retryAfterMs(outcome.retryAfter, at))
    if (row.due < at + least || row.due > at + step) {
      throw new Violation(
        `${job.name} waits ${row.due - at} ms for a step of ${step} ms (Retry-After: ${outcome.retryAfter})`,
      )
    }
    if (row.aside !== (sub.ordering !== 'strict'))
      throw new Violation(`${job.name} of a ${sub.ordering} lane steps ${row.aside ? 'aside' : 'not aside'}`)
  }

  #checkBrokenOff(job: Job, row: DeliveryState, at: number): void {
    const isSame = row.failures === job.failures && row.aside === job.aside && row.crashes === job.crashes
    if (isSame && row.attempts === job.attempts + 1 && row.due === at) return
    throw new Violation(`${job.name} was broken off and changed: ${JSON.stringify(job)} to ${JSON.stringify(row)}`)
  }

  #checkCrash(job: Job, row: DeliveryState, before: State): void {
    const what = `${job.name} changed: ${JSON.stringify({ ...job, name: undefined, finished: undefined })} to ${JSON.stringify(row)}`
    if (row.crashes !== job.crashes + 1 || row.attempts !== job.attempts + 1) throw new Violation(what)
    if (row.failures !== job.failures || row.aside !== job.aside || row.due !== job.due) throw new Violation(what)
    if (row.crashes >= POISON_THRESHOLD)
      throw new Violation(`${job.name} has crashed ${row.crashes} times and is still queued`)
    if (!this.#leaseRanOut(job, before)) throw new Violation(`${job.name} is blamed, and was in nobody's air`)
  }

  #leaseRanOut(job: Job, before: State): boolean {
    const lane = before.lanes.find(({ id }) => id === job.sub)!
    return lane.state === 'leased' && lane.leaseUntil! <= this.#now() && lane.inAir.includes(job.id)
  }

  #checkFinished(job: Job, finished: FinishedDelivery | undefined, at: { before: State; labels: Set<string> }): void {
    if (!finished) throw new Violation(`${job.name} is lost`)
    const settled = this.#settledNow.find((attempt) => attempt.job === job)
    const outcome = settled?.end && kindOf(settled.end.outcome)
    const sub = this.subs.get(job.sub)!
    const what = `${job.name} of ${sub.name} ended ${finished.state} ${finished.reason ?? ''}`
    if (finished.state === 'delivered' && outcome !== 'delivered') throw new Violation(`${what} after ${outcome}`)
    if (finished.state === 'delivered' && finished.attempts !== job.attempts + 1)
      throw new Violation(`${what}: attempts are miscounted`)
    if (finished.reason === 'exhausted') {
      const steps = settled?.schedule.length
      if (outcome !== 'failed' || job.failures + 1 < steps!)
        throw new Violation(`${what} after ${job.failures + 1} of ${steps} steps`)
    }
    if (finished.reason === 'poisoned') {
      if (!this.#leaseRanOut(job, at.before)) throw new Violation(`${what} without a crash`)
      if (job.crashes + 1 !== POISON_THRESHOLD) throw new Violation(`${what} at ${job.crashes + 1} crashes`)
    }
    if (finished.reason === 'cancelled' && !(sub.deleted && at.labels.has('cancel_deleted'))) throw new Violation(what)
    job.finished = finished
  }

  #checkSubscriptions(): void {
    for (const row of this.state.subscriptions) {
      const sub = this.subs.get(row.id)!
      if (sub.enabled && !row.enabled) this.#checkSwitchedOff(sub, row.reason)
      if (
        row.enabled !== sub.enabled ||
        row.deleted !== sub.deleted ||
        (row.verification === 'active') !== sub.verified
      ) {
        throw new Violation(`${sub.name} was changed by nobody: ${JSON.stringify(row)}`)
      }
      const lane = this.lane(sub)
      if (row.version !== lane.version)
        throw new Violation(`${sub.name} has version ${row.version}, its lane ${lane.version}`)
      sub.version = row.version
    }
  }

  #checkSwitchedOff(sub: Sub, reason: string | null): void {
    const streak = JSON.stringify(sub.streak)
    if (!this.#autodisable.enabled) throw new Violation(`${sub.name} was switched off against the kill switch`)
    if (!this.#isDue(sub, this.#now())) throw new Violation(`${sub.name} was switched off too early: ${streak}`)
    if (reason === null) throw new Violation(`${sub.name} was switched off without a reason`)
    sub.enabled = false
    sub.changedAtStep = this.changes
  }

  /** Sustained and spread. */
  #isDue({ streak }: Sub, at: number): boolean {
    const { windowMs, spreadMs } = this.#autodisable
    return streak !== null && at - streak.first >= windowMs && streak.last - streak.first >= spreadMs
  }

  #checkBreakers(before: State, labels: Set<string>): void {
    for (const row of this.state.breakers) {
      const expected = this.#breakers.get(row.key) ?? CLOSED
      const old = before.breakers.find(({ key }) => key === row.key)
      const isProbed = labels.has('claim_lanes') && row.state === 'half_open' && old?.blockedUntil !== row.blockedUntil
      if (isProbed) this.#checkProbe(row, expected, before)
      else this.#checkBreaker(row, expected)
      const { state, failures, opened, blockedUntil } = row
      this.#breakers.set(row.key, { state, failures, opened, blockedUntil })
    }
  }

  #checkBreaker(row: BreakerState & { key: string }, expected: BreakerState): void {
    const isEqual = row.state === expected.state && row.failures === expected.failures && row.opened === expected.opened
    const [least, most] = [expected.blockedUntil, this.#longestCoolDown(expected)]
    const isWithin =
      least === row.blockedUntil || (least !== null && row.blockedUntil! >= least && row.blockedUntil! <= most)
    if (isEqual && isWithin) return
    throw new Violation(`breaker of ${row.key} is ${JSON.stringify(row)}, and should be ${JSON.stringify(expected)}`)
  }

  #longestCoolDown({ state, opened, blockedUntil }: BreakerState): number {
    const step = Math.min(30_000 * 2 ** (opened - 1), 600_000)
    return state === 'open' ? blockedUntil! + COOL_DOWN_JITTER * step : (blockedUntil ?? 0)
  }

  #checkProbe(row: BreakerState & { key: string }, expected: BreakerState, before: State): void {
    const what = `breaker of ${row.key} lets a probe through`
    if (expected.state === 'closed') throw new Violation(`${what}, and should be closed`)
    if (expected.blockedUntil! > this.#now()) throw new Violation(`${what} too early`)
    if (row.failures !== expected.failures || row.opened !== expected.opened)
      throw new Violation(`${what} and changes otherwise`)
    const claimed = this.state.lanes.filter(
      (lane) => lane.key === row.key && isNewlyLeased(lane, before) && lane.inAir.length > 0,
    )
    const [lane] = claimed
    if (claimed.length !== 1 || lane?.inAir.length !== 1) throw new Violation(`${what} for ${claimed.length} lanes`)
    this.#probes.add(lane.attempts[0] ?? '')
  }

  #checkLanes(): void {
    for (const lane of this.state.lanes) {
      const sub = this.subs.get(lane.id)!
      const wrong = this.#whatIsWrong(lane, sub)
      if (wrong) throw new Violation(`lane of ${sub.name} (${sub.ordering}) is ${lane.state}, ${wrong}`)
      const streak = sub.streak
      if (lane.firstFailure !== (streak?.first ?? null) || lane.lastFailure !== (streak?.last ?? null)) {
        throw new Violation(
          `streak of ${sub.name} is ${lane.firstFailure}–${lane.lastFailure}, should be ${JSON.stringify(streak)}`,
        )
      }
    }
  }

  /** A lane goes back into the ring for a reason: something is due, or something came while it was leased. */
  #checkReleased(before: State): void {
    for (const old of before.lanes) {
      const lane = this.state.lanes.find(({ id }) => id === old.id)!
      const sub = this.subs.get(lane.id)!
      if (lane.state === 'leased' && lane.token !== old.token) {
        this.#wakeGens.set(lane.id, lane.wakeGen)
        this.#claimedAt.set(lane.id, this.changes)
      }
      const isReleased = old.state === 'leased' && lane.state === 'ready' && lane.token === old.token
      const hasWork = this.#queueOf(sub).some(({ due }) => due <= this.#now())
      if (isReleased && !hasWork && lane.wakeGen === this.#wakeGens.get(lane.id)) {
        throw new Violation(`lane of ${sub.name} is ready for nothing`)
      }
    }
  }

  readonly #wakeGens = new Map<string, number>()
  readonly #claimedAt = new Map<string, number>()

  /** After a crash a lane runs alone. */
  #checkSolo(before: State): void {
    for (const old of before.lanes) {
      const lane = this.state.lanes.find(({ id }) => id === old.id)!
      const hasRunOut = old.state === 'leased' && old.leaseUntil! <= this.#now() && lane.token !== old.token
      if (hasRunOut && !lane.solo)
        throw new Violation(`lane of ${this.subs.get(lane.id)!.name} is not solo after a crash`)
    }
  }

  #whatIsWrong(lane: LaneState, sub: Sub): string | null {
    const queue = this.#queueOf(sub)
    const head = queue.find(({ aside }) => !aside)
    const retry = Math.min(...queue.filter(({ aside }) => aside).map(({ due }) => due))
    switch (lane.state) {
      case 'idle':
        return queue.length > 0 ? 'and has work' : null
      case 'waiting':
        return head ? 'and has a head' : lane.due !== retry ? `until ${lane.due}, but a retry is due at ${retry}` : null
      case 'blocked':
        return this.#whatIsWrongBlocked(lane, Math.min(head?.due ?? Infinity, retry))
      case 'held':
        return isDeliverable(sub) ? 'and its subscription is not' : null
      case 'leased':
        return lane.inAir.length > 1 && sub.ordering !== 'parallel' ? 'with many in the air' : null
      case 'ready':
        return null
      default:
        return lane.state satisfies never
    }
  }

  /** It waits for its own head or for its breaker, and a second more where somebody else had the breaker in hand. */
  #whatIsWrongBlocked(lane: LaneState, firstDue: number): string | null {
    if (this.#blockedUntil.get(lane.id) === lane.due) return null
    this.#blockedUntil.set(lane.id, lane.due!)
    const breaker = this.state.breakers.find(({ key }) => key === lane.key)!
    const longest = Math.max(firstDue, breaker.blockedUntil ?? 0, this.#now() + 1000)
    return lane.due! > longest ? `until ${lane.due}, for no reason` : null
  }

  readonly #blockedUntil = new Map<string, number>()

  #queueOf(sub: Sub): DeliveryState[] {
    return this.state.deliveries.filter((row) => row.sub === sub.id)
  }

  #checkNewInAir(before: State): void {
    for (const lane of this.state.lanes) {
      const sub = this.subs.get(lane.id)!
      for (const [at, id] of lane.attempts.entries()) {
        if (this.#attempts.has(id)) continue
        const job = this.jobs.get(lane.inAir[at]!)
        if (!job || job.finished) throw new Violation(`${sub.name} has something in the air that is not queued`)
        this.#checkMayStart(lane, job, before)
        const schedule = effectiveSchedule(sub.schedule)
        const { token, key, solo } = lane
        this.#attempts.set(id, {
          id,
          job,
          sub,
          token,
          key,
          schedule,
          solo,
          by: null,
          end: null,
          settled: false,
          flushed: false,
        })
        this.#startedAt.set(id, this.#now())
      }
    }
  }

  #checkMayStart(lane: LaneState, job: Job, before: State): void {
    const sub = this.subs.get(lane.id)!
    const what = `${job.name} of ${sub.name} (${sub.ordering}) starts`
    if (!isDeliverable(sub)) throw new Violation(`${what}, and its subscription is off`)
    if (job.sub !== sub.id) throw new Violation(`${what}, and is another's`)
    if (job.due > this.#now()) throw new Violation(`${what} before it is due`)
    if (lane.leaseUntil! > this.#now() + sub.timeoutMs + LEASE_MARGIN_MS)
      throw new Violation(`${what} under too long a lease`)
    const [then, now] = [before, this.state].map((state) => state.breakers.find(({ key }) => key === lane.key)!)
    const isProbe = now!.state === 'half_open' && then!.blockedUntil !== now!.blockedUntil
    if (now!.state !== 'closed' && then!.state !== 'closed' && !isProbe)
      throw new Violation(`${what}, and the breaker is ${now!.state}`)
    if (sub.ordering === 'parallel' || job.aside) return
    const head = this.#queueOf(sub).find(({ aside }) => !aside)
    // A place in the line is taken before the commit: one that became visible only after the claim lets its turn pass.
    const isLate = this.jobs.get(head!.id)!.since > this.#claimedAt.get(lane.id)!
    if (head!.id !== job.id && !isLate) throw new Violation(`${what} before ${this.jobs.get(head!.id)!.name}`)
  }
}

export function isDeliverable(sub: Sub): boolean {
  return sub.enabled && sub.verified && !sub.deleted
}

/** What is on record. One that was broken off says nothing. */
function kindOf(outcome: Outcome): 'delivered' | 'failed' | 'outcome_unknown' {
  return outcome.kind === 'failed' && outcome.errorClass === 'aborted' ? 'outcome_unknown' : outcome.kind
}

/** 1 to 12 whole numbers of at most ten hours; anything else is the default curve. */
function effectiveSchedule(stored: unknown): readonly number[] {
  if (!Array.isArray(stored) || stored.length < 1 || stored.length > 12) return DEFAULT_SCHEDULE_MS
  const isValid = stored.every((step) => Number.isInteger(step) && step >= 0 && step <= LONGEST_WAIT_MS)
  return isValid ? (stored as number[]) : DEFAULT_SCHEDULE_MS
}

function flushesOf({ label, values }: TakenStep): (readonly unknown[])[] {
  return label === 'flush_outcomes' || label === 'commit' ? (values as (readonly unknown[])[]) : []
}

/** Most looks of a process find nothing to do. */
function saysThatNothingChanged({ label, rows }: TakenStep): boolean {
  const [row] = rows
  if (label === 'claim_lanes') return row?.['subscription_id'] === null && row['shed'] === 0 && row['held'] === 0
  if (label === 'claim_more') return row === undefined
  if (label === 'tick_lanes') return row?.['ready'] === 0
  return label === 'cancel_deleted' && row?.['cancelled'] === 0
}

function isNewlyLeased(lane: LaneState, before: State): boolean {
  return lane.state === 'leased' && before.lanes.find(({ id }) => id === lane.id)?.token !== lane.token
}
