// The partition-safe loop. Each partition that is ours does one thing at a time: find its place, be fetched, have what was fetched
// written and committed slice by slice, or rest after a failure. A failed write leaves the position where it was, so the same
// records are fetched again; a position moves only after a write, and a commit goes out only while the partition is ours.
// There is no loop over all: `pump` looks at what is idle whenever something has changed, and begins what can be begun.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { IncomingRecord } from '../event/record.ts'
import { backoff } from './backoff.ts'
import type { Discovery } from './discovery.ts'
import type { FetchedPartition } from './fetch.ts'
import type { Fetcher, Reader } from './fetcher.ts'
import type { Group, Ownership } from './group.ts'
import { code, EXPELLED, hasCode, isNetworkError, nameOf, sentence, wasAnswered } from './kafka-error.ts'
import type { Owner } from './membership.ts'
import type { StreamMetrics } from './metrics.ts'
import { Partition } from './partition.ts'
import { settledBefore, settledWithin } from '../base/patience.ts'
import { slicesOf } from './records.ts'
import type { Room } from './room.ts'
import type { BatchHandler, PartitionLag } from './stream.ts'
import type { Troubles } from '../base/troubles.ts'
import type { Wire } from './wire.ts'

export interface ConsumerParts {
  group: Group
  fetcher: Fetcher
  discovery: Discovery
  control: Wire
  handler: BatchHandler
  /** Records in one batch that the handler gets. */
  batchRecords: number
  /** For what is opened of the batches that were fetched. */
  room: Room
  /** How long a write under way may take when its partition has to be given up, in ms. */
  releaseMs: number
  metrics: StreamMetrics
  clock: Clock
  log: Log
  troubles: Troubles
  stopped: AbortSignal
  /** Called when the coordinator has refused a commit: we may no longer be a member. */
  onRefused: () => void
}

/** A batch holds about as much at most, unless one record alone is larger: what one statement can take in one go. */
const BATCH_BYTES = 8 << 20
/** ListOffsets' way to ask where the log begins. */
const EARLIEST = -2n
const READ_COMMITTED = 1
/** The id of no topic: one that the leading member knows already and we do not is let alone until we have joined anew. */
const NO_TOPIC = '00000000-0000-0000-0000-000000000000'
const NO_POSITIONS = "the group's committed offsets cannot be read"

export class Consumer implements Owner, Reader {
  readonly #parts: ConsumerParts
  readonly #partitions = new Map<string, Partition>()
  #ownership: Ownership | null = null
  #releasing = false
  #closed = false

  constructor(parts: ConsumerParts) {
    this.#parts = parts
  }

  lag(): PartitionLag[] {
    return [...this.#partitions.values()]
      .map((partition) => partition.lag())
      .sort((a, b) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1))
  }

