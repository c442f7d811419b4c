// A quarantined record's id says when the record came, since it also decides in which week's partition it lies.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IncomingRecord } from '../../src/event/record.ts'
import { recordId } from '../../src/ingest/record-id.ts'

const [written, seen] = [Date.UTC(2026, 5, 1), Date.UTC(2026, 5, 3)]
const record: IncomingRecord = {
  topic: 'lerian.streaming.lender',
  position: { partition: 3, offset: 9n },
  timestamp: written,
  key: null,
  headers: [],
  value: null,
}

test('a record from the stream has one id, however often it is read, of the time at which it was written', () => {
  const id = recordId(record, new Date(seen))
  assert.equal(recordId(record, new Date(seen + 60_000)), id)
  assert.notEqual(recordId({ ...record, position: { partition: 3, offset: 10n } }, new Date(seen)), id)
  assert.equal(timeOf(id), written)
})

test('a record over HTTP has an id of its own, of the time at which it was seen', () => {
  const posted = { ...record, position: null, timestamp: null }
  const id = recordId(posted, new Date(seen))
  assert.equal(timeOf(id), seen)
  assert.notEqual(recordId(posted, new Date(seen)), id)
})

function timeOf(id: string): number {
  return Number.parseInt(id.replace('-', '').slice(0, 12), 16)
}
