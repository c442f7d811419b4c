// The ids of records that have none of their own. A quarantined one's is made from where it stands in the stream, so that the same
// record, read again after a crash, has the same id and is kept once. A dead letter's says when it was seen, by which it is kept.
import { createHash, randomBytes } from 'node:crypto'
import type { IncomingRecord } from '../event/record.ts'

/** A UUIDv7 of the record's time (0 where it has none) and a hash of its position; without a position, of `seenAt` and chance. */
export function recordId({ topic, position, timestamp }: IncomingRecord, seenAt: Date): string {
  if (!position) return uuid7Of(randomBytes(16), seenAt.getTime())
  const place = `${topic}:${position.partition}:${position.offset}`
  return uuid7Of(createHash('sha256').update(place).digest().subarray(0, 16), timestamp ?? 0)
}

/** A UUIDv7 of when a record was seen, epoch ms; of several seen at once the order is kept (`place`: 0 to 4095). */
export function seenId(at: number, place: number): string {
  const bytes = randomBytes(16)
  bytes.writeUInt16BE(place, 6)
  return uuid7Of(bytes, at)
}

function uuid7Of(bytes: Buffer, at: number): string {
  bytes.writeUIntBE(Math.min(Math.max(at, 0), 2 ** 48 - 1), 0, 6)
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
