// The group's coordinator, asked: join, sync, heartbeat, leave, and the group's offsets. It knows the protocol's requests and who
// to send them to; when to send them is `membership.ts`'s matter. Commits are fenced: they carry the generation and the member that
// a completed join gave, so the coordinator refuses those of a member that no longer owns anything.
import { decodeConsumerProtocolAssignment, decodeConsumerProtocolSubscription } from '@platformatic/kafka'
import { encodeConsumerProtocolAssignment, encodeConsumerProtocolSubscription } from '@platformatic/kafka'
import type { Broker, joinGroupV9 } from '@platformatic/kafka'
import type { GroupMember, TopicPartitions } from './assigner.ts'
import { code, hasCode, wasAnswered } from './kafka-error.ts'
import type { KafkaRequests } from './requests.ts'
import type { Wire } from './wire.ts'

/** What a completed join gave: who we are in the group, for as long as the generation lasts, and what is ours. */
export interface Ownership {
  generation: number
  memberId: string
  partitions: TopicPartitions[]
}

export interface Joined {
  generation: number
  memberId: string
  protocol: string
  /** Everyone's subscription, for the member that leads the group; null for the others. */
  members: GroupMember[] | null
}

export interface GroupTimings {
  /** After this long without a heartbeat the coordinator takes a member for dead. */
  sessionTimeoutMs: number
  /** How long the coordinator waits for the members to join again when the group changes. */
  rebalanceTimeoutMs: number
  heartbeatIntervalMs: number
}

export interface CommittedPosition {
  topic: string
  partition: number
  offset: bigint
  leaderEpoch: number
}

export interface GroupParts {
  groupId: string
  timings: GroupTimings
  /** Answered at once. */
  control: Wire
  /** For the two requests that wait at the coordinator for the other members. */
  waiting: Wire
  /** Brokers that may be asked for the coordinator. */
  brokers: () => Broker[]
}

/** The name that members agree on, and that Kafka's own tools show. */
const PROTOCOL = 'roundrobin'
const GROUP_KEY = 0
const NEVER_COMMITTED = -1n

export class Group {
  readonly #parts: GroupParts
  #coordinator: Broker | null = null

  constructor(parts: GroupParts) {
    this.#parts = parts
  }

  get id(): string {
    return this.#parts.groupId
  }

  /** `memberId` is '' for a member that has none yet. Waits until every member has joined. */
  async join(memberId: string, topics: string[]): Promise<Joined> {
    const { groupId, timings, waiting } = this.#parts
    const protocols = [{ name: PROTOCOL, metadata: encodeConsumerProtocolSubscription({ version: 0, topics }) }]
    const response = await this.#ask(waiting, 'JoinGroup', [
      groupId,
      timings.sessionTimeoutMs,
      timings.rebalanceTimeoutMs,
      memberId,
      null,
      'consumer',
      protocols,
    ])
    return joinedOf(response)
  }

  /** The leader brings everyone's share, the others nothing; each gets its own. */
  async sync(joined: Joined, shares: ReadonlyMap<string, TopicPartitions[]>): Promise<Ownership> {
    const { groupId, waiting } = this.#parts
    const { generation, memberId, protocol } = joined
    const assignments = [...shares].map(([id, assignedPartitions]) => ({
      memberId: id,
      assignment: encodeConsumerProtocolAssignment({ version: 0, assignedPartitions }),
    }))
    const response = await this.#ask(waiting, 'SyncGroup', [
      groupId,
      generation,
      memberId,
      null,
      'consumer',
      protocol,
      assignments,
    ])
    const { assignedPartitions } = decodeConsumerProtocolAssignment(response.assignment)
    return { generation, memberId, partitions: assignedPartitions }
  }

  async heartbeat({ generation, memberId }: Ownership): Promise<void> {
    await this.#ask(this.#parts.control, 'Heartbeat', [this.#parts.groupId, generation, memberId, null])
  }

  async leave(memberId: string): Promise<void> {
    await this.#ask(this.#parts.control, 'LeaveGroup', [this.#parts.groupId, [{ memberId }]])
  }

  /** What the group has committed for each of `partitions`; null where that is nothing. */
  async committed(
    partitions: TopicPartitions[],
  ): Promise<{ topic: string; partition: number; offset: bigint | null }[]> {
    const topics = partitions.map(({ topic, partitions: partitionIndexes }) => ({ name: topic, partitionIndexes }))
    const group = { groupId: this.#parts.groupId, memberId: null, memberEpoch: -1, topics }
    const response = await this.#ask(this.#parts.control, 'OffsetFetch', [[group], false])
    const answered = response.groups?.[0]?.topics ?? response.topics ?? []
    return answered.flatMap(({ name, partitions: list }) =>
      list.map(({ partitionIndex, committedOffset }) => {
        const offset = committedOffset === NEVER_COMMITTED ? null : committedOffset
        return { topic: name, partition: partitionIndex, offset }
      }),
    )
  }

  /** Rejects when the coordinator refuses: then nothing was committed, and sending it again under another generation would be wrong. */
  async commit(ownership: Ownership, { topic, partition, offset, leaderEpoch }: CommittedPosition): Promise<void> {
    const position = {
      partitionIndex: partition,
      committedOffset: offset,
      committedLeaderEpoch: leaderEpoch,
      committedMetadata: null,
    }
    await this.#ask(this.#parts.control, 'OffsetCommit', [
      this.#parts.groupId,
      ownership.generation,
      ownership.memberId,
      null,
      [{ name: topic, partitions: [position] }],
    ])
  }

  async #ask<Name extends keyof KafkaRequests>(
    wire: Wire,
    name: Name,
    request: KafkaRequests[Name]['request'],
  ): Promise<KafkaRequests[Name]['response']> {
    const coordinator = (this.#coordinator ??= await this.#findCoordinator())
    return wire.call(coordinator, name, request).catch((error: unknown) => {
      if (!wasAnswered(error) || hasCode(error, ...COORDINATOR_MOVED)) this.#coordinator = null
      throw error
    })
  }

  async #findCoordinator(): Promise<Broker> {
    const { control, brokers, groupId } = this.#parts
    const response = await control.callAny(brokers(), 'FindCoordinator', [GROUP_KEY, [groupId]])
    const { host, port } = response.coordinators[0] as Broker
    return { host, port }
  }
}

const COORDINATOR_MOVED = [code.NOT_COORDINATOR, code.COORDINATOR_NOT_AVAILABLE, code.COORDINATOR_LOAD_IN_PROGRESS]

function joinedOf(response: joinGroupV9.JoinGroupResponse): Joined {
  const { generationId, memberId, protocolName, leader, members } = response
  const everyone = members.map(({ memberId: id, metadata }) => {
    return { id, topics: decodeConsumerProtocolSubscription(metadata).topics }
  })
  return {
    generation: generationId,
    memberId,
    protocol: protocolName ?? PROTOCOL,
    members: leader === memberId ? everyone : null,
  }
}
