// Which topics there are, and which of them are read: the cluster is looked at every few seconds, so that a topic that appears,
// grows or is deleted needs no restart, and at once when a request hints that something has moved. It is also where an unreachable
// cluster is noticed and reported.
import { parseBroker, type Broker } from '@platformatic/kafka'
import type { Clock } from '../base/clock.ts'
import { backoff } from './backoff.ts'
import { emptyView, readCluster, type ClusterView, type TopicView } from './metadata.ts'
import type { TopicStanding } from './stream.ts'
import type { Troubles } from '../base/troubles.ts'
import { whyUnreachable } from './unreachable.ts'
import { Waker } from './waker.ts'
import type { Wire } from './wire.ts'

export const CLUSTER_UNREACHABLE = 'the Kafka cluster cannot be reached'

/** A view younger than this is not worth asking for again: hundreds of partitions may hint at the same move. */
const FRESH_MS = 500

export interface DiscoveryParts {
  control: Wire
  bootstrap: readonly string[]
  accepts: (topic: string) => boolean
  everyMs: number
  clock: Clock
  troubles: Troubles
  stopped: AbortSignal
}

export class Discovery {
  readonly #parts: DiscoveryParts
  readonly #waker: Waker
  #view: ClusterView = emptyView
  #subscription: ReadonlyMap<string, TopicView> = new Map()
  #reading: Promise<void> | null = null
  #lookedAt = 0
  #failures = 0
  #connected = false
  #proven = false

  constructor(parts: DiscoveryParts) {
    this.#parts = parts
    this.#waker = new Waker(parts.clock)
  }

  /** Looks again and again until stopped; `onLook` is called after each look that was answered. */
  async run(onLook: () => void): Promise<void> {
    const { stopped } = this.#parts
    while (!stopped.aborted) {
      await this.look().then(onLook, () => undefined)
      await this.#waker.sleep(this.#failures > 0 ? backoff(this.#failures) : this.#parts.everyMs, stopped)
    }
  }

  /** Looks now; a look that is under way is joined. Rejects when the cluster cannot be reached. */
  async look(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  /** Something has moved: look now rather than at the next turn, unless a look has only just been. */
  hint(): void {
    if (this.#failures === 0 && this.#parts.clock.now() - this.#lookedAt > FRESH_MS) this.#waker.wake()
  }

  /** Brokers that may be asked for anything about the cluster: known and configured ones, another one first after each failure. */
  candidates(): Broker[] {
    const configured = this.#parts.bootstrap.map((broker) => parseBroker(broker))
    const all = [...this.#view.brokers.values(), ...configured]
    const first = this.#failures % all.length
    return [...all.slice(first), ...all.slice(0, first)]
  }

  /** Why a broker cannot be reached, in one sentence. */
  why(error: unknown): string {
    return whyUnreachable(error, { ...this.#parts.control.wayIn, proven: this.#proven })
  }

  get connected(): boolean {
    return this.#connected
  }

  /** The topics to read, and a text that changes exactly when the group has to share out partitions anew. */
  get subscription(): { topics: string[]; shape: string } {
    const topics = [...this.#subscription.values()]
    const shape = topics.map(({ name, id, leaders }) => `${name}:${id}:${leaders.length}`)
    return { topics: topics.map(({ name }) => name), shape: shape.join() }
  }

  /** As last known, also of a topic that is not read here; 0 where nothing is known. */
  partitionCount(topic: string): number {
    return this.#topic(topic)?.leaders.length ?? 0
  }

  /** Changes when a topic is made anew under the same name; undefined where there is none of this name. */
  topicId(topic: string): string | undefined {
    return this.#topic(topic)?.id
  }

  /** The broker that leads the partition; null where there is none at the moment. */
  leader(topic: string, partition: number): number | null {
    return this.#view.topics.get(topic)?.leaders[partition] ?? null
  }

  broker(id: number): Broker | undefined {
    return this.#view.brokers.get(id)
  }

  standings(): TopicStanding[] {
    return [...this.#view.topics.values()]
      .map(({ name, problem, leaders }): TopicStanding => {
        if (!this.#parts.accepts(name))
          return { topic: name, state: 'foreign', problem: null, partitions: leaders.length }
        const state = problem === null && this.#subscription.has(name) ? 'subscribed' : 'sick'
        return { topic: name, state, problem, partitions: leaders.length }
      })
      .sort((a, b) => (a.topic < b.topic ? -1 : 1))
  }

  /** A topic that is sick is remembered as it was known before. */
  #topic(topic: string): TopicView | undefined {
    return this.#subscription.get(topic) ?? this.#view.topics.get(topic)
  }

  async #read(): Promise<void> {
    const { control, troubles, clock, stopped } = this.#parts
    this.#lookedAt = clock.now()
    try {
      const view = await readCluster(control, this.candidates())
      const topics = subscriptionOf(view, [...this.#subscription.values()], this.#parts.accepts)
      this.#subscription = new Map(topics.map((topic) => [topic.name, topic]))
      this.#view = view
      this.#failures = 0
      this.#connected = true
      this.#proven = true
      troubles.clear(CLUSTER_UNREACHABLE)
    } catch (error) {
      this.#failures++
      this.#connected = false
      if (!stopped.aborted) troubles.raise(CLUSTER_UNREACHABLE, this.why(error))
      throw error
    }
  }
}

/** A topic whose partitions the broker cannot name at the moment stays subscribed as it was known before. */
export function subscriptionOf(
  view: ClusterView,
  before: readonly TopicView[],
  accepts: (topic: string) => boolean,
): TopicView[] {
  const known = new Map(before.map((topic) => [topic.name, topic]))
  return [...view.topics.values()]
    .filter(({ name }) => accepts(name))
    .map((topic) => (topic.leaders.length > 0 ? topic : (known.get(topic.name) ?? topic)))
    .filter(({ leaders }) => leaders.length > 0)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}