  take(ownership: Ownership): void {
    if (this.#closed) return
    this.#ownership = ownership
    void this.#open(ownership)
  }

  async release(): Promise<void> {
    const { clock, releaseMs } = this.#parts
    await this.#finish((written) => settledWithin(clock, releaseMs, written))
  }

  /** As `release`, for good, and with as much time as `letGo` leaves. */
  async close(letGo: AbortSignal): Promise<void> {
    this.#closed = true
    await this.#finish((written) => settledBefore(letGo, written))
  }

  drop(): void {
    this.#ownership = null
    for (const partition of this.#partitions.values()) {
      partition.revoke()
      this.#parts.troubles.forget(subjectOf(partition))
      this.#parts.metrics.lag.remove(this.#labels(partition))
    }
    this.#partitions.clear()
  }

  received(partition: Partition, fetched: FetchedPartition): void {
    // What comes while the partitions are being given up is left for the next owner.
    if (this.#releasing || this.#closed) return
    if (fetched.errorCode !== 0) return this.#refused(partition, fetched.errorCode)
    partition.end = fetched.end
    partition.servedAt = fetched.bytes.length > 0 ? this.#parts.clock.now() : partition.servedAt
    if (fetched.bytes.length > 0) {
      partition.heldBytes = fetched.bytes.length
      this.#begin(partition, () => this.#deliver(partition, fetched))
    } else {
      this.#recover(partition)
    }
    this.#note(partition)
  }

  failed(partitions: Partition[], error: unknown): void {
    for (const partition of partitions) this.#rest(partition, error)
  }

  /** Begins what can be begun. To be called when something may have changed: here, or in the cluster. */
  pump(): void {
    if (this.#releasing || this.#closed) return
    const owned = [...this.#partitions.values()].filter((partition) => !this.#isGone(partition))
    for (const partition of owned) {
      if (!partition.isIdle(this.#parts.clock.now())) continue
      if (partition.owesCommit) this.#begin(partition, () => this.#commit(partition))
      else if (partition.position === null) this.#begin(partition, () => this.#place(partition))
    }
    if (owned.length > 0) this.#parts.fetcher.ask(owned, this)
  }

  /** Begins nothing more; what is being written may finish and commit for as long as `waiting` waits, and is abandoned then. */
  async #finish(waiting: (written: Promise<unknown>) => Promise<void>): Promise<void> {
    this.#releasing = true
    const tasks = [...this.#partitions.values()].flatMap(({ task }) => task ?? [])
    await waiting(Promise.allSettled(tasks))
    this.drop()
    this.#releasing = false
  }

  /** Positions are the broker's: what this process remembers of a partition may be older than what another one has committed. */
  async #open(ownership: Ownership): Promise<void> {
    const { group, discovery, clock, troubles, stopped } = this.#parts
    // Before the offsets are asked for: those of a topic that is deleted are deleted with it, so they never belong to a younger id.
    const ids = new Map(ownership.partitions.map(({ topic }) => [topic, discovery.topicId(topic) ?? NO_TOPIC]))
    for (let failures = 0; this.#ownership === ownership; failures++) {
      if (failures > 0) await clock.sleep(backoff(failures), stopped)
      try {
        const positions = await group.committed(ownership.partitions)
        troubles.clear(NO_POSITIONS)
        if (this.#ownership === ownership) this.#adopt(positions, ids)
        return
      } catch (error) {
        if (wasAnswered(error)) troubles.raise(NO_POSITIONS, sentence(error))
      }
    }
  }

  #adopt(
    positions: { topic: string; partition: number; offset: bigint | null }[],
    ids: ReadonlyMap<string, string>,
  ): void {
    const now = this.#parts.clock.now()
    for (const { topic, partition, offset } of positions) {
      const owned = new Partition({ topic, topicId: ids.get(topic) ?? NO_TOPIC, partition, committed: offset, now })
      this.#partitions.set(owned.key, owned)
    }
    this.pump()
  }

  /** Its topic has been deleted, and perhaps made anew: offsets go by name, so nothing may be committed any more. */
  #isGone({ topic, topicId }: Partition): boolean {
    return this.#parts.discovery.topicId(topic) !== topicId
  }

  /** Runs `task` as the one thing that the partition is busy with; a failure makes it rest. */
  #begin(partition: Partition, task: () => Promise<void>): void {
    partition.busySince = this.#parts.clock.now()
    partition.task = task()
      .then(
        () => this.#recover(partition),
        (error: unknown) => this.#rest(partition, error),
      )
      .finally(() => {
        partition.task = null
        partition.heldBytes = 0
        this.pump()
      })
  }

  #recover(partition: Partition): void {
    if (partition.revoked.aborted || partition.failures === 0) return
    partition.recover()
    this.#parts.troubles.clear(subjectOf(partition))
  }

  #rest(partition: Partition, error: unknown): void {
    if (partition.revoked.aborted) return
    const { clock, troubles, discovery } = this.#parts
    const problem = sentence(error)
    const rest = partition.rest(problem, clock.now())
    // That brokers are away, or that we are no longer a member, is said elsewhere, and once for all partitions.
    if (!isNetworkError(error) && !hasCode(error, ...EXPELLED)) troubles.raise(subjectOf(partition), problem)
    discovery.hint()
    void clock.sleep(rest, partition.revoked).then(() => this.pump())
  }

  #refused(partition: Partition, errorCode: number): void {
    if (errorCode !== code.OFFSET_OUT_OF_RANGE) return this.#rest(partition, new Error(nameOf(errorCode)))
    const { topic, number, position } = partition
    this.#parts.log.error(
      { topic, partition: number, position },
      'the log no longer holds this position: reading on from where it begins',
    )
    partition.position = null
  }

  /** Nothing is committed yet, or the position is no longer in the log: begin where the log begins. */
  async #place(partition: Partition): Promise<void> {
    const { control, discovery } = this.#parts
    const leader = discovery.leader(partition.topic, partition.number)
    const broker = leader === null ? undefined : discovery.broker(leader)
    if (broker === undefined) throw new Error('it has no leader')
    const asked = { partitionIndex: partition.number, currentLeaderEpoch: -1, timestamp: EARLIEST }
    const topics = [{ name: partition.topic, partitions: [asked] }]
    const response = await control.call(broker, 'ListOffsets', [-1, READ_COMMITTED, topics])
    const offset = response.topics[0]?.partitions[0]?.offset
    if (offset === undefined) throw new Error('the broker does not say where its log begins')
    partition.placeAt(offset)
  }

  async #deliver(partition: Partition, fetched: FetchedPartition): Promise<void> {
    const from = partition.position as bigint
    const limits = { records: this.#parts.batchRecords, bytes: BATCH_BYTES }
    const opening = { room: this.#parts.room, left: partition.revoked }
    for await (const slice of slicesOf(fetched, { position: from, limits }, opening)) {
      if (slice.records.length > 0) await this.#write(partition, slice.records)
      // Written, and no longer ours to commit: the new owner writes it again, which changes nothing.
      if (partition.revoked.aborted) return
      partition.moveTo(slice)
      await this.#commit(partition)
      if (this.#releasing) return
    }
    if (partition.position === from) throw new Error('the broker sent less than one whole record batch')
  }

  async #write(partition: Partition, records: IncomingRecord[]): Promise<void> {
    const { handler, metrics, group, clock } = this.#parts
    const { topic, number } = partition
    const began = clock.now()
    const observe = (outcome: string): void => {
      metrics.writeSeconds.observe({ group: group.id, outcome }, (clock.now() - began) / 1000)
    }
    try {
      await handler({ topic, partition: number, records }, partition.revoked)
    } catch (error) {
      observe('failed')
      throw error
    }
    observe('written')
    metrics.batches.inc({ group: group.id, topic })
    metrics.records.inc({ group: group.id, topic }, records.length)
  }

  async #commit(partition: Partition): Promise<void> {
    const { group, metrics, clock, onRefused } = this.#parts
    const { topic, number, position: offset, leaderEpoch } = partition
    if (this.#ownership === null || offset === null || partition.revoked.aborted) return
    if (this.#isGone(partition)) throw new Error('its topic has been deleted')
    try {
      await group.commit(this.#ownership, { topic, partition: number, offset, leaderEpoch })
    } catch (error) {
      metrics.commitsRefused.inc({ group: group.id })
      if (hasCode(error, ...EXPELLED)) onRefused()
      throw error
    }
    partition.committedAt(offset, clock.now())
    this.#note(partition)
  }

  #note(partition: Partition): void {
    if (partition.revoked.aborted) return
    const lag = partition.note(this.#parts.clock.now())
    if (lag !== null) this.#parts.metrics.lag.set(this.#labels(partition), Number(lag))
  }

  #labels({ topic, number }: Partition): { group: string; topic: string; partition: string } {
    return { group: this.#parts.group.id, topic, partition: String(number) }
  }
}

function subjectOf({ topic, number }: Partition): string {
  return `partition ${number} of ${topic} makes no progress`
}
