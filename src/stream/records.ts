// From the bytes of a partition's log to records, lazily: a batch is decompressed when its turn comes. Left out are control batches,
// records of aborted transactions, and those before the position (a batch may begin earlier); gaps are normal (compaction).
import { readRecordsBatch, Reader, type RecordsBatch } from '@platformatic/kafka'
import type { IncomingRecord } from '../event/record.ts'
import type { FetchedPartition } from './fetch.ts'

export interface Slice {
  /** May be empty: then only the position moves. */
  records: IncomingRecord[]
  /** The position after this slice. */
  next: bigint
  /** The leader's epoch under which the last of it was written. */
  leaderEpoch: number
}

export interface SliceLimits {
  records: number
  bytes: number
}

/**
 * Cuts what was fetched into slices of at most `limits.records` records, and of about `limits.bytes` unless one record alone is
 * larger. Throws at the first batch that cannot be read, after everything before it has been given.
 */
export function* slicesOf(fetched: FetchedPartition, position: bigint, limits: SliceLimits): Generator<Slice> {
  let slice: Slice = { records: [], next: position, leaderEpoch: -1 }
  let bytes = 0
  try {
    for (const part of partsOf(fetched, position)) {
      const { record, size } = part
      const full = slice.records.length >= limits.records || (bytes > 0 && bytes + size > limits.bytes)
      if (record !== null && full) {
        yield slice
        slice = { ...slice, records: [] }
        bytes = 0
      }
      if (record !== null) slice.records.push(record)
      slice.next = part.next
      slice.leaderEpoch = part.leaderEpoch
      bytes += size
    }
  } catch (error) {
    if (slice.records.length > 0) yield slice
    throw error
  }
  if (slice.next > position) yield slice
}

/** A record, or a step of the position that brings none. */
interface Part {
  record: IncomingRecord | null
  size: number
  next: bigint
  leaderEpoch: number
}

function* partsOf(fetched: FetchedPartition, position: bigint): Generator<Part> {
  const transactions = new Aborted(fetched.aborted)
  for (const batch of batchesOf(fetched.bytes)) {
    const { leaderEpoch, end } = batch
    const records = transactions.hide(batch) ? [] : recordsOf(batch, fetched)
    for (const { record, size } of records) {
      const { offset } = record.position
      if (offset >= position) yield { record, size, next: offset + 1n, leaderEpoch }
    }
    if (end > position) yield { record: null, size: 0, next: end, leaderEpoch }
  }
}

/** A batch's fixed part, read without touching its records. */
interface Batch {
  /** The offset after the batch. */
  end: bigint
  leaderEpoch: number
  producerId: bigint
  transactional: boolean
  control: boolean
  /** The time at which the broker took the batch, where the topic is set to that; else null. */
  logAppendTime: bigint | null
  whole: Buffer
}

const BATCH_HEAD_BYTES = 61
const FORMAT = 2

function* batchesOf(bytes: Buffer): Generator<Batch> {
  for (let at = 0; at + BATCH_HEAD_BYTES <= bytes.length;) {
    const size = 12 + bytes.readInt32BE(at + 8)
    if (at + size > bytes.length) return
    const whole = bytes.subarray(at, at + size)
    const format = whole.readInt8(16)
    if (format !== FORMAT)
      throw new Error(`record format ${format} cannot be read, only ${FORMAT} (Kafka 0.11 and newer)`)
    const attributes = whole.readInt16BE(21)
    yield {
      end: whole.readBigInt64BE(0) + BigInt(whole.readInt32BE(23)) + 1n,
      leaderEpoch: whole.readInt32BE(12),
      producerId: whole.readBigInt64BE(43),
      transactional: (attributes & 0x10) !== 0,
      control: (attributes & 0x20) !== 0,
      logAppendTime: (attributes & 0x08) !== 0 ? whole.readBigInt64BE(35) : null,
      whole,
    }
    at += size
  }
}

const ABORT_MARKER = 0

/** Which transactions are aborted at the place that has been reached: each begins at an offset and ends at its producer's marker. */
class Aborted {
  readonly #ahead: { producerId: bigint; firstOffset: bigint }[]
  readonly #open = new Set<bigint>()

  constructor(transactions: readonly { producerId: bigint; firstOffset: bigint }[]) {
    this.#ahead = [...transactions].sort((a, b) => Number(b.firstOffset - a.firstOffset))
  }

  /** Whether the batch holds nothing for a reader. To be called once for each batch, in order. */
  hide(batch: Batch): boolean {
    for (let next = this.#ahead.at(-1); next && next.firstOffset < batch.end; next = this.#ahead.at(-1)) {
      this.#open.add(next.producerId)
      this.#ahead.pop()
    }
    if (!batch.control) return batch.transactional && this.#open.has(batch.producerId)
    if (isAbortMarker(batch)) this.#open.delete(batch.producerId)
    return true
  }
}

function isAbortMarker(batch: Batch): boolean {
  return decode(batch).records[0]?.key?.readInt16BE(2) === ABORT_MARKER
}

interface SizedRecord {
  record: IncomingRecord & { position: { partition: number; offset: bigint } }
  size: number
}

function* recordsOf(batch: Batch, { topic, partition }: FetchedPartition): Generator<SizedRecord> {
  const { firstOffset, firstTimestamp, records } = decode(batch)
  for (const { offsetDelta, timestampDelta, key, value, headers, length } of records) {
    const time = batch.logAppendTime ?? firstTimestamp + timestampDelta
    const position = { partition, offset: firstOffset + BigInt(offsetDelta) }
    const timestamp = time < 0n ? null : Number(time)
    yield { record: { topic, position, timestamp, key, headers, value }, size: length }
  }
}

function decode(batch: Batch): RecordsBatch {
  return readRecordsBatch(Reader.from(batch.whole))
}
