// The id of a record that has none of its own (a quarantined one, a dead letter): a UUIDv7 made from where it stands in the
// stream, so that the same record, read again after a crash, has the same id and is kept once.
import { createHash, randomBytes } from 'node:crypto'
import type { IncomingRecord } from '../event/record.ts'

/** A UUIDv7 of the record's time (0 where it has none) and a hash of its position; random where it has no position. */
export function recordId({ topic, position, timestamp }: IncomingRecord): string {
  const bytes = position
    ? createHash('sha256').update(`${topic}:${position.partition}:${position.offset}`).digest().subarray(0, 16)
    : randomBytes(16)
  const time = Math.min(Math.max(timestamp ?? 0, 0), 2 ** 48 - 1)
  bytes.writeUIntBE(time, 0, 6)
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
