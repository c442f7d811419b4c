// Virtual time, and one step at a time: a step is a statement on the database, a call of a sink, or what a clock wakes. Everything
// that the actors (hub processes, the ingester, the editor) do passes through here, so that the seed alone decides who goes next,
// and so that an actor can die or freeze between any two steps. The statements are real, and so are the locks: a statement that
// waits for another actor's lock is parked until that one's transaction has ended.
import { EventEmitter } from 'node:events'
import { setImmediate as immediate } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import type { Clock } from '../../src/base/clock.ts'
import type { Pool } from '../../src/store/pool.ts'

type FaultKind = 'crash' | 'pause' | 'error'

/** Befalls an actor at its `afterSteps`th step from now on: before the step is taken, or after it, when its answer is not read. */
export interface ArmedFault {
  kind: FaultKind
  afterSteps: number
  answerLost: boolean
  /** Of a pause; of a crash: until the next process starts in its place. */
  lastsMs: number
}

/** A step that has been taken; `commits`: what it changed is there for others to see. */
export interface TakenStep {
  actor: Actor
  label: string
  values: readonly unknown[]
  commits: boolean
  rows: readonly Record<string, unknown>[]
}

interface Step {
  actor: Actor
  label: string
  values: readonly unknown[]
  commits: boolean
  run: () => Promise<unknown>
  done: (result: unknown) => void
  fail: (error: Error) => void
  /** Of a statement: the connection is lost instead. */
  lose: (() => Promise<void>) | null
  /** The server process that runs the statement. */
  pid: () => number | null
}

/** A step that has ended; its actor hears of it when the observer has looked. */
interface Finished {
  taken: TakenStep[]
  actor: Actor
  answer: () => void
}

interface Timer {
  at: number
  actor: Actor | null
  fire: () => void
}

/** PostgreSQL ends a transaction in which a frozen process says nothing; see the pool's settings. */
const IDLE_IN_TRANSACTION_MS = 15_000
const LOCK_LOOK_MS = 3

export class Actor {
  readonly name: string
  state: 'running' | 'paused' | 'dead' = 'running'
  fault: ArmedFault | null = null
  /** When it went on after its last pause. */
  pausedUntil: number | null = null
  readonly held: (() => void)[] = []
  readonly transactions = new Set<GatedClient>()
  /** Another one takes its place `after` so many ms. */
  onDeath: (after: number) => void = () => undefined
  /** Called when a step of it begins. */
  onStep: (label: string, values: readonly unknown[]) => void = () => undefined

  constructor(name: string) {
    this.name = name
  }
}

export class Scheduler {
  now: number
  readonly #random: () => number
  readonly #pool: Pool
  readonly #onTaken: (steps: TakenStep[]) => Promise<void>
  readonly #log: (line: string) => void
  #steps: Step[] = []
  #parked: Running[] = []
  #timers: Timer[] = []
  #isOver = false
  /** The connections on which a transaction is open. */
  readonly open = new Set<GatedClient>()
  /** The first error of the database that nobody ordered. */
  unexpected: Error | null = null
  taken = 0

  constructor(deps: {
    start: number
    random: () => number
    /** The real one. */
    pool: Pool
    /** Called after each statement that others can see. */
    onTaken: (steps: TakenStep[]) => Promise<void>
    log: (line: string) => void
  }) {
    this.now = deps.start
    this.#random = deps.random
    this.#pool = deps.pool
    this.#onTaken = deps.onTaken
    this.#log = deps.log
  }

