// The stream over Apache Kafka: makes the parts (connections, discovery, membership, the loop), starts and stops them, and answers
// for their state. It starts also while no broker can be reached, and goes on trying: `health` says so, and the log says it once.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Registry } from '../base/metrics.ts'
import { Consumer } from './consumer.ts'
import { CLUSTER_UNREACHABLE, Discovery } from './discovery.ts'
import { Fetcher } from './fetcher.ts'
import { Group, type GroupTimings } from './group.ts'
import { Membership, NOT_JOINED } from './membership.ts'
import { streamMetrics } from './metrics.ts'
import type { BatchHandler, PartitionLag, Stream, StreamHealth, TopicStanding } from './stream.ts'
import { settledBefore, settledWithin } from '../base/patience.ts'
import { Troubles } from '../base/troubles.ts'
import { Room } from './room.ts'
import { Wire, type KafkaConnection } from './wire.ts'

export interface KafkaStreamOptions {
  /** What health and the log call it. */
  name: string
  connection: KafkaConnection
  groupId: string
  /** Which topics to read, by name; asked again for each topic at every look. */
  accepts: (topic: string) => boolean
  handler: BatchHandler
  log: Log
  clock: Clock
  metrics?: Registry
  timings?: Partial<GroupTimings>
  /** How often the topics are looked at, in ms; default 5 s. */
  discoverEveryMs?: number
  /** Fetched bytes held at a time, over all partitions, and a quarter as much for what they become when opened; default 64 MiB. */
  memoryBytes?: number
  /** Records in one batch that the handler gets, at most; default 500. */
  batchRecords?: number
}

// Kafka's own defaults, but for the rebalance: a batch that is being written when the group rebalances is waited for.
const TIMINGS: GroupTimings = { sessionTimeoutMs: 45_000, rebalanceTimeoutMs: 60_000, heartbeatIntervalMs: 3_000 }
const DISCOVER_EVERY_MS = 5_000
const MEMORY_BYTES = 64 << 20
const BATCH_RECORDS = 500
/** How long a broker may hold back its answer while there is nothing to read: four requests a second when all is quiet. */
const WAIT_MS = 250
/** What is being written may take a third of the session when its partition has to be given up, and never more than this. */
const LONGEST_RELEASE_MS = 10_000
const ANSWER_MS = 10_000
/** Closing a connection that hangs is not waited for. */
const CLOSE_MS = 1_000

/** A stream that is not started yet. */
export function createKafkaStream(options: KafkaStreamOptions): Stream {
  return new KafkaStream(options.name, compose(options))
}

type Parts = ReturnType<typeof compose>

function compose(options: KafkaStreamOptions) {
  const { clock, groupId, connection, accepts, handler } = options
  const log = options.log.child({ stream: options.name })
  const timings = { ...TIMINGS, ...options.timings }
  const stop = new AbortController()
  const troubles = new Troubles(log, clock)
  const metrics = streamMetrics(options.metrics)
  const wires = wiresFor(connection, timings)
  const common = { clock, log, troubles, metrics, stopped: stop.signal, control: wires.control }
  const discovery = new Discovery({
    ...common,
    bootstrap: connection.brokers,
    accepts,
    everyMs: options.discoverEveryMs ?? DISCOVER_EVERY_MS,
  })
  const group = new Group({ groupId, timings, ...wires, brokers: () => discovery.candidates() })
  const memoryBytes = options.memoryBytes ?? MEMORY_BYTES
  const fetcher = new Fetcher({ ...common, discovery, wire: wires.data, memoryBytes, waitMs: WAIT_MS })
  const consumer = new Consumer({
    ...common,
    group,
    discovery,
    fetcher,
    handler,
    batchRecords: options.batchRecords ?? BATCH_RECORDS,
    room: new Room(memoryBytes / 4),
    releaseMs: Math.min(LONGEST_RELEASE_MS, timings.sessionTimeoutMs / 3),
    onRefused: () => membership.check(),
  })
  const membership = new Membership({ ...common, group, timings, discovery, owner: consumer })
  return { clock, log, stop, troubles, wires, discovery, group, fetcher, consumer, membership }
}

function wiresFor(connection: KafkaConnection, timings: GroupTimings) {
  const answerMs = Math.min(ANSWER_MS, timings.sessionTimeoutMs / 3)
  return {
    control: new Wire(connection, answerMs),
    waiting: new Wire(connection, timings.rebalanceTimeoutMs + answerMs),
    data: new Wire(connection, WAIT_MS + ANSWER_MS),
  }
}

class KafkaStream implements Stream {
  readonly name: string
  readonly #parts: Parts
  readonly #letGo = new AbortController()
  #loops: Promise<void>[] = []
  #stopping: Promise<void> | null = null

  constructor(name: string, parts: Parts) {
    this.name = name
    this.#parts = parts
  }

  /** Resolves at once: that no broker can be reached is a state, not a failure to start. */
  async start(): Promise<void> {
    const { discovery, membership, consumer } = this.#parts
    const onLook = (): void => {
      membership.topicsSeen()
      consumer.pump()
    }
    this.#loops = [discovery.run(onLook), membership.run()]
  }

  async stop(deadline: AbortSignal): Promise<void> {
    if (deadline.aborted) this.#letGo.abort()
    else deadline.addEventListener('abort', () => this.#letGo.abort(), { once: true })
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  lag(): PartitionLag[] {
    return this.#parts.consumer.lag()
  }

  health(): StreamHealth {
    const { troubles, discovery, membership } = this.#parts
    const subject = [CLUSTER_UNREACHABLE, NOT_JOINED].find((each) => troubles.find(each) !== null)
    const trouble = subject === undefined ? null : troubles.find(subject)
    const { connected } = discovery
    const { joined, since } = membership
    if (trouble !== null) return { connected, joined, problem: `${subject}: ${trouble.message}`, since: trouble.since }
    return { connected, joined, problem: joined ? null : 'joining the consumer group', since }
  }

  topics(): TopicStanding[] {
    return this.#parts.discovery.standings()
  }

  async #stop(): Promise<void> {
    const { consumer, membership, stop, wires, clock } = this.#parts
    await consumer.close(this.#letGo.signal)
    stop.abort()
    const left = settledWithin(clock, CLOSE_MS, membership.leave())
    await settledBefore(this.#letGo.signal, left)
    const closed = Promise.allSettled([wires.control.close(), wires.waiting.close(), wires.data.close()])
    await settledWithin(
      clock,
      CLOSE_MS,
      closed.then(() => this.#ended()),
    )
  }

  async #ended(): Promise<void> {
    await Promise.allSettled([...this.#loops, this.#parts.fetcher.settled()])
  }
}
