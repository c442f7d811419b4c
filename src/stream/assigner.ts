// How a group shares out its partitions: the leading member decides for all, round robin. The library's own round robin ignores what
// each member subscribed to; here members may differ for a while, because they discover a new topic at different moments.

export interface GroupMember {
  id: string
  topics: readonly string[]
}

export interface TopicPartitions {
  topic: string
  partitions: number[]
}

/**
 * Gives every partition of every topic in `partitionCounts` to exactly one of the members that subscribed to it, if there is one;
 * members' shares of topics that all of them subscribed to differ by at most one partition. The same input gives the same answer.
 */
export function assign(
  members: readonly GroupMember[],
  partitionCounts: ReadonlyMap<string, number>,
): Map<string, TopicPartitions[]> {
  const inOrder = [...members].sort((a, b) => (a.id < b.id ? -1 : 1))
  const shares = new Map(inOrder.map(({ id }) => [id, new Map<string, number[]>()]))
  let turn = 0
  for (const topic of [...partitionCounts.keys()].sort()) {
    const able = inOrder.filter(({ topics }) => topics.includes(topic))
    if (able.length === 0) continue
    for (let partition = 0; partition < (partitionCounts.get(topic) ?? 0); partition++) {
      const { id } = able[turn++ % able.length] as GroupMember
      const share = shares.get(id) as Map<string, number[]>
      share.set(topic, [...(share.get(topic) ?? []), partition])
    }
  }
  return new Map(
    [...shares].map(([id, share]) => [id, [...share].map(([topic, partitions]) => ({ topic, partitions }))]),
  )
}
