import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as fc from 'fast-check'
import { readDeadLetter } from '../../src/ingest/dead-letter.ts'
import { header, recordWith, type Header } from '../support/records.ts'

const dlq = (fields: Record<string, string | Buffer | null>): Header[] =>
  Object.entries(fields).map(([name, value]) => header(`x-lerian-dlq-${name}`, value))

const nothing = readDeadLetter([])

/** The type that is read where the record has, of what names it, only `attributes`. */
function typed(attributes: Record<string, string>): string | null {
  const absent = { resourcetype: undefined, eventtype: undefined, type: undefined }
  return readDeadLetter(recordWith({ ...absent, ...attributes }).headers).eventType
}

describe('a dead letter’s headers', () => {
  test('are read, the failed record’s own ones too', () => {
    const { headers } = recordWith(
      {},
      {
        headers: dlq({
          'source-topic': 'lerian.streaming.lender',
          'source-partition': '3',
          'source-offset': '9007199254740991',
          'error-class': 'schema.Invalid',
          'error-message': 'no such field\nat line 3',
          'cause-kind': 'codec',
          'retry-count': '7',
          'first-failure-at': '2026-05-14T10:47:30.123456789-03:00',
          'producer-id': 'lender-7f',
          'payload-omitted': 'true',
          'payload-bytes': '2097152',
        }),
      },
    )
    assert.deepEqual(readDeadLetter(headers), {
      tenantId: 'acme',
      eventId: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
      eventType: 'loan_application.approved',
      eventSource: 'lender',
      sourceTopic: 'lerian.streaming.lender',
      sourcePartition: 3,
      sourceOffset: 9007199254740991,
      errorClass: 'schema.Invalid',
      errorMessage: 'no such field\\u{a}at line 3',
      causeKind: 'codec',
      retryCount: 7,
      firstFailureAt: new Date('2026-05-14T13:47:30.123Z'),
      producerId: 'lender-7f',
      payloadOmitted: true,
      payloadBytes: 2097152,
    })
  })

  test('that are absent, null or empty are null', () => {
    assert.ok(Object.values(nothing).every((value) => value === null))
    const empty = dlq({ 'error-class': '', 'retry-count': '', 'first-failure-at': null, 'payload-omitted': '' })
    assert.deepEqual(readDeadLetter([...empty, header('ce-tenantid', ''), [null, Buffer.from('x')]]), nothing)
  })

  test('of an unreadable number, time or flag are null, the others stay', () => {
    const read = readDeadLetter(
      dlq({
        'source-partition': '2147483648',
        'source-offset': '-1',
        'retry-count': 'three',
        'first-failure-at': 'yesterday',
        'payload-omitted': 'maybe',
        'payload-bytes': '1e3',
        'error-class': 'x',
      }),
    )
    assert.deepEqual(read, { ...nothing, errorClass: 'x' })
  })

  test('may come twice: the last one that can be read counts', () => {
    const headers = [
      ...dlq({ 'retry-count': '1', 'cause-kind': 'codec' }),
      ...dlq({ 'retry-count': '2', 'cause-kind': 'handler' }),
      ...dlq({ 'retry-count': 'many', 'cause-kind': '' }),
    ]
    assert.deepEqual(readDeadLetter(headers), { ...nothing, retryCount: 2, causeKind: 'handler' })
  })

  test('name the event’s type by its parts, or else by ce-type', () => {
    assert.equal(typed({ resourcetype: 'loan', eventtype: 'paid', type: 'other' }), 'loan.paid')
    assert.equal(typed({ resourcetype: 'loan', type: 'studio.lerian.lender.card.lost' }), 'card.lost')
    assert.equal(typed({ type: 'card.lost' }), null)
  })

  const times: [string, string | null][] = [
    ['2026-05-14T13:47:30Z', '2026-05-14T13:47:30.000Z'],
    ['2026-05-14t13:47:30z', '2026-05-14T13:47:30.000Z'],
    [' 2026-05-14 13:47:30.5 ', '2026-05-14T13:47:30.500Z'],
    ['2026-05-14T13:47:30', '2026-05-14T13:47:30.000Z'],
    ['2016-12-31T23:59:60Z', '2016-12-31T23:59:59.000Z'],
    ['1778766450', '2026-05-14T13:47:30.000Z'],
    ['1778766450123', '2026-05-14T13:47:30.123Z'],
    ['0001-01-01T00:00:00Z', null],
    ['2026-02-30T00:00:00Z', null],
    ['14 May 2026', null],
    ['2026', null],
  ]
  for (const [text, expected] of times) {
    test(`time "${text}" is ${expected}`, () => {
      const { firstFailureAt } = readDeadLetter(dlq({ 'first-failure-at': text }))
      assert.equal(firstFailureAt?.toISOString() ?? null, expected)
    })
  }

  test('that are not UTF-8, hold NUL or are huge come out as text that any column can hold', () => {
    const huge = Buffer.alloc(3 << 20, 'ä')
    const read = readDeadLetter([
      header('ce-tenantid', Buffer.from([0xff, 0x00, 0xed, 0xa0, 0x80])),
      header('ce-id', huge),
      ...dlq({ 'error-class': huge, 'error-message': huge, 'retry-count': huge, 'first-failure-at': huge }),
      [huge, huge],
    ])
    assert.equal(read.tenantId, '\ufffd\\u{0}\ufffd\ufffd\ufffd')
    assert.equal(read.eventId?.length, 512)
    assert.equal(read.errorClass?.length, 512)
    assert.equal(read.errorMessage?.length, 8192)
    assert.deepEqual([read.retryCount, read.firstFailureAt], [null, null])
  })

  test('of any bytes give values within their bounds', () => {
    const names = Object.keys(nothing).length
    fc.assert(
      fc.property(fc.array(fc.tuple(key, bytes), { maxLength: 30 }), (headers) => {
        const read = readDeadLetter(headers)
        assert.equal(Object.keys(read).length, names)
        for (const value of Object.values(read)) {
          if (typeof value === 'string') assert.ok(value !== '' && value.isWellFormed() && !/\p{C}/u.test(value), value)
          if (typeof value === 'number') assert.ok(Number.isSafeInteger(value) && value >= 0)
          if (value instanceof Date) assert.ok(value.getTime() >= 0)
        }
      }),
      { numRuns: 2000 },
    )
  })
})

const bytes = fc.option(
  fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((array) => Buffer.from(array)),
    fc.string({ unit: 'binary', maxLength: 60 }).map((text) => Buffer.from(text, 'utf16le')),
    fc
      .constantFrom('true', '7', '99999999999', '2026-05-14T13:47:30Z', '1778766450', 'studio.lerian.a.b.c')
      .map((text) => Buffer.from(text)),
  ),
  { nil: null },
)

const key = fc.option(
  fc.oneof(
    fc
      .constantFrom(
        ...['tenantid', 'id', 'source', 'type', 'resourcetype', 'eventtype'].map((name) => `ce-${name}`),
        ...['source-topic', 'source-partition', 'source-offset', 'error-class', 'error-message', 'cause-kind'].map(
          (name) => `x-lerian-dlq-${name}`,
        ),
        ...['retry-count', 'first-failure-at', 'producer-id', 'payload-omitted', 'payload-bytes'].map(
          (name) => `x-lerian-dlq-${name}`,
        ),
      )
      .map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 20 }).map((array) => Buffer.from(array)),
  ),
  { nil: null },
)
