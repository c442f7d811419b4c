// Consumer groups, as Kafka's coordinator runs them by the classic protocol:
//
//   empty ──join──▶ joining ──everyone has joined, or time is up──▶ syncing ──the leader's shares──▶ stable
//                      ▲                                                                                │
//                      └────────────── a member joins, leaves, or its session runs out ◀────────────────┘
//
// Offsets are taken only from a member of the current generation. While a group is joining, the generation before is still current:
// a member may finish and commit what it has begun.

export const groupError = {
  NONE: 0,
  ILLEGAL_GENERATION: 22,
  UNKNOWN_MEMBER_ID: 25,
  REBALANCE_IN_PROGRESS: 27,
  MEMBER_ID_REQUIRED: 79,
} as const

export interface JoinRequest {
  memberId: string
  instanceId: string | null
  sessionMs: number
  rebalanceMs: number
  protocols: { name: string; metadata: Buffer }[]
}

export interface JoinAnswer {
  errorCode: number
  generation: number
  protocol: string
  leader: string
  memberId: string
  /** Filled for the leader only. */
  members: { memberId: string; instanceId: string | null; metadata: Buffer }[]
}

export interface SyncAnswer {
  errorCode: number
  assignment: Buffer
}

interface Member {
  id: string
  request: JoinRequest
  seenAt: number
  assignment: Buffer
  answerJoin: ((answer: JoinAnswer) => void) | null
  answerSync: ((answer: SyncAnswer) => void) | null
}

export interface GroupOffset {
  offset: bigint
  leaderEpoch: number
}

/** How long a group waits for further members once all known ones have joined, in ms. */
const GATHER_MS = 30
const NOTHING = Buffer.alloc(0)

export class Groups {
  readonly #groups = new Map<string, ConsumerGroup>()

  get(id: string): ConsumerGroup {
    const known = this.#groups.get(id)
    if (known !== undefined) return known
    const group = new ConsumerGroup(id)
    this.#groups.set(id, group)
    return group
  }

