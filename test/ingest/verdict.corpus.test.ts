// The conformance corpus: records that producers may send, with the verdict that each must get.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import type { IncomingRecord } from '../../src/event/record.ts'
import { verdict } from '../../src/ingest/verdict.ts'

/** Bytes as the corpus writes them. */
type Bytes = { utf8: string } | { base64: string } | { repeat: string; times: number } | { value: null }

interface Case {
  name: string
  topic: string
  headers: ({ key: string } & Bytes)[]
  value: Bytes | null
  verdict: 'accept' | 'drop' | 'quarantine'
  reason?: string
  expect?: { schema_major?: number; event_key?: string; tenant?: string; id?: string }
}

const corpus = JSON.parse(readFileSync(new URL('../corpus/verdicts.json', import.meta.url), 'utf8')) as {
  cases: Case[]
}

test('the corpus is whole', () => {
  assert.equal(corpus.cases.length, 138)
})

for (const each of corpus.cases) {
  test(`${each.name} → ${each.reason ?? each.verdict}`, () => {
    const record = recordOf(each)
    const decided = verdict(record)
    assert.equal(decided.kind, each.verdict, 'detail' in decided ? decided.detail : '')
    if (decided.kind === 'quarantine') assert.equal(decided.reason, each.reason)
    if (decided.kind !== 'accept') return
    const { event } = decided
    const read = { schema_major: event.schemaMajor, event_key: event.key, tenant: event.tenantId, id: event.id }
    assert.deepEqual({ ...read, ...each.expect }, read)
    assert.equal(event.data, record.value)
  })
}

function recordOf({ topic, headers, value }: Case): IncomingRecord {
  const pairs = headers.map((header): IncomingRecord['headers'][number] => [Buffer.from(header.key), bytesOf(header)])
  return {
    topic,
    position: { partition: 0, offset: 0n },
    timestamp: null,
    key: null,
    headers: pairs,
    value: bytesOf(value),
  }
}

function bytesOf(bytes: Bytes | null): Buffer | null {
  if (bytes === null || 'value' in bytes) return null
  if ('utf8' in bytes) return Buffer.from(bytes.utf8)
  if ('base64' in bytes) return Buffer.from(bytes.base64, 'base64')
  return Buffer.from(bytes.repeat.repeat(bytes.times))
}
