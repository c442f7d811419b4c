// The port through which records come in: whatever client stands behind it, one batch of one partition at a time is handed over,
// and a partition's offset is committed only after its handler has resolved. The promise is at least once, in the partition's
// order: a batch may come again (after a crash, or when its partition moved to another replica), so the handler must be idempotent.
import type { Service } from '../base/service.ts'
import type { IncomingRecord } from '../event/record.ts'

/** Neighbouring records of one partition, in its order; at least one. */
export interface RecordBatch {
  topic: string
  partition: number
  records: IncomingRecord[]
}

/**
 * Writes one batch in one idempotent transaction and resolves only after its commit. A rejection means: nothing was written, ask
 * again later (with back-off). `revoked` aborts when the partition is no longer ours: roll back if the commit has not gone out
 * yet; what is written all the same is written again by the new owner, and never committed to Kafka by us.
 */
export type BatchHandler = (batch: RecordBatch, revoked: AbortSignal) => Promise<void>

/** Where one partition that this process owns stands. Times are epoch ms. */
export interface PartitionLag {
  topic: string
  partition: number
  /** The next offset to be handed over; null until the broker has said where to start. */
  position: bigint | null
  /** Before it nothing is owed: the broker has confirmed it as committed, or this group began there; null as for `position`. */
  committed: bigint | null
  /** The first offset that may not be read yet (the log's end, or an open transaction); null until the broker has said it. */
  end: bigint | null
  /** Offsets from what is committed to the end; null while either is unknown. Aborted records and gaps count too. */
  lag: bigint | null
  /** Failures in a row, of fetching, writing or committing; 0 when all is well. */
  failures: number
  /** The text of the last of them; null when all is well. */
  problem: string | null
  /** When the committed offset last moved, or was last seen to have nothing left to do. */
  lastProgressAt: number
}

export interface StreamHealth {
  /** The brokers answered the last time that they were asked. */
  connected: boolean
  /** A member of the group with an assignment, which may be empty. */
  joined: boolean
  /** Why not, as one readable sentence without secrets; null when all is well. */
  problem: string | null
  /** Epoch ms since when it has been so. */
  since: number
}

/** `foreign`: its name is not accepted here; `subscribed`: read; `sick`: the broker reports it as broken: what is healthy of it is read. */
type TopicState = 'subscribed' | 'sick' | 'foreign'

export interface TopicStanding {
  topic: string
  state: TopicState
  /** What the broker says is wrong, for a sick one. */
  problem: string | null
  partitions: number
}

export interface Stream extends Service {
  /** One entry for each partition owned at the moment, sorted by topic and partition. */
  lag(): PartitionLag[]
  health(): StreamHealth
  /** Every topic of the broker that this stream has seen, sorted by name. */
  topics(): TopicStanding[]
}