  /** A clock as the actor sees it. */
  clock(actor: Actor): Clock {
    return {
      now: () => this.now,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          if (signal?.aborted) return resolve()
          signal?.addEventListener('abort', () => resolve(), { once: true })
          this.at(this.now + ms, actor, resolve)
        }),
    }
  }

  /** The database as the actor sees it: each statement is a step. */
  pool(actor: Actor): Pool {
    const connect = (isSingle: boolean): GatedClient => new GatedClient(this, actor, { pool: this.#pool, isSingle })
    const gated = {
      query: (config: unknown, values?: unknown[]) => connect(true).query(config, values),
      connect: async () => connect(false),
    }
    return gated as unknown as Pool
  }

  step<T>(step: {
    actor: Actor
    label: string
    run: () => Promise<T>
    values?: readonly unknown[]
    commits?: boolean
    lose?: () => Promise<void>
    pid?: () => number | null
  }): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (step.actor.state === 'dead') return
      this.#steps.push({
        values: [],
        commits: false,
        lose: null,
        pid: () => null,
        ...step,
        done: (result) => resolve(result as T),
        fail: reject,
      })
    })
  }

  /** Calls `fire` at `at`: never of a dead actor, and of a paused one when it goes on. */
  at(at: number, actor: Actor | null, fire: () => void): void {
    this.#timers.push({ at, actor, fire })
  }

  nextTimer(): number | null {
    return this.#timers.reduce<number | null>((least, { at }) => (least === null || at < least ? at : least), null)
  }

  /** Moves time on and wakes whoever's time has come. */
  advanceTo(at: number): void {
    this.now = Math.max(this.now, at)
    const due = this.#timers.filter((timer) => timer.at <= this.now).sort((a, b) => a.at - b.at)
    this.#timers = this.#timers.filter((timer) => timer.at > this.now)
    for (const { actor, fire } of due) this.#deliver(actor, fire)
  }

  hasRunnable(): boolean {
    return this.#steps.some(({ actor }) => actor.state === 'running')
  }

  hasParked(): boolean {
    return this.#parked.length > 0
  }

  /** Takes one of the steps that can be taken. */
  async takeOne(): Promise<void> {
    const runnable = this.#steps.filter(({ actor }) => actor.state === 'running')
    const step = runnable[Math.floor(this.#random() * runnable.length)]
    if (!step) return
    this.#steps.splice(this.#steps.indexOf(step), 1)
    this.taken++
    await this.#take(step)
    await immediate()
  }

  /** Waits for real until a parked statement has ended: when nobody else can go on, PostgreSQL has to decide. */
  async awaitParked(): Promise<void> {
    await Promise.race(this.#parked.map(({ ended }) => ended))
    await this.#look([])
    await immediate()
  }

  /** The actor is gone: what it was doing has no end. Its transactions are rolled back. */
  async kill(actor: Actor): Promise<void> {
    actor.state = 'dead'
    actor.held.length = 0
    this.#steps = this.#steps.filter((step) => step.actor !== actor)
    this.#timers = this.#timers.filter((timer) => timer.actor !== actor)
    for (const client of actor.transactions) await client.lose()
  }

  async pause(actor: Actor, forMs: number): Promise<void> {
    actor.state = 'paused'
    const open = [...actor.transactions]
    this.at(this.now + forMs, null, () => {
      if (actor.state !== 'paused') return
      actor.state = 'running'
      actor.pausedUntil = this.now
      for (const deliver of actor.held.splice(0)) deliver()
    })
    if (forMs > IDLE_IN_TRANSACTION_MS && open.length > 0) {
      this.at(this.now + IDLE_IN_TRANSACTION_MS, null, () => {
        for (const client of open) void this.step({ actor: this.#server, label: 'timeout', run: () => client.lose() })
      })
    }
  }

  /** Every statement has ended and every connection is given back. */
  async end(actors: readonly Actor[]): Promise<void> {
    this.#isOver = true
    for (const actor of actors) await this.kill(actor)
    while (this.#parked.length > 0) await this.awaitParked()
  }

  readonly #server = new Actor('postgres')

  async #take(step: Step): Promise<void> {
    const fault = this.#faultOf(step)
    if (fault && !fault.answerLost) {
      if (fault.kind === 'pause') this.#steps.push(step)
      return await this.#befall(step, fault)
    }
    step.actor.onStep(step.label, step.values)
    const running = new Running(step, fault)
    if (!step.lose) await running.ended
    else await Promise.race([running.ended, sleepForReal(LOCK_LOOK_MS)])
    if (await this.#hasEnded(running)) return await this.#look([await this.#finish(running)])
    this.#log(`${step.actor.name}: ${step.label} waits for a lock`)
    this.#parked.push(running)
  }

  /** Waits for the end, unless it waits for somebody's lock. */
  async #hasEnded(running: Running): Promise<boolean> {
    while (!running.hasEnded) {
      if (await this.#isBlocked(running.step.pid())) return running.hasEnded
      await Promise.race([running.ended, sleepForReal(1)])
    }
    return true
  }

  async #finish({ step, fault, result, error }: Running): Promise<Finished> {
    const { actor, label, values, commits } = step
    this.#log(`${actor.name}: ${label}${error ? ` ✗ ${describeError(error)}` : ''}`)
    if (error && !(error instanceof Injected)) this.unexpected ??= error
    if (error) return { taken: [], answer: () => step.fail(error), actor }
    if (fault) await this.#befall(step, fault)
    const rows = (result as { rows?: Record<string, unknown>[] } | undefined)?.rows ?? []
    const taken = commits ? [{ actor, label, values, commits, rows }] : []
    return { taken, answer: !fault || fault.kind === 'pause' ? () => step.done(result) : () => undefined, actor }
  }

  /** Some statement has ended: so may those that waited for it. */
  async #look(finished: Finished[]): Promise<void> {
    for (let found = true; found;) {
      found = false
      for (const running of this.#parked) {
        if (!(await this.#hasEnded(running))) continue
        this.#parked = this.#parked.filter((other) => other !== running)
        finished.push(await this.#finish(running))
        found = true
      }
    }
    const taken = finished.flatMap((one) => one.taken)
    if (taken.length > 0 && !this.#isOver) await this.#onTaken(taken)
    for (const { actor, answer } of finished) this.#deliver(actor, answer)
  }

  /** By an actor: PostgreSQL's own business (vacuum, growing a file) is over in no time. */
  async #isBlocked(pid: number | null): Promise<boolean> {
    if (pid === null) return false
    const { rows } = await this.#pool.query<{ blockers: number[] }>({
      name: 'blockers',
      text: 'select pg_blocking_pids($1) as blockers',
      values: [pid],
    })
    const actors = new Set([
      ...[...this.open].map((client) => client.pid),
      ...this.#parked.map(({ step }) => step.pid()),
    ])
    return rows[0]!.blockers.some((blocker) => actors.has(blocker))
  }

  #faultOf(step: Step): ArmedFault | null {
    const { fault } = step.actor
    if (!fault || (fault.kind === 'error' && !step.lose)) return null
    if (fault.afterSteps-- > 0) return null
    step.actor.fault = null
    return fault
  }

  async #befall(step: Step, fault: ArmedFault): Promise<void> {
    const { actor } = step
    this.#log(`${actor.name}: ${fault.kind} ${fault.answerLost ? 'after' : 'before'} ${step.label}`)
    if (fault.kind === 'error') {
      await step.lose?.()
      this.#deliver(actor, () => step.fail(new Injected()))
    } else if (fault.kind === 'pause') {
      await this.pause(actor, fault.lastsMs)
    } else {
      await this.kill(actor)
      actor.onDeath(fault.lastsMs)
    }
  }

  #deliver(actor: Actor | null, fire: () => void): void {
    if (actor === null || actor.state === 'running') fire()
    else if (actor.state === 'paused') actor.held.push(fire)
  }
}

class Injected extends Error {
  constructor() {
    super('connection lost')
  }
}

/** A step under way. */
class Running {
  readonly step: Step
  readonly fault: ArmedFault | null
  readonly ended: Promise<void>
  hasEnded = false
  result: unknown = null
  error: Error | null = null

  constructor(step: Step, fault: ArmedFault | null) {
    this.step = step
    this.fault = fault
    this.ended = this.#run()
  }

  async #run(): Promise<void> {
    try {
      this.result = await this.step.run()
    } catch (error) {
      this.error = error as Error
    }
    this.hasEnded = true
  }
}

