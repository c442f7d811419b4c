// Runs a plan: hub processes made of the real dispatch code, an ingester and an editor, on a real database and in virtual time.
// Ends when nothing moves any more, or at the first thing that must not be.
import { setImmediate as immediate } from 'node:timers/promises'
import { HubError } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { resetBreaker } from '../../src/control/breakers.ts'
import { retryDelivery } from '../../src/control/deliveries.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { dispatchMetrics } from '../../src/dispatch/metrics.ts'
import type { DispatchMetrics } from '../../src/dispatch/metrics.ts'
import { SLOW_AFTER_MS } from '../../src/dispatch/slots.ts'
import type { Event } from '../../src/event/event.ts'
import type { Subscription } from '../../src/event/subscription.ts'
import type { AttemptRequest, Outcome, Sink } from '../../src/sinks/sink.ts'
import { sweepLanes, wakeLanes } from '../../src/store/lanes.ts'
import type { Pool } from '../../src/store/pool.ts'
import * as subscriptions from '../../src/store/subscriptions.ts'
import { tenantStore } from '../../src/store/tenant.ts'
import { transaction } from '../../src/store/transaction.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { failed } from '../support/scripted-sink.ts'
import { seededRandom } from '../support/random.ts'
import type { Action, Change, Plan, PlannedEvent, PlannedSubscription } from './plan.ts'
import { answer } from './receivers.ts'
import type { Mood } from './receivers.ts'
import { Actor, Scheduler } from './scheduler.ts'
import { clear } from './state.ts'
import { isDeliverable, Violation, World } from './world.ts'
import type { Arrival, Sub } from './world.ts'

export interface Result {
  /** What must not be; null: all went well. */
  violation: string | null
  /** What happened, a line a step. */
  history: string[]
  steps: number
  attempts: number
  deliveries: number
  virtualMs: number
}

const START = Date.parse('2026-05-14T13:00:00Z')
/** A world that is busy for longer than this does not come to rest. */
const MAX_STEPS = 60_000
/** Steps at one and the same time: somebody goes round in circles. */
const MAX_STEPS_AT_ONCE = 5_000

/** Runs `plan` on an empty database that nobody else uses. */
export async function runPlan(plan: Plan, pool: Pool): Promise<Result> {
  await clear(pool)
  const simulation = new Simulation(plan, pool)
  return await simulation.run()
}

interface Hub {
  actor: Actor
  dispatcher: Dispatcher
  claiming: boolean
  /** The world when its last claim found nothing. */
  foundNothingAt: number
  claimed: Promise<unknown>
  ticking: boolean
  ticked: Promise<unknown>
  stopping: boolean
}

class Simulation {
  readonly #plan: Plan
  readonly #pool: Pool
  readonly #random: () => number
  readonly #scheduler: Scheduler
  readonly #world: World
  readonly #moods = new Map<string, Mood>()
  readonly #hubs: Hub[] = []
  readonly #ingester = new Actor('ingest')
  readonly #editor = new Actor('editor')
  readonly #committing = new Map<Actor, () => void>()
  readonly #history: string[] = []
  readonly #toxic = new Set<string>()
  readonly #metrics: DispatchMetrics = dispatchMetrics(createRegistry({ processMetrics: false }))
  #pending: Action[]
  /** No process dies, freezes or loses an answer. */
  readonly #isFaultless: boolean
  #lastTick = 0
  #attempts = 0
  #events = 0
  #violation: Error | null = null

