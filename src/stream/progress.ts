// Does the reading get on? A group that polls and heartbeats may still be stuck at one record, so what counts is committed offsets: a
// partition that has something to do and has got nothing done for a while is stuck. One that is idle, slow, or far behind is not.
import type { PartitionLag } from './stream.ts'

/** Longer than a broker's or the database's short absence with its back-offs, and than the slowest write that still succeeds. */
export const STUCK_AFTER_MS = 60_000
/** So many are named; with a database that is away it is all of them. */
const MAX_NAMED = 5

/** As one readable sentence which partitions are stuck at `now` (epoch ms); null when none is. */
export function progressProblem(partitions: readonly PartitionLag[], now: number): string | null {
  const stuck = partitions.filter((partition) => isStuck(partition, now))
  if (stuck.length === 0) return null
  const named = stuck.slice(0, MAX_NAMED).map(({ topic, partition, lag }) => `${topic}/${partition} (${lag} behind)`)
  const others = stuck.length - named.length
  return `no progress in spite of lag: ${named.join(', ')}${others > 0 ? ` and ${others} more` : ''}`
}

/** What is behind by an unknown number is not taken for stuck: its topic's brokers are, and `health` and `lag` say so. */
function isStuck({ lag, lastProgressAt }: PartitionLag, now: number): boolean {
  return lag !== null && lag > 0n && now - lastProgressAt > STUCK_AFTER_MS
}
