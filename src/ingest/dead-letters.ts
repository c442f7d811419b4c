// The second consumer, for observability alone: producers' dead letters are kept for people to look at. There is no verdict and no
// matching here, and nothing of it is ever delivered. The promises are ingest's own: one transaction, safe to repeat, and a fault
// of the database stalls the partition. No record can fail the write by what it holds, for all of it is stored as bytes, or as
// text that was made safe (dead-letter.ts): so a refusal is never taken for a record's fault, and no record is ever given up.
import type { Clock } from '../base/clock.ts'
import type { IncomingRecord } from '../event/record.ts'
import type { Pool } from '../store/pool.ts'
import { lockDeadLetters, storeDeadLetters } from '../store/producer-dead-letters.ts'
import type { FoundDeadLetter } from '../store/producer-dead-letters.ts'
import { transaction } from '../store/transaction.ts'
import { readDeadLetter } from './dead-letter.ts'
import type { DeadLetterMetrics } from './metrics.ts'
import { seenId } from './record-id.ts'

export interface DeadLetterDeps {
  pool: Pool
  clock: Clock
  metrics: DeadLetterMetrics
}

/** Records of one partition of `source`'s `.dlq` topic. */
export interface DeadLetterBatch {
  source: string
  topic: string
  partition: number
  records: readonly IncomingRecord[]
}

/** Keeps what was not kept before; answers how many that were. Rejects when the database cannot take it now: the same call again is right. */
export async function keepDeadLetters(batch: DeadLetterBatch, deps: DeadLetterDeps): Promise<number> {
  const { source, topic, partition, records } = batch
  const now = deps.clock.now()
  const found = records.map((record, place): FoundDeadLetter => {
    return { id: seenId(now, place), source, fields: readDeadLetter(record.headers), record }
  })
  const kept = await transaction(deps.pool, async (db) => {
    await lockDeadLetters(db, topic, partition)
    return await storeDeadLetters(db, found, new Date(now))
  })
  deps.metrics.kept.inc({ source }, kept)
  return kept
}