function describeError(error: Error): string {
  return `${error.message} ${(error as { detail?: string }).detail ?? ''}`
}

/** One connection of an actor: for one transaction, or for one statement alone. One that is lost says so at its next statement. */
class GatedClient extends EventEmitter {
  readonly #scheduler: Scheduler
  readonly #actor: Actor
  readonly #pool: Pool
  readonly #isSingle: boolean
  #real: PoolClient | null = null
  #isOpen = false
  #isLost = false
  #isRunning = false
  readonly #flushed: (readonly unknown[])[] = []

  constructor(scheduler: Scheduler, actor: Actor, from: { pool: Pool; isSingle: boolean }) {
    super()
    this.#scheduler = scheduler
    this.#actor = actor
    this.#pool = from.pool
    this.#isSingle = from.isSingle
  }

  query(config: unknown, values?: unknown[]): Promise<QueryResult> {
    const { name, text, args } = readConfig(config, values)
    const ends = text === 'commit' || text === 'rollback'
    return this.#scheduler.step<QueryResult>({
      actor: this.#actor,
      label: name,
      values: name === 'flush_outcomes' ? [args] : text === 'commit' ? this.#flushed : args,
      commits: text === 'commit' || (this.#isSingle && !READS.has(name)),
      lose: () => this.lose(),
      pid: () => this.pid,
      run: async () => {
        if (this.#isLost) throw new Injected()
        this.#real ??= await this.#pool.connect()
        if (/^begin\b/.test(text)) this.#open()
        this.#isRunning = true
        const result = await this.#real.query(config as string, values as string[]).finally(() => {
          this.#isRunning = false
          if (ends || this.#isSingle) this.release()
        })
        if (name === 'flush_outcomes') this.#flushed.push(args)
        if (this.#isLost) await this.lose()
        return result
      },
    })
  }

  /** The server process. */
  get pid(): number | null {
    return (this.#real as unknown as { processID: number } | null)?.processID ?? null
  }

  release(): void {
    this.#close()
    if (this.#isRunning) return
    this.#real?.release()
    this.#real = null
  }

  /** The server sees that the connection is gone: when it has ended the statement that is under way. */
  async lose(): Promise<void> {
    this.#isLost = true
    if (this.#isRunning) return
    if (this.#isOpen) await this.#real?.query('rollback')
    this.release()
  }

  #open(): void {
    this.#isOpen = true
    this.#actor.transactions.add(this)
    this.#scheduler.open.add(this)
  }

  #close(): void {
    this.#isOpen = false
    this.#actor.transactions.delete(this)
    this.#scheduler.open.delete(this)
  }
}

type QueryResult = { rows: Record<string, unknown>[]; rowCount: number | null }

const READS = new Set(['lock_breakers', 'troubled_breakers', 'blocked_lanes', 'open_streaks', 'begin', 'rollback'])

function readConfig(config: unknown, values?: unknown[]): { name: string; text: string; args: readonly unknown[] } {
  if (typeof config === 'string') return { name: nameOf(config), text: config, args: values ?? [] }
  const { name, text, values: given } = config as { name?: string; text: string; values?: unknown[] }
  return { name: name ?? nameOf(text), text, args: given ?? [] }
}

function nameOf(text: string): string {
  return text.trim().split(/\s+/, 4).join(' ')
}

async function sleepForReal(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}
