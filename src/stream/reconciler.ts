// Watches how the topics stand. What the streams see of them is always fresh; the limits of sizes, which take a question of their own,
// are as old as the last look. Every process looks for itself: a question now and then costs a broker nothing, and an answer needs
// no other process. Each finding is told once when it is found, and once when it is over.
import { Gauge } from '@prometheus-io/client'
import { messageOf } from '../base/errors.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Registry } from '../base/metrics.ts'
import type { Service } from '../base/service.ts'
import { findingsOf, reportsOf, type TopicReport } from './standing.ts'
import type { Stream } from './stream.ts'
import { readTopicLimits } from './topic-limits.ts'
import { Troubles } from '../base/troubles.ts'
import { Wire, type KafkaConnection } from './wire.ts'

export interface ReconcilerDeps {
  facts: Pick<Stream, 'topics'>
  deadLetters: Pick<Stream, 'topics'>
  /** `max.message.bytes` of those of the topics whose broker tells it. */
  limitsOf: (topics: readonly string[]) => Promise<ReadonlyMap<string, number>>
  /** Of the connection that `limitsOf` uses. */
  close?: () => Promise<void>
  everyMs: number
  clock: Clock
  log: Log
  metrics: Registry
}

/** While the streams have not seen a topic yet, the next look is soon. */
const FIRST_MS = 5_000
const ANSWER_MS = 10_000
const STANDINGS = ['subscribed', 'sick', 'ignored', 'foreign'] as const
const ROOMS = ['missing', 'too_small', 'unknown'] as const

/** A reconciler that asks the brokers of `connection`. */
export function createReconciler(
  connection: KafkaConnection,
  deps: Omit<ReconcilerDeps, 'limitsOf' | 'close'>,
): Reconciler {
  const wire = new Wire(connection, ANSWER_MS)
  return new Reconciler({
    ...deps,
    limitsOf: (topics) => readTopicLimits(wire, connection.brokers, topics),
    close: () => wire.close(),
  })
}

export class Reconciler implements Service {
  readonly name = 'reconciler'
  readonly #deps: ReconcilerDeps
  readonly #findings: Troubles
  readonly #gauge: Gauge<'standing'>
  readonly #stopping = new AbortController()
  #limits: ReadonlyMap<string, number> = new Map()
  #told = new Set<string>()
  #loop: Promise<void> | null = null

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps
    this.#findings = new Troubles(deps.log, deps.clock)
    this.#gauge = new Gauge({
      name: 'hub_topics',
      help: 'Topics of the broker by how they stand, at the last look; dead_letters_*: topics of facts by the room for their dead letters',
      labelNames: ['standing'] as const,
      registers: [deps.metrics],
    })
  }

  /** Resolves at once: while no broker can be reached, nothing is known. */
  async start(): Promise<void> {
    this.#loop = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#deps.close?.().catch(() => undefined)
    await this.#loop
  }

  /** As the streams see them now, with the limits of the last look; also where it was never started. */
  topics(): TopicReport[] {
    const { facts, deadLetters } = this.#deps
    return reportsOf({ facts: facts.topics(), deadLetters: deadLetters.topics(), limits: this.#limits })
  }

  /** Looks once. A broker that does not answer leaves the limits as they were. Never rejects. */
  async look(): Promise<void> {
    const { limitsOf, log } = this.#deps
    const known = this.topics().filter(({ kind }) => kind === 'facts' || kind === 'dead_letters')
    try {
      this.#limits = await limitsOf(known.map(({ topic }) => topic))
    } catch (error) {
      log.debug({ err: messageOf(error) }, 'the limits of the topics cannot be read')
    }
    const reports = this.topics()
    this.#tell(findingsOf(reports))
    this.#count(reports)
  }

  async #run(): Promise<void> {
    const { clock, everyMs } = this.#deps
    while (!this.#stopping.signal.aborted) {
      await this.look()
      const pause = this.topics().length === 0 ? Math.min(FIRST_MS, everyMs) : everyMs
      await clock.sleep(pause, this.#stopping.signal)
    }
  }

  #tell(findings: ReadonlyMap<string, string>): void {
    if (this.#stopping.signal.aborted) return
    for (const [subject, reason] of findings) this.#findings.raise(subject, reason)
    for (const subject of this.#told) if (!findings.has(subject)) this.#findings.clear(subject)
    this.#told = new Set(findings.keys())
  }

  #count(reports: readonly TopicReport[]): void {
    for (const standing of STANDINGS)
      this.#gauge.set({ standing }, reports.filter(({ state }) => state === standing).length)
    for (const room of ROOMS)
      this.#gauge.set(
        { standing: `dead_letters_${room}` },
        reports.filter(({ deadLetters }) => deadLetters === room).length,
      )
  }
}
