// Membership of the consumer group, by Kafka's classic protocol, as one loop:
//
//   look at the topics ─▶ join ─▶ sync ─▶ take ─▶ heartbeat … until the group rebalances or the topics change ─▶ release ─┐
//        ▲                 │        │                             │ membership lost                                       │
//        └── back off ◀────┴────────┴───────────── drop ◀─────────┘                        (join again) ◀─────────────────┘
//
// `release` lets what is being written finish and commit, or abandons it, before the next join goes out: so a partition's new owner
// starts only after the old one has stopped. `drop` is for when that is too late: others may own the partitions already.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { assign } from './assigner.ts'
import { backoff } from './backoff.ts'
import type { Discovery } from './discovery.ts'
import type { Group, GroupTimings, Joined, Ownership } from './group.ts'
import { code, EXPELLED, hasCode, responseIn } from './kafka-error.ts'
import type { StreamMetrics } from './metrics.ts'
import type { Troubles } from '../base/troubles.ts'
import { Waker } from './waker.ts'

export const NOT_JOINED = 'the consumer group cannot be joined'

/** Who reads while the membership lasts. */
export interface Owner {
  take(ownership: Ownership): void
  /** Resolves when nothing is being written any more, or what is has been abandoned; within a time that the session survives. */
  release(): Promise<void>
  /** Abandons everything at once. */
  drop(): void
}

export interface MembershipParts {
  group: Group
  timings: GroupTimings
  discovery: Discovery
  owner: Owner
  clock: Clock
  troubles: Troubles
  metrics: StreamMetrics
  log: Log
  stopped: AbortSignal
}

export class Membership {
  readonly #parts: MembershipParts
  readonly #waker: Waker
  #memberId = ''
  #shape = ''
  #joined = false
  #since: number

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.#since = parts.clock.now()
    this.#waker = new Waker(parts.clock)
  }

  get joined(): boolean {
    return this.#joined
  }

  /** Epoch ms since when we have been in the group, or out of it. */
  get since(): number {
    return this.#since
  }

  /** Asks the coordinator now whether we are still a member, rather than at the next heartbeat. */
  check(): void {
    this.#waker.wake()
  }

  /** The topics may have changed: join again if they have. */
  topicsSeen(): void {
    if (this.#joined && this.#parts.discovery.subscription.shape !== this.#shape) this.#waker.wake()
  }

  /** Is a member, again and again, until stopped; leaving is `leave`'s matter. Never rejects. */
  async run(): Promise<void> {
    const { owner, discovery, clock, troubles, stopped } = this.#parts
    let failures = 0
    while (!stopped.aborted) {
      try {
        const ownership = await this.#join()
        owner.take(ownership)
        failures = 0
        troubles.clear(NOT_JOINED)
        await this.#stay(ownership)
        if (!stopped.aborted) await this.#release()
      } catch (error) {
        this.#lost(error)
        // Being expelled is an answer, and the next join works: what failed before that is over.
        failures = hasCode(error, ...EXPELLED) ? 1 : failures + 1
        const lasts = failures > EXPECTED_FAILURES && discovery.connected
        if (lasts && !stopped.aborted) troubles.raise(NOT_JOINED, discovery.why(error))
        await clock.sleep(backoff(failures), stopped)
      }
    }
  }

  /** Tells the coordinator that we are gone, so that the others need not wait for the session to run out. Never rejects. */
  async leave(): Promise<void> {
    if (this.#memberId !== '') await this.#parts.group.leave(this.#memberId).catch(() => undefined)
    this.#become(false)
  }

  async #join(): Promise<Ownership> {
    const { group, discovery, metrics, log } = this.#parts
    // A fresh look first: members that join together then mostly know the same topics, and need not rebalance again.
    await discovery.look()
    const { topics, shape } = discovery.subscription
    const joined = await this.#enter(topics)
    const ownership = await group.sync(joined, this.#shares(joined))
    this.#shape = shape
    this.#become(true)
    metrics.rebalances.inc({ group: group.id })
    const { generation, partitions } = ownership
    log.info({ group: group.id, generation, partitions: partitions.length }, 'joined the consumer group')
    return ownership
  }

  /** The id is kept as soon as it is known: a member that is stopped while it joins has to leave by it. */
  async #enter(topics: string[]): Promise<Joined> {
    const { group } = this.#parts
    const joined = await group.join(this.#memberId, topics).catch((error: unknown) => {
      // A newcomer is given its id first, and is to join with it.
      if (!hasCode(error, code.MEMBER_ID_REQUIRED)) throw error
      this.#memberId = responseIn(error, 'JoinGroup')?.memberId ?? ''
      return group.join(this.#memberId, topics)
    })
    this.#memberId = joined.memberId
    return joined
  }

  #shares({ members }: Joined): ReturnType<typeof assign> {
    if (members === null) return new Map()
    const counts = new Map<string, number>()
    for (const topic of new Set(members.flatMap(({ topics }) => topics))) {
      counts.set(topic, this.#parts.discovery.partitionCount(topic))
    }
    return assign(members, counts)
  }

  /** Resolves when it is time to join again; rejects when the membership is lost. */
  async #stay(ownership: Ownership): Promise<void> {
    const { group, timings, discovery, clock, stopped } = this.#parts
    let heard = clock.now()
    while (!stopped.aborted && discovery.subscription.shape === this.#shape) {
      await this.#waker.sleep(timings.heartbeatIntervalMs, stopped)
      if (stopped.aborted) return
      try {
        await group.heartbeat(ownership)
        heard = clock.now()
      } catch (error) {
        if (hasCode(error, code.REBALANCE_IN_PROGRESS)) return
        if (hasCode(error, ...EXPELLED) || clock.now() - heard > timings.sessionTimeoutMs) throw error
      }
    }
  }

  async #release(): Promise<void> {
    this.#parts.log.debug(
      { group: this.#parts.group.id },
      'giving the partitions up: the consumer group is to be joined anew',
    )
    await this.#parts.owner.release()
  }

  #become(joined: boolean): void {
    if (this.#joined !== joined) this.#since = this.#parts.clock.now()
    this.#joined = joined
  }

  #lost(error: unknown): void {
    this.#become(false)
    this.#parts.owner.drop()
    if (hasCode(error, code.UNKNOWN_MEMBER_ID)) this.#memberId = ''
  }
}

/** Being expelled once, or asking a coordinator that is still loading, is everyday: only what lasts is reported, and only where brokers answer. */
const EXPECTED_FAILURES = 3
