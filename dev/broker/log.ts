// One partition's log in memory: record batches as the producer sent them, stamped with their offsets. It holds at most so many
// bytes: the oldest batches go first, and the log then starts later, as it does under Kafka's retention.

interface StoredBatch {
  base: bigint
  next: bigint
  bytes: Buffer
}

/** Where the fields lie in a record batch. Base offset and leader epoch are not under its checksum, so that a broker may set them. */
const AT = { baseOffset: 0, length: 8, leaderEpoch: 12, magic: 16, lastOffsetDelta: 23 }
const HEAD_BYTES = 61

export class PartitionLog {
  readonly #batches: StoredBatch[] = []
  readonly #mostBytes: number
  #bytes = 0
  #start = 0n
  #end = 0n
  /** An error that every request for this partition is answered with; 0: none. */
  fault = 0
  /** Without a leader clients know of no broker to ask. */
  hasLeader = true

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  get start(): bigint {
    return this.#start
  }

  get end(): bigint {
    return this.#end
  }

  /** Appends whole record batches (format 2); the result is the offset of the first record. */
  append(batches: Buffer): bigint {
    const first = this.#end
    for (let at = 0; at + HEAD_BYTES <= batches.length;) {
      const size = 12 + batches.readInt32BE(at + AT.length)
      const bytes = Buffer.from(batches.subarray(at, at + size))
      bytes.writeBigInt64BE(this.#end, AT.baseOffset)
      bytes.writeInt32BE(0, AT.leaderEpoch)
      const next = this.#end + BigInt(bytes.readInt32BE(AT.lastOffsetDelta)) + 1n
      this.#batches.push({ base: this.#end, next, bytes })
      this.#bytes += size
      this.#end = next
      at += size
    }
    while (this.#bytes > this.#mostBytes && this.#batches.length > 1) this.#dropOldest()
    return first
  }

  /** Batches from the one that holds `offset` on, up to `mostBytes`; at least one where `atLeastOne`. */
  read(offset: bigint, mostBytes: number, atLeastOne: boolean): Buffer {
    const found: Buffer[] = []
    let size = 0
    for (let index = this.#indexOf(offset); index < this.#batches.length; index++) {
      const { bytes } = this.#batches[index] as StoredBatch
      if (size + bytes.length > mostBytes && !(atLeastOne && size === 0)) break
      found.push(bytes)
      size += bytes.length
    }
    return Buffer.concat(found)
  }

  /** Drops what lies before `offset`, batch by batch. */
  trimTo(offset: bigint): void {
    while (this.#batches[0] !== undefined && this.#batches[0].next <= offset) this.#dropOldest()
  }

  /** The place of the first batch that ends after `offset`, by halving. */
  #indexOf(offset: bigint): number {
    let low = 0
    let high = this.#batches.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#batches[middle] as StoredBatch).next <= offset) low = middle + 1
      else high = middle
    }
    return low
  }

  #dropOldest(): void {
    const oldest = this.#batches.shift()
    if (oldest === undefined) return
    this.#bytes -= oldest.bytes.length
    this.#start = oldest.next
  }
}

/** Whether the bytes are record batches of the one format that is served. */
export function isFormatTwo(batches: Buffer): boolean {
  return batches.length >= HEAD_BYTES && batches.readInt8(AT.magic) === 2
}
