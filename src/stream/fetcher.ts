// Asks the brokers for the next records of the partitions that are idle, one request at a time to each broker. A partition that is
// busy or rests after a failure is not asked for, which is pause, rewind and bounded memory in one. Bytes that are fetched and not
// yet written are held to a budget, shared evenly by the brokers: when a broker's share is used up it is asked again only after
// something of it has been written. Who went unserved the longest is asked for first, so a large neighbour starves nobody.
import type { Clock } from '../base/clock.ts'
import type { Discovery } from './discovery.ts'
import { fetchRecords, type FetchedPartition, type PartitionToFetch } from './fetch.ts'
import { keyOf, type Partition } from './partition.ts'
import type { Troubles } from '../base/troubles.ts'
import type { Wire } from './wire.ts'

export interface FetcherParts {
  wire: Wire
  discovery: Discovery
  clock: Clock
  troubles: Troubles
  stopped: AbortSignal
  /** Fetched bytes held at a time, over all partitions. A single record batch that is larger still gets through. */
  memoryBytes: number
  /** How long a broker may hold back its answer while there is nothing to read, in ms. */
  waitMs: number
}

/** Whose partitions are fetched. */
export interface Reader {
  /** What a fetch brought for a partition that has not moved since it was asked for. */
  received(partition: Partition, fetched: FetchedPartition): void
  /** A request failed as a whole. */
  failed(partitions: Partition[], error: unknown): void
  /** A broker may be asked again. */
  pump(): void
}

/** As much as one partition is asked for at a time: some hundreds of records of usual size. */
const PARTITION_BYTES = 1 << 20
/** A request for less than this is not worth its round trip. */
const LEAST_BYTES = 64 << 10
/** The shortest wait at a broker, in ms. */
const LEAST_WAIT_MS = 5

interface Asking {
  broker: number
  partitions: Partition[]
  maxBytes: number
  waitMs: number
}

export class Fetcher {
  readonly #parts: FetcherParts
  readonly #inTheAir = new Map<number, Promise<void>>()

  constructor(parts: FetcherParts) {
    this.#parts = parts
  }

  /** Asks each broker that is free for those of `owned` that are idle and whose position is known. */
  ask(owned: Partition[], reader: Reader): void {
    const { clock, memoryBytes } = this.#parts
    const byLeader = Map.groupBy(owned, ({ topic, number }) => this.#parts.discovery.leader(topic, number))
    const share = Math.floor(memoryBytes / byLeader.size)
    for (const [broker, led] of byLeader) {
      const partitions = led.filter((partition) => partition.position !== null && partition.isIdle(clock.now()))
      const maxBytes = roomIn(share, led)
      if (broker === null || this.#inTheAir.has(broker) || partitions.length === 0 || maxBytes === 0) continue
      const asking = this.#fetch({ broker, partitions, maxBytes, waitMs: this.#patience(led) }, reader).finally(() => {
        this.#inTheAir.delete(broker)
        reader.pump()
      })
      this.#inTheAir.set(broker, asking)
    }
  }

  /** Resolves when nothing is in the air. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#inTheAir.values())
  }

  /**
   * While others are being written, a broker waits no longer than the youngest of these writes has taken already: one that ends soon
   * can be asked for only after this answer, and so is kept waiting at most as long again as its own write took.
   */
  #patience(led: Partition[]): number {
    const now = this.#parts.clock.now()
    const busy = led.filter(({ task }) => task !== null).map(({ busySince }) => now - busySince)
    const resting = led.filter(({ retryAt }) => retryAt > now).map(({ retryAt }) => retryAt - now)
    return Math.max(LEAST_WAIT_MS, Math.min(this.#parts.waitMs, ...busy, ...resting))
  }

  async #fetch({ broker: id, partitions, maxBytes, waitMs }: Asking, reader: Reader): Promise<void> {
    const { wire, discovery, troubles, stopped } = this.#parts
    const subject = `broker ${id} cannot be read from`
    try {
      const broker = discovery.broker(id)
      if (broker === undefined) throw new Error('it is not known')
      const asked = partitions.sort((a, b) => a.servedAt - b.servedAt).map((one) => questionOf(one, maxBytes))
      const fetched = await fetchRecords(wire, broker, { waitMs, maxBytes, partitions: asked })
      troubles.clear(subject)
      this.#handOver(fetched, { asked, partitions }, reader)
    } catch (error) {
      if (stopped.aborted) return
      reader.failed(partitions, error)
      // Where no broker can be reached at all, that is said already, and once.
      const others = discovery.look()
      await others.then(
        () => troubles.raise(subject, discovery.why(error)),
        () => undefined,
      )
    }
  }

  #handOver(
    fetched: FetchedPartition[],
    { asked, partitions }: { asked: PartitionToFetch[]; partitions: Partition[] },
    reader: Reader,
  ): void {
    const now = this.#parts.clock.now()
    const answers = new Map(fetched.map((answer) => [keyOf(answer.topic, answer.partition), answer]))
    for (const [index, partition] of partitions.entries()) {
      const answer = answers.get(partition.key)
      const moved = partition.revoked.aborted || !partition.isIdle(now) || partition.position !== asked[index]?.offset
      if (answer !== undefined && !moved) reader.received(partition, answer)
    }
  }
}

function questionOf({ topic, topicId, number, position }: Partition, maxBytes: number): PartitionToFetch {
  const most = Math.min(maxBytes, PARTITION_BYTES)
  return { topic, topicId, partition: number, offset: position ?? 0n, maxBytes: most }
}

/** How many bytes a broker may be asked for: its share less what is held; 0: too little to ask for. */
function roomIn(share: number, led: Partition[]): number {
  const held = led.reduce((sum, { heldBytes }) => sum + heldBytes, 0)
  return held === 0 || share - held >= LEAST_BYTES ? share - held : 0
}