  constructor(plan: Plan, pool: Pool) {
    this.#plan = plan
    this.#pool = pool
    this.#random = seededRandom(plan.seed ^ 0x5eed)
    this.#pending = [...plan.actions]
    this.#isFaultless = plan.actions.every(
      (action) =>
        action.kind !== 'fault' &&
        action.kind !== 'stop' &&
        (action.kind !== 'arrive' || !action.events.some(({ toxic }) => toxic)),
    )
    this.#scheduler = new Scheduler({
      start: START,
      random: this.#random,
      pool,
      log: (line) => this.#note(line),
      onTaken: async (steps) => {
        for (const { actor, label } of steps) {
          if (label !== 'commit' && label !== 'store_events') continue
          this.#committing.get(actor)?.()
          this.#committing.delete(actor)
        }
        await this.#world.look(steps)
      },
    })
    const { autodisable } = plan.options
    this.#world = new World({ pool, now: () => this.#scheduler.now, autodisable })
  }

  async run(): Promise<Result> {
    try {
      await this.#begin()
      await this.#toTheEnd()
      await this.#world.checkEnd()
      const swept = await sweepLanes(this.#pool)
      if (swept > 0) throw new Violation(`${swept} lanes' wake-ups were lost`)
    } catch (error) {
      this.#violation ??= error as Error
      if (!(this.#violation instanceof Violation)) this.#note(String(this.#violation.stack))
    }
    await this.#scheduler.end([...this.#hubs.map(({ actor }) => actor), this.#ingester, this.#editor])
    return {
      violation: this.#violation?.message ?? null,
      history: this.#history,
      steps: this.#scheduler.taken,
      attempts: this.#attempts,
      deliveries: this.#world.jobs.size,
      virtualMs: this.#scheduler.now - START,
    }
  }

  async #begin(): Promise<void> {
    for (const [at, planned] of this.#plan.subscriptions.entries()) await this.#subscribe(planned, at)
    for (let slot = 0; slot < this.#plan.hubs; slot++) this.#startHub(slot)
    await this.#world.begin()
  }

  async #toTheEnd(): Promise<void> {
    let [since, stepsSince] = [0, 0]
    for (;;) {
      await immediate()
      if (this.#violation) throw this.#violation
      if (this.#scheduler.unexpected) throw new Violation(`the database: ${this.#scheduler.unexpected.message}`)
      if (this.#scheduler.now !== since) [since, stepsSince] = [this.#scheduler.now, this.#scheduler.taken]
      if (this.#scheduler.taken - stepsSince > MAX_STEPS_AT_ONCE) throw new Violation('goes round in circles')
      if (this.#scheduler.taken > MAX_STEPS) throw new Violation('does not come to rest')
      if (!(await this.#goOn())) return
    }
  }

  /** One thing that can happen happens; false: nothing can any more. */
  async #goOn(): Promise<boolean> {
    if (this.#scheduler.hasRunnable()) {
      if (this.#random() < this.#plan.options.overlap * this.#temptation()) await this.#startNext()
      if (this.#random() < 0.05) this.#scheduler.advanceTo(this.#scheduler.now + Math.floor(this.#random() * 5))
      await this.#scheduler.takeOne()
      return true
    }
    if (this.#startClaims()) return true
    const next = this.#nextMoment()
    if (next === null && this.#scheduler.hasParked()) {
      await this.#scheduler.awaitParked()
      return true
    }
    if (next === null) return false
    if (next > this.#scheduler.now && this.#isFaultless) this.#world.checkRecovered()
    if (next > this.#scheduler.now) this.#world.changes++
    this.#scheduler.advanceTo(next)
    while (this.#pending[0] && START + this.#pending[0].at <= this.#scheduler.now) await this.#startNext()
    this.#startTicks()
    return true
  }

  /** While somebody holds locks is the best time to come in between. */
  #temptation(): number {
    return this.#hubs.some(({ actor }) => actor.transactions.size > 0) ? 5 : 0.5
  }

  #nextMoment(): number | null {
    const { now } = this.#scheduler
    const moments: number[] = []
    if (this.#pending[0]) moments.push(START + this.#pending[0].at)
    const timer = this.#scheduler.nextTimer()
    if (timer !== null) moments.push(timer)
    const tick = this.#tickMoment()
    if (tick !== null) moments.push(tick)
    const slow = this.#world.nextSlow(SLOW_AFTER_MS)
    if (slow !== null && this.#hasReady()) moments.push(slow)
    return moments.length === 0 ? null : Math.max(now, Math.min(...moments))
  }

  #tickMoment(): number | null {
    const due = this.#world.nextDue()
    const canTick = this.#hubs.some(isUp)
    if (due === null || !canTick) return null
    return Math.max(due, this.#lastTick + Math.max(1, this.#plan.options.tickEveryMs))
  }

  #startTicks(): void {
    const moment = this.#tickMoment()
    if (moment === null || moment > this.#scheduler.now) return
    this.#lastTick = this.#scheduler.now
    const hubs = this.#hubs.filter(isUp)
    const first = Math.floor(this.#random() * hubs.length)
    for (const [at, hub] of hubs.entries()) if (at === first || this.#random() < 0.2) this.#tick(hub)
  }

  #tick(hub: Hub): void {
    hub.ticking = true
    const began = { at: this.#scheduler.now, changes: this.#world.changes }
    hub.ticked = hub.dispatcher
      .tick()
      .then(() => this.#guard(() => this.#world.ticked(began)))
      .catch(() => undefined)
      .finally(() => (hub.ticking = false))
  }

  #hasReady(): boolean {
    return this.#world.state.lanes.some(({ state }) => state === 'ready')
  }

  /** Every process that may find something looks, or only some do. */
  #startClaims(): boolean {
    if (!this.#hasReady()) return false
    const able = this.#hubs.filter(
      ({ actor, claiming, stopping, foundNothingAt }) =>
        actor.state === 'running' && !claiming && !stopping && foundNothingAt !== this.#world.changes,
    )
    const first = Math.floor(this.#random() * able.length)
    for (const [at, hub] of able.entries()) if (at === first || this.#random() < 0.5) this.#claim(hub)
    return able.length > 0
  }

  #claim(hub: Hub): void {
    hub.claiming = true
    hub.claimed = hub.dispatcher
      .claim()
      .then((found) => (hub.foundNothingAt = found === 0 ? this.#world.changes : -1))
      .catch(() => undefined)
      .finally(() => (hub.claiming = false))
  }

  async #startNext(): Promise<void> {
    const action = this.#pending[0]
    if (!action) return
    // One writer of each kind at a time: wait for its turn.
    this.#pending.shift()
    this.#note(`  ${describe(action)}`)
    switch (action.kind) {
      case 'mood':
        return void this.#moods.set(action.destination, action.mood)
      case 'fault': {
        const hub = this.#hubs[action.hub % this.#hubs.length]
        if (hub) hub.actor.fault = { ...action.fault }
        return
      }
      case 'stop': {
        const hub = this.#hubs[action.hub % this.#hubs.length]
        if (hub) this.#stop(hub, action.graceMs)
        return
      }
      case 'arrive':
        return this.#act(this.#ingester, () => this.#arrive(action.tenant, action.events))
      case 'edit':
        return this.#act(this.#editor, () => this.#edit(action.subscription, action.change))
      default:
        return action satisfies never
    }
  }

  #stop(hub: Hub, graceMs: number): void {
    if (hub.stopping || hub.actor.state !== 'running') return
    hub.stopping = true
    const deadline = new AbortController()
    this.#scheduler.at(this.#scheduler.now + graceMs, hub.actor, () => deadline.abort())
    void this.#stopped(hub, deadline.signal)
  }

  async #stopped(hub: Hub, deadline: AbortSignal): Promise<void> {
    // The loops of a real process end first.
    await Promise.all([hub.claimed, hub.ticked])
    await hub.dispatcher.stop(deadline)
    this.#note(`${hub.actor.name}: has stopped`)
    if (this.#world.hasInTheAir(hub.actor)) this.#guard(() => fail('a process stops with attempts in the air'))
    await this.#scheduler.kill(hub.actor)
    hub.actor.onDeath(1_000)
  }

  readonly #queues = new Map<Actor, Promise<void>>()

  /** An actor does one thing after the other. */
  #act(actor: Actor, what: () => Promise<void>): void {
    const before = this.#queues.get(actor) ?? Promise.resolve()
    const doing = before.then(what).catch((error: Error) => void (this.#violation ??= error))
    this.#queues.set(actor, doing)
  }

  async #subscribe(planned: PlannedSubscription, at: number): Promise<void> {
    const id = `01900000-0000-7000-8000-${String(at).padStart(12, '0')}`
    const { ordering, timeoutMs, eventTypes, origin, schemaMajor } = planned
    await insertSubscription(this.#pool, {
      id,
      tenantId: planned.tenant,
      destinationKey: planned.destination,
      retrySchedule: planned.schedule,
      ordering,
      timeoutMs,
      eventTypes,
      origin,
      schemaMajor,
    })
    this.#world.subs.set(id, {
      id,
      name: `s${at}`,
      tenantId: planned.tenant,
      ordering,
      timeoutMs,
      enabled: true,
      verified: true,
      deleted: false,
      version: 1,
      destinationKey: planned.destination,
      schedule: planned.schedule,
      streak: null,
      changedAtStep: 0,
    })
    this.#planned.set(id, planned)
  }

  readonly #planned = new Map<string, PlannedSubscription>()

  #startHub(slot: number): void {
    const actor = new Actor(`hub${slot}`)
    actor.onStep = (label) => {
      if (label === 'troubled_breakers') this.#world.readBreakers(actor)
    }
    actor.onDeath = (after) => {
      this.#world.died(actor)
      this.#scheduler.at(this.#scheduler.now + after, null, () => this.#startHub(slot))
    }
    const { workers, claimBatch, autodisable } = this.#plan.options
    const sink = this.#sinkOf(actor)
    const dispatcher = new Dispatcher({
      pool: this.#scheduler.pool(actor),
      clock: this.#scheduler.clock(actor),
      log: silentLog,
      metrics: this.#metrics,
      random: this.#random,
      options: { workers, claimBatch, idleIntervalMs: 250, poisonThreshold: 5, autodisable },
      destinationOf: async (lane) => {
        this.#guard(() => this.#world.begins(actor, lane))
        return await this.#scheduler.step({
          actor,
          label: `open ${this.#world.subs.get(lane.subscriptionId)!.name}`,
          run: async () => ({
            sink,
            destination: {
              subscriptionId: lane.subscriptionId,
              tenantId: lane.tenantId,
              sink: { kind: 'webhook', url: `https://${lane.destinationKey}/`, headers: {} },
              contentMode: 'binary',
              timeoutMs: lane.timeoutMs,
              signingKeys: [],
            },
          }),
        })
      },
    })
    const idle = {
      claiming: false,
      claimed: Promise.resolve(),
      ticking: false,
      ticked: Promise.resolve(),
      stopping: false,
    }
    this.#hubs[slot] = { actor, dispatcher, foundNothingAt: -1, ...idle }
  }

  #sinkOf(actor: Actor): Sink {
    return {
      deliver: (attempt, signal) => this.#deliver(actor, attempt, signal),
      probe: () => Promise.reject(new Error('no probe in a simulation')),
      close: async () => undefined,
    }
  }

  async #deliver(actor: Actor, attempt: AttemptRequest, signal: AbortSignal): Promise<Outcome> {
    const { destination, event, attemptId } = attempt
    const host = new URL((destination.sink as { url: string }).url).host
    const reply = await this.#scheduler.step({
      actor,
      label: `deliver ${event.id.slice(-4)} to ${host}, number ${attempt.number}`,
      run: async () => {
        this.#attempts++
        this.#guard(() => this.#world.began(actor, attempt))
        if (this.#toxic.has(event.id)) {
          await this.#scheduler.kill(actor)
          actor.onDeath(1_000 + Math.floor(this.#random() * 20_000))
        }
        const mood = this.#moods.get(`${event.tenantId}/${host}`) ?? { kind: 'healthy' }
        const given = answer(mood, destination.timeoutMs, this.#random)
        if (given.took) this.#world.took(attemptId)
        return given
      },
    })
    const aborted = failed({ errorClass: 'aborted', status: null })
    return await new Promise((resolve) => {
      let hasEnded = false
      const end = (outcome: Outcome): void => {
        if (hasEnded) return
        hasEnded = true
        const what = outcome.kind === 'failed' ? outcome.errorClass : outcome.kind
        this.#note(`${actor.name}: ${what} ${event.id.slice(-4)} at ${host}`)
        this.#world.ended(attemptId, outcome)
        resolve(outcome)
      }
      this.#scheduler.at(this.#scheduler.now + reply.afterMs, actor, () => end(reply.outcome))
      if (signal.aborted) end(aborted)
      else signal.addEventListener('abort', () => end(aborted), { once: true })
    })
  }

  async #arrive(tenantId: string, planned: readonly PlannedEvent[]): Promise<void> {
    const events = planned.map((event) => this.#eventOf(tenantId, event))
    let expected: Arrival[] = []
    this.#ingester.onStep = (label) => {
      if (label === 'store_events') expected = this.#matching(events, planned)
    }
    this.#committing.set(this.#ingester, () => this.#world.arrived(expected))
    const pool = this.#scheduler.pool(this.#ingester)
    const now = new Date(this.#scheduler.now)
    if (this.#random() < 0.5) await arrive(pool, events, now)
    else await transaction(pool, (client) => arrive(client, events, now))
  }

  #eventOf(tenantId: string, { source, resource, major, toxic }: PlannedEvent): Event {
    const time = Math.floor(this.#scheduler.now).toString(16).padStart(12, '0')
    const number = (++this.#events).toString(16).padStart(12, '0')
    const id = `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${number}`
    if (toxic) this.#toxic.add(id)
    return anEvent({ id, tenantId, source, resourceType: resource, key: `${resource}.approved`, schemaMajor: major })
  }

  #matching(events: readonly Event[], planned: readonly PlannedEvent[]): Arrival[] {
    return events.flatMap((event, at) => {
      const { source, resource, major } = planned[at]!
      const wanted = [`${resource}.approved`, `${resource}.*`, '*']
      return [...this.#world.subs.values()].flatMap((sub) => {
        const filter = this.#planned.get(sub.id)!
        const matches =
          sub.tenantId === event.tenantId &&
          isDeliverable(sub) &&
          filter.eventTypes.some((type) => wanted.includes(type)) &&
          (filter.origin ?? source) === source &&
          (filter.schemaMajor ?? major) === major
        return matches ? [{ event: event.id, sub: sub.id }] : []
      })
    })
  }

  async #edit(at: number, change: Change): Promise<void> {
    const sub = [...this.#world.subs.values()][at]
    if (!sub) return
    const pool = this.#scheduler.pool(this.#editor)
    if (change.kind === 'retry') return await this.#retry(pool, sub, change.nth)
    if (change.kind === 'reset') {
      this.#committing.set(this.#editor, () => this.#world.reset(sub))
      return void (await resetBreaker(pool, sub))
    }
    const edited: Partial<Sub> = {}
    this.#committing.set(this.#editor, () => this.#world.edited(sub.id, edited))
    await tenantStore(pool)(sub, async (client) => {
      const stored = await subscriptions.lockSubscription(client, sub.id)
      if (!stored) return
      const freshStart = change.kind === 'enable' && !stored.enabled
      Object.assign(edited, changeOf(change), freshStart && { streak: null })
      if (change.kind === 'move') await subscriptions.insertDestination(client, change.destination)
      if (change.kind === 'delete')
        await subscriptions.markDeleted(client, { id: sub.id, now: new Date(this.#scheduler.now) })
      else await subscriptions.updateSubscription(client, this.#changed(stored, change))
      await subscriptions.renewLane(client, { subscriptionId: sub.id, freshStart })
      await wakeLanes(client, [sub.id])
    })
  }

  async #retry(pool: Pool, sub: Sub, nth: number): Promise<void> {
    const jobs = [...this.#world.jobs.values()].filter((job) => job.sub === sub.id)
    const job = jobs[nth % jobs.length]
    if (!job) return
    let hastened: readonly unknown[] | null = null
    let isReplayed = false
    this.#editor.onStep = (label, values) => {
      if (label.startsWith('update delivery set due_at')) hastened = values
      if (label.startsWith('insert into delivery')) isReplayed = true
    }
    this.#committing.set(this.#editor, () => {
      if (isReplayed) this.#world.replayed(job)
      const [, id, now] = hastened ?? []
      if (hastened !== null) this.#world.hastened(id as string, (now as Date).getTime())
    })
    const clock = this.#scheduler.clock(this.#editor)
    await tenantStore(pool)(sub, async (db) => await retryDelivery(db, job.id, { clock })).catch((error: unknown) => {
      if (!(error instanceof HubError)) throw error
    })
    this.#editor.onStep = () => undefined
  }

  #changed(stored: Subscription, change: Change): Subscription {
    const now = new Date(this.#scheduler.now)
    const next = { ...stored, version: stored.version + 1, updatedAt: now }
    if (change.kind === 'disable') return { ...next, enabled: false, disabledReason: 'by hand', disabledAt: now }
    if (change.kind === 'enable') return { ...next, enabled: true, disabledReason: null, disabledAt: null }
    if (change.kind === 'verify') return { ...next, verificationState: 'active' }
    if (change.kind === 'unverify') return { ...next, verificationState: 'failed' }
    if (change.kind === 'move') return { ...next, destinationKey: change.destination }
    if (change.kind === 'schedule') return { ...next, retrySchedule: change.schedule }
    return next
  }

  /** What is thrown inside the engine would be caught by it: keep it. */
  #guard(check: () => void): void {
    try {
      check()
    } catch (error) {
      this.#violation ??= error as Error
    }
  }

  #note(line: string): void {
    this.#history.push(`${clockFace(this.#scheduler?.now - START)}  ${line}`)
  }
}

/** Its timer goes. */
function isUp({ actor, ticking, stopping }: Hub): boolean {
  return actor.state === 'running' && !ticking && !stopping
}

function fail(what: string): never {
  throw new Violation(what)
}

function changeOf(change: Change): Partial<Sub> {
  switch (change.kind) {
    case 'disable':
      return { enabled: false }
    case 'enable':
      return { enabled: true }
    case 'unverify':
      return { verified: false }
    case 'verify':
      return { verified: true }
    case 'delete':
      return { deleted: true }
    case 'touch':
    case 'retry':
    case 'reset':
      return {}
    case 'move':
      return { destinationKey: change.destination }
    case 'schedule':
      return { schedule: change.schedule }
    default:
      return change satisfies never
  }
}

/** An action in one line. */
export function describe(action: Action): string {
  const { at, ...what } = action
  return `[${clockFace(at)}] ${JSON.stringify(what)}`
}

function clockFace(ms: number): string {
  const text = new Date(ms).toISOString().slice(11, 23)
  return `${Math.floor(ms / 86_400_000)}d ${text}`
}