  /** Puts out the members whose sessions have run out. To be called often. */
  sweep(): void {
    for (const group of this.#groups.values()) group.sweep()
  }

  close(): void {
    for (const group of this.#groups.values()) group.close()
  }

  /** Forgets all offsets of a topic that is deleted. */
  forgetTopic(topic: string): void {
    for (const group of this.#groups.values()) group.forgetTopic(topic)
  }
}

export class ConsumerGroup {
  readonly id: string
  readonly #members = new Map<string, Member>()
  readonly #offsets = new Map<string, GroupOffset>()
  readonly #invited = new Set<string>()
  #state: 'empty' | 'joining' | 'syncing' | 'stable' = 'empty'
  #generation = 0
  #leader = ''
  #protocol = ''
  #ids = 0
  #timer: NodeJS.Timeout | undefined

  constructor(id: string) {
    this.id = id
  }

  get generation(): number {
    return this.#generation
  }

  /** What the member was assigned in the current generation; undefined where it is no member. */
  assignment(memberId: string): Buffer | undefined {
    return this.#members.get(memberId)?.assignment
  }

  /** Answered when all members have joined. A newcomer is given an id first, and is to ask again with it. */
  async join(request: JoinRequest): Promise<JoinAnswer> {
    const { memberId } = request
    if (memberId === '') return this.#invite()
    const known = this.#members.get(memberId)
    if (known === undefined && !this.#invited.delete(memberId)) {
      return refuseJoin(groupError.UNKNOWN_MEMBER_ID, memberId)
    }
    const member = known ?? newMember(memberId, request)
    member.request = request
    this.#members.set(memberId, member)
    return new Promise((resolve) => {
      member.answerJoin = resolve
      this.#rebalance()
    })
  }

  /** Answered when the leader has brought everyone's share. */
  async sync(
    memberId: string,
    generation: number,
    shares: { memberId: string; assignment: Buffer }[],
  ): Promise<SyncAnswer> {
    const errorCode = this.#standing(memberId, generation)
    const member = this.#members.get(memberId)
    if (errorCode !== groupError.NONE || member === undefined) return { errorCode, assignment: NOTHING }
    member.seenAt = Date.now()
    if (this.#state === 'stable') return { errorCode, assignment: member.assignment }
    const answered = new Promise<SyncAnswer>((resolve) => {
      member.answerSync = resolve
    })
    if (memberId === this.#leader) this.#share(shares)
    return answered
  }

  heartbeat(memberId: string, generation: number): number {
    const member = this.#members.get(memberId)
    if (member !== undefined) member.seenAt = Date.now()
    return this.#standing(memberId, generation)
  }

  leave(memberId: string): number {
    if (!this.#members.delete(memberId)) return groupError.UNKNOWN_MEMBER_ID
    this.#rebalance()
    return groupError.NONE
  }

  /** The code that a commit is refused with; 0: it may be taken. */
  mayCommit(memberId: string, generation: number): number {
    if (!this.#members.has(memberId)) return groupError.UNKNOWN_MEMBER_ID
    if (generation !== this.#generation) return groupError.ILLEGAL_GENERATION
    return this.#state === 'syncing' ? groupError.REBALANCE_IN_PROGRESS : groupError.NONE
  }

  setOffset(topic: string, partition: number, offset: GroupOffset): void {
    this.#offsets.set(`${topic}:${partition}`, offset)
  }

  offset(topic: string, partition: number): GroupOffset | undefined {
    return this.#offsets.get(`${topic}:${partition}`)
  }

  forgetTopic(topic: string): void {
    for (const key of this.#offsets.keys()) if (key.startsWith(`${topic}:`)) this.#offsets.delete(key)
  }

  sweep(): void {
    const now = Date.now()
    for (const { id, seenAt, request, answerJoin, answerSync } of this.#members.values()) {
      const waits = answerJoin !== null || answerSync !== null
      if (!waits && now - seenAt > request.sessionMs) this.leave(id)
    }
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #invite(): JoinAnswer {
    const memberId = `${this.id}-${++this.#ids}`
    this.#invited.add(memberId)
    return refuseJoin(groupError.MEMBER_ID_REQUIRED, memberId)
  }

  #standing(memberId: string, generation: number): number {
    if (!this.#members.has(memberId)) return groupError.UNKNOWN_MEMBER_ID
    if (generation !== this.#generation) return groupError.ILLEGAL_GENERATION
    return this.#state === 'joining' ? groupError.REBALANCE_IN_PROGRESS : groupError.NONE
  }

  /** Waits for the members as long as the slowest may take, and goes on as soon as all are in. */
  #rebalance(): void {
    const members = [...this.#members.values()]
    if (this.#state !== 'joining') {
      this.#state = 'joining'
      for (const member of members) {
        member.answerSync?.({ errorCode: groupError.REBALANCE_IN_PROGRESS, assignment: NOTHING })
        member.answerSync = null
      }
      const longest = Math.max(GATHER_MS, ...members.map(({ request }) => request.rebalanceMs))
      this.#electAfter(longest)
    }
    if (members.every(({ answerJoin }) => answerJoin !== null)) this.#electAfter(GATHER_MS)
  }

  #electAfter(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#elect(), ms)
  }

  #elect(): void {
    for (const { id, answerJoin } of this.#members.values()) if (answerJoin === null) this.#members.delete(id)
    const [first] = this.#members.keys()
    if (first === undefined) {
      this.#state = 'empty'
      return
    }
    this.#generation++
    this.#state = 'syncing'
    if (!this.#members.has(this.#leader)) this.#leader = first
    this.#protocol = this.#members.get(this.#leader)?.request.protocols[0]?.name ?? ''
    for (const member of this.#members.values()) {
      member.answerJoin?.(this.#joined(member.id))
      member.answerJoin = null
      member.assignment = NOTHING
      member.seenAt = Date.now()
    }
  }

  #joined(memberId: string): JoinAnswer {
    const everyone = [...this.#members.values()].map(({ id, request }) => {
      const chosen = request.protocols.find(({ name }) => name === this.#protocol)
      return { memberId: id, instanceId: request.instanceId, metadata: chosen?.metadata ?? NOTHING }
    })
    const members = memberId === this.#leader ? everyone : []
    const { NONE: errorCode } = groupError
    return {
      errorCode,
      generation: this.#generation,
      protocol: this.#protocol,
      leader: this.#leader,
      memberId,
      members,
    }
  }

  #share(shares: { memberId: string; assignment: Buffer }[]): void {
    for (const { memberId, assignment } of shares) {
      const member = this.#members.get(memberId)
      if (member !== undefined) member.assignment = assignment
    }
    this.#state = 'stable'
    for (const member of this.#members.values()) {
      member.answerSync?.({ errorCode: groupError.NONE, assignment: member.assignment })
      member.answerSync = null
    }
  }
}

function newMember(id: string, request: JoinRequest): Member {
  return { id, request, seenAt: Date.now(), assignment: NOTHING, answerJoin: null, answerSync: null }
}

/** An answer that refuses: with an error the rest is empty, but for the id. */
export function refuseJoin(errorCode: number, memberId: string): JoinAnswer {
  return { errorCode, generation: -1, protocol: '', leader: '', memberId, members: [] }
}
