// Decompresses a record batch, but never into more than a bound: a few kilobytes can be made that grow into gigabytes. What a batch
// may grow to is told by its format before it is decompressed (snappy, lz4), or watched while it is (gzip, zstd).
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { compressionsAlgorithms } from '@platformatic/kafka'

/** Producers bound a batch before they compress it, to a few MiB at most. */
export const MOST_INFLATED_BYTES = 64 << 20

const RECORDS_AT = 61
const ATTRIBUTES_AT = 21
const CODEC_BITS = 0b111
const [GZIP, SNAPPY, LZ4, ZSTD] = [1, 2, 3, 4]

/** The batch as it was before its records were compressed; itself where they are not. Throws where it would be too large, or is broken. */
export function inflate(whole: Buffer): Buffer {
  const attributes = whole.readInt16BE(ATTRIBUTES_AT)
  const codec = attributes & CODEC_BITS
  if (codec === 0) return whole
  const records = decompress(codec, whole.subarray(RECORDS_AT))
  const plain = Buffer.concat([whole.subarray(0, RECORDS_AT), records])
  plain.writeInt32BE(plain.length - 12, 8)
  plain.writeInt16BE(attributes & ~CODEC_BITS, ATTRIBUTES_AT)
  return plain
}

function decompress(codec: number, data: Buffer): Buffer {
  const bound = { maxOutputLength: MOST_INFLATED_BYTES }
  try {
    switch (codec) {
      case GZIP:
        return gunzipSync(data, bound)
      case ZSTD:
        return zstdDecompressSync(data, bound)
      case SNAPPY:
        if (snappySize(data) > MOST_INFLATED_BYTES) throw new TooLarge()
        return compressionsAlgorithms.snappy.decompressSync(data)
      case LZ4:
        if (lz4Bound(data) > MOST_INFLATED_BYTES) throw new TooLarge()
        return compressionsAlgorithms.lz4.decompressSync(data)
      default:
        throw new Error(`a record batch is compressed in a way that is not known (${codec})`)
    }
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') throw new TooLarge({ cause: error })
    throw error
  }
}

class TooLarge extends Error {
  constructor(options?: ErrorOptions) {
    super(`a record batch would grow beyond ${MOST_INFLATED_BYTES >> 20} MiB when decompressed`, options)
  }
}

const XERIAL = Buffer.from('\x82SNAPPY\0', 'latin1')
const XERIAL_HEAD_BYTES = 16

/** A block says its size at its beginning; Java's framing is a sequence of blocks. */
function snappySize(data: Buffer): number {
  if (!data.subarray(0, XERIAL.length).equals(XERIAL)) return blockSize(data)
  let size = 0
  for (let at = XERIAL_HEAD_BYTES; at < data.length;) {
    const length = data.readUInt32BE(at)
    size += blockSize(data.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return size
}

function blockSize(block: Buffer): number {
  let size = 0
  for (let at = 0; at < 5; at++) {
    const byte = block.readUInt8(at)
    size += (byte & 0x7f) * 2 ** (7 * at)
    if (byte < 0x80) return size
  }
  throw new Error('a record batch is not what snappy writes')
}

const LZ4_MAGIC = 0x184d2204
const LZ4_MOST_GROWTH = 255

/** Each block of a frame grows at most to what the frame's head allows for a block, and no byte to more than 255. */
function lz4Bound(data: Buffer): number {
  if (data.readUInt32LE(0) !== LZ4_MAGIC) throw new Error('a record batch is not what lz4 writes')
  const flags = data.readUInt8(4)
  const mostInBlock = 2 ** (8 + 2 * ((data.readUInt8(5) >> 4) & 0b111))
  const checksum = flags & 0x10 ? 4 : 0
  let bound = 0
  let at = 7 + (flags & 0x08 ? 8 : 0) + (flags & 0x01 ? 4 : 0)
  while (at + 4 <= data.length) {
    const word = data.readUInt32LE(at)
    const size = word & 0x7fffffff
    if (size === 0) break
    bound += word >>> 31 ? size : Math.min(mostInBlock, size * LZ4_MOST_GROWTH)
    at += 4 + size + checksum
  }
  return bound
}
