// Any record whatever gets exactly one verdict, and the right one by a second reading of the contract; what is quarantined is stored.
// `VERDICT_RECORDS=1000000` judges a million spoilt records instead of 200,000; `npm run mutations` stores them too.
import assert from 'node:assert/strict'
import test from 'node:test'
import { inspect } from 'node:util'
import * as fc from 'fast-check'
import { REASON_CODES } from '../../src/event/reason.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { verdict } from '../../src/ingest/verdict.ts'
import type { Verdict } from '../../src/ingest/verdict.ts'
import { testDatabase } from '../support/database.ts'
import { expectedVerdict } from '../support/oracles.ts'
import { seededRandom } from '../support/random.ts'
import { plainAttributes, recordWith, spoiltRecord } from '../support/records.ts'
import { runMutations } from './mutations.ts'

const RECORDS = Number(process.env['VERDICT_RECORDS'] ?? 200_000)

test(`${RECORDS} spoilt records: none throws, each has one verdict, every reason comes up`, () => {
  const random = seededRandom(20_260_514)
  const seen = new Map<string, number>()
  for (let count = 0; count < RECORDS; count++) {
    const record = spoiltRecord(random)
    const decided = verdict(record)
    assertIsRight(decided, record)
    const outcome = decided.kind === 'quarantine' ? decided.reason : decided.kind
    seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
  }
  const possible = ['accept', 'drop', ...REASON_CODES.filter((code) => code !== 'storage_rejected')]
  assert.deepEqual([...seen.keys()].sort(), possible.sort())
})

test('whatever becomes of a spoilt record, nothing is missing afterwards: each is an event, dropped, or kept as it came', async () => {
  await using database = await testDatabase()
  const { outcomes, missing } = await runMutations({ pool: database.pool, records: 10_000, seed: 20_260_514 })
  assert.equal(missing, 0)
  assert.ok(Object.keys(outcomes).length > 10, inspect(outcomes))
})

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)),
  fc.string({ unit: 'binary', maxLength: 40 }).map((text) => Buffer.from(text)),
  fc.constantFrom(...Object.values(plainAttributes), '', 'true').map((text) => Buffer.from(text)),
  fc.nat(70_000).map((length) => Buffer.alloc(length, 'é')),
)
const key = fc.oneof(
  bytes,
  fc
    .constantFrom(...Object.keys(plainAttributes), 'subject', 'systemevent', '')
    .map((name) => Buffer.from(`ce-${name}`)),
  bytes.map((name) => Buffer.concat([Buffer.from('ce-'), name])),
)
const header = fc.tuple(fc.option(key), fc.option(bytes))

test('any bytes in any headers, alone or beside a valid event, get the right verdict', () => {
  const any = fc.record({
    topic: fc.oneof(fc.constant('lerian.streaming.lender'), fc.string({ unit: 'binary' })),
    headers: fc.array(header, { maxLength: 12 }),
    value: fc.option(bytes),
    isPlain: fc.boolean(),
  })
  fc.assert(
    fc.property(any, ({ isPlain, ...rest }) => {
      const record = isPlain ? recordWith({}, rest) : { ...recordWith(), ...rest }
      assertIsRight(verdict(record), record)
    }),
    { numRuns: 5_000 },
  )
})

test('a record of thousands of headers, or of one huge header, is decided like any other', () => {
  const many = Array.from({ length: 5_000 }, (_, at): IncomingRecord['headers'][number] => [
    Buffer.from(`ce-x${at}`),
    Buffer.from('é'),
  ])
  assert.equal(verdict(recordWith({}, { headers: many })).kind, 'accept')
  const huge = recordWith({ id: '0'.repeat(5_000_000), [`x${'y'.repeat(1_000_000)}`]: '\u0000' })
  assertIsRight(verdict(huge), huge)
})

function assertIsRight(decided: Verdict, record: IncomingRecord): void {
  const expected = expectedVerdict(record)
  if (decided.kind !== expected.kind) assert.fail(`${expected.kind} expected: ${inspect({ decided, record })}`)
  if (decided.kind === 'quarantine' && expected.kind === 'quarantine') {
    assert.ok(expected.reasons.has(decided.reason), `${decided.reason}, expected ${[...expected.reasons].join()}`)
    assertIsStorable(decided.detail)
  }
  if (decided.kind === 'accept') assertSaysTheSame(decided.event, record)
}

function assertIsStorable(detail: string): void {
  assert.ok(detail.length > 0 && detail.length <= 300, `${detail.length} characters: ${detail}`)
  assert.ok(detail.isWellFormed())
  assert.doesNotMatch(detail, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
}

/** An accepted event says what the record says: written back as headers, it is the record without what is ignored. */
function assertSaysTheSame(
  { attributes, ...event }: Extract<Verdict, { kind: 'accept' }>['event'],
  record: IncomingRecord,
): void {
  const attributesOf = new Map(Object.entries(attributes))
  assert.equal(event.tenantId, attributesOf.get('tenantid'))
  assert.equal(event.id, attributesOf.get('id'))
  assert.equal(event.source, attributesOf.get('source'))
  assert.equal(`studio.lerian.${event.source}.${event.key}`, attributesOf.get('type'))
  assert.equal(event.resourceType, attributesOf.get('resourcetype'))
  assert.equal(event.data, record.value)
  const sent = new Set(
    record.headers
      .filter(([name, value]) => name?.subarray(0, 3).equals(Buffer.from('ce-')) && name.length > 3 && value?.length)
      .map(([name, value]) => `${name!.toString()}=${value!.toString()}`)
      .filter((text) => !text.includes('\ufffd'))
      .map((text) => (text.startsWith('ce-id=') ? text.toLowerCase() : text)),
  )
  const kept = new Set(
    [...attributesOf].map(([name, value]) => `ce-${name}=${value}`).filter((text) => !text.includes('\ufffd')),
  )
  assert.deepEqual(kept, sent)
}
