// From the bytes of a partition's log to records, lazily: a batch is opened when its turn comes and there is room for it, and its
// records are read as the slices are asked for, so that a partition holds no more of them than one slice. Left out are control batches, records of aborted transactions, and those before the position (a batch may begin earlier); gaps are normal
// (compaction).
import { readRecord, Reader } from '@platformatic/kafka'
import type { IncomingRecord } from '../event/record.ts'
import type { FetchedPartition } from './fetch.ts'
import { inflate } from './inflate.ts'
import type { Room } from './room.ts'

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

/** What it takes to open a batch, and until when that is of use. */
export interface Opening {
  room: Room
  left: AbortSignal
}

/** A record of a usual event as objects, two for each header: far more than its bytes, where these are few. */
const RECORD_BYTES = 3 << 10

/**
 * Cuts what was fetched into slices of at most `limits.records` records, and of about `limits.bytes` unless one record alone is
 * larger. A batch is opened when there is room for it, which is held until the last slice with records of it is done with. Throws at
 * the first batch that cannot be read, after everything before it has been given.
 */
export async function* slicesOf(
  fetched: FetchedPartition,
  from: { position: bigint; limits: SliceLimits },
  { room, left }: Opening,
): AsyncGenerator<Slice> {
  const cutting = new Cutting(from.position, from.limits)
  const transactions = new Aborted(fetched.aborted)
  let held = 0
  try {
    for (const batch of batchesOf(fetched.bytes)) {
      if (!transactions.hide(batch)) {
        // Nobody waits for room who holds some: all would wait for one another.
        if (!room.isOpen && held > 0) {
          yield* cutting.rest()
          room.give(held)
          held = 0
        }
        const { records, cost } = await opened(batch, { fetched, limits: from.limits }, { room, left })
        held += cost
        for (const record of records) {
          const whole = cutting.add(record, batch.leaderEpoch)
          if (whole === null) continue
          yield whole
          room.give(held - cost)
          held = cost
        }
      }
      cutting.moveTo(batch)
    }
    yield* cutting.rest()
  } catch (error) {
    if (cutting.hasRecords) yield* cutting.rest()
    throw error
  } finally {
    room.give(held)
  }
}

interface Opened {
  records: Iterable<SizedRecord>
  /** Bytes of room that it takes. */
  cost: number
}

async function opened(
  batch: Batch,
  { fetched, limits }: { fetched: FetchedPartition; limits: SliceLimits },
  { room, left }: Opening,
): Promise<Opened> {
  await room.enter(left)
  let cost = 0
  try {
    const plain = inflate(batch.whole)
    const grown = plain === batch.whole ? 0 : plain.length
    cost = grown + Math.min(batch.count, limits.records) * RECORD_BYTES
    return { records: recordsOf({ ...batch, whole: plain }, fetched), cost }
  } finally {
    room.take(cost)
  }
}

/** The slice that is being filled. */
class Cutting {
  readonly #limits: SliceLimits
  readonly #begin: bigint
  #slice: Slice
  #bytes = 0

  constructor(position: bigint, limits: SliceLimits) {
    this.#limits = limits
    this.#begin = position
    this.#slice = { records: [], next: position, leaderEpoch: -1 }
  }

  get hasRecords(): boolean {
    return this.#slice.records.length > 0
  }

  /** Takes the record in, unless it stands before the position. Answers with the slice before it where it begins a new one. */
  add({ record, size }: SizedRecord, leaderEpoch: number): Slice | null {
    const { offset } = record.position
    if (offset < this.#begin) return null
    const { records, bytes } = this.#limits
    const isFull = this.#slice.records.length >= records || (this.#bytes > 0 && this.#bytes + size > bytes)
    const whole = isFull ? this.#cut() : null
    this.#slice.records.push(record)
    this.#bytes += size
    this.#step(offset + 1n, leaderEpoch)
    return whole
  }

  /** The position moves to the end of the batch, though compaction or an abort have left nothing there. */
  moveTo({ end, leaderEpoch }: Batch): void {
    if (end > this.#slice.next) this.#step(end, leaderEpoch)
  }

  /** What is left to be given: nothing, where the position has not moved since the last slice. */
  *rest(): Generator<Slice> {
    if (this.#slice.leaderEpoch >= 0 || this.hasRecords) yield this.#cut()
  }

  #cut(): Slice {
    const slice = this.#slice
    this.#slice = { records: [], next: slice.next, leaderEpoch: -1 }
    this.#bytes = 0
    return slice
  }

  #step(next: bigint, leaderEpoch: number): void {
    this.#slice.next = next
    this.#slice.leaderEpoch = leaderEpoch
  }
}

/** A batch's fixed part, read without touching its records. */
interface Batch {
  /** The offset after the batch. */
  end: bigint
  leaderEpoch: number
  /** Of its records, as it says. */
  count: number
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
      count: whole.readInt32BE(57),
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
  if (batch.count === 0) return false
  const marker = readRecord(readerOf({ ...batch, whole: inflate(batch.whole) }))
  return marker.key?.readInt16BE(2) === ABORT_MARKER
}

interface SizedRecord {
  record: IncomingRecord & { position: { partition: number; offset: bigint } }
  size: number
}

function* recordsOf(batch: Batch, { topic, partition }: FetchedPartition): Generator<SizedRecord> {
  const firstOffset = batch.whole.readBigInt64BE(0)
  const firstTimestamp = batch.whole.readBigInt64BE(27)
  const reader = readerOf(batch)
  for (let nth = 0; nth < batch.count; nth++) {
    const { offsetDelta, timestampDelta, key, value, headers, length } = readRecord(reader)
    const time = batch.logAppendTime ?? firstTimestamp + timestampDelta
    const position = { partition, offset: firstOffset + BigInt(offsetDelta) }
    const timestamp = time < 0n ? null : Number(time)
    yield { record: { topic, position, timestamp, key, headers, value }, size: length }
  }
}

/** Stands at the first record of an inflated batch. */
function readerOf(batch: Batch): Reader {
  const reader = Reader.from(batch.whole)
  reader.skip(BATCH_HEAD_BYTES)
  return reader
}
