// One partition for as long as it is ours without a break: where it stands, what it is busy with, and the token that says whether it
// still is ours. When it is lost and comes back it is a new one, whose position the broker gives: nothing is remembered over a gap.
import { backoff } from './backoff.ts'
import type { PartitionLag } from './stream.ts'

export interface PartitionPlace {
  topic: string
  topicId: string
  partition: number
  committed: bigint | null
  now: number
}

export class Partition {
  readonly topic: string
  /** The position counts in the log of this very topic, and not in that of a later one under the same name. */
  readonly topicId: string
  readonly number: number
  readonly #revoked = new AbortController()
  #isBehind = false
  /** The next offset to be handed over; null: to be asked for. */
  position: bigint | null
  /** Before it nothing is owed: the group has committed it, or began there. */
  committed: bigint | null
  /** Something has been written that is not yet confirmed as committed. */
  owesCommit = false
  end: bigint | null = null
  leaderEpoch = -1
  /** What is being done with it; at most one thing at a time. */
  task: Promise<void> | null = null
  /** Epoch ms since when it has been busy. */
  busySince = 0
  /** Bytes of the fetched batch that is being handed over. */
  heldBytes = 0
  /** Epoch ms at which records of it last came; the longest unserved is fetched first. */
  servedAt = 0
  /** Epoch ms before which it is let alone. */
  retryAt = 0
  failures = 0
  problem: string | null = null
  lastProgressAt: number

  constructor(place: PartitionPlace) {
    this.topic = place.topic
    this.topicId = place.topicId
    this.number = place.partition
    this.position = place.committed
    this.committed = place.committed
    this.lastProgressAt = place.now
  }

  get key(): string {
    return keyOf(this.topic, this.number)
  }

  /** Aborts when the partition is no longer ours. */
  get revoked(): AbortSignal {
    return this.#revoked.signal
  }

  revoke(): void {
    this.#revoked.abort()
  }

  /** Neither busy nor resting. */
  isIdle(now: number): boolean {
    return this.task === null && this.retryAt <= now
  }

  /** Something went wrong: to be let alone for a while, whose length in ms is the result. */
  rest(problem: string, now: number): number {
    this.failures++
    this.problem = problem
    const rest = backoff(this.failures)
    this.retryAt = now + rest
    return rest
  }

  recover(): void {
    this.failures = 0
    this.problem = null
  }

  /** Where to begin, when the group has committed nothing, or what it has is no longer in the log. */
  placeAt(offset: bigint): void {
    this.position = offset
    this.committed = offset
  }

  /** Its records up to there have been written. */
  moveTo({ next, leaderEpoch }: { next: bigint; leaderEpoch: number }): void {
    this.position = next
    this.leaderEpoch = leaderEpoch
    this.owesCommit = true
  }

  committedAt(offset: bigint, now: number): void {
    this.committed = offset
    this.owesCommit = false
    this.lastProgressAt = now
  }

  /** Its lag, now that something has been heard of it; having had nothing left to do until now counts as progress. */
  note(now: number): bigint | null {
    const { lag } = this.lag()
    const isBehind = lag !== null && lag > 0n
    if (!isBehind || !this.#isBehind) this.lastProgressAt = now
    this.#isBehind = isBehind
    return lag
  }

  lag(): PartitionLag {
    const { topic, number: partition, position, committed, end, failures, problem, lastProgressAt } = this
    const lag = end === null || committed === null ? null : end - committed
    return { topic, partition, position, committed, end, lag, failures, problem, lastProgressAt }
  }
}

export function keyOf(topic: string, partition: number): string {
  return `${topic}:${partition}`
}
