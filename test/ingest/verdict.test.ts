import assert from 'node:assert/strict'
import test from 'node:test'
import type { Event } from '../../src/event/event.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { verdict } from '../../src/ingest/verdict.ts'
import { header, plainAttributes, recordWith } from '../support/records.ts'

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

function accepted(record: IncomingRecord): Event {
  const decided = verdict(record)
  assert.equal(decided.kind, 'accept', 'detail' in decided ? decided.detail : '')
  return decided.event
}

/** `reason: detail` of a quarantined record. */
function fault(record: IncomingRecord): string {
  const decided = verdict(record)
  return decided.kind === 'quarantine' ? `${decided.reason}: ${decided.detail}` : decided.kind
}

function reasonOf(record: IncomingRecord): string | undefined {
  return fault(record).split(':')[0]
}

test('an accepted event carries everything that the record said, its body the very same bytes', () => {
  const record = recordWith({ subject: 'loan-42', priority: 'high' }, { headers: [header('traceparent', TRACEPARENT)] })
  const { attributes, ...event } = accepted(record)
  assert.deepEqual(event, {
    tenantId: 'acme',
    id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
    source: 'lender',
    key: 'loan_application.approved',
    resourceType: 'loan_application',
    schemaMajor: 1,
    traceparent: TRACEPARENT,
    tracestate: null,
    data: record.value,
  })
  assert.equal(event.data, record.value)
  assert.deepEqual({ ...attributes }, { ...plainAttributes, subject: 'loan-42', priority: 'high' })
})

test('the id is in lower case among the attributes too', () => {
  const event = accepted(recordWith({ id: plainAttributes.id.toUpperCase() }))
  assert.equal(event.id, plainAttributes.id)
  assert.equal(event.attributes['id'], plainAttributes.id)
})

test('a body of no bytes is data, a null body is none', () => {
  assert.equal(accepted(recordWith({}, { value: Buffer.alloc(0) })).data?.length, 0)
  assert.equal(accepted(recordWith({}, { value: null })).data, null)
})

test('no content type is invented', () => {
  assert.equal(accepted(recordWith()).attributes['datacontenttype'], undefined)
})

test('an absurd time in the id is accepted', () => {
  assert.equal(
    accepted(recordWith({ id: 'ffffffff-ffff-7fff-bfff-ffffffffffff' })).id,
    'ffffffff-ffff-7fff-bfff-ffffffffffff',
  )
})

test('extensions with names that are special in JavaScript are ordinary ones, and JSON keeps them', () => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '0']
  const { attributes } = accepted(recordWith({}, { headers: names.map((name) => header(`ce-${name}`, `of ${name}`)) }))
  const kept = new Map(Object.entries(JSON.parse(JSON.stringify(attributes))))
  for (const name of names) assert.equal(kept.get(name), `of ${name}`)
  assert.equal(accepted(recordWith()).attributes['constructor'], undefined)
})

test('one of them twice with different values is a conflict like any other', () => {
  const headers = [header('ce-__proto__', 'a'), header('ce-__proto__', 'b')]
  assert.equal(fault(recordWith({}, { headers })), 'conflicting_attribute: ce-__proto__ came twice, with "a" and "b"')
})

test('an extension with an empty value, or with none, is absent', () => {
  const { attributes } = accepted(recordWith({ priority: '', region: null, subject: '' }))
  assert.deepEqual({ ...attributes }, plainAttributes)
})

test('a value beside no value is a conflict: nobody could say which was meant', () => {
  for (const headers of [[header('ce-tenantid', null)], [header('ce-tenantid', '')]]) {
    const expected = 'conflicting_attribute: ce-tenantid came twice, with a value and no value'
    assert.equal(fault(recordWith({}, { headers })), expected)
  }
})

test('no value twice is no conflict, whether null or empty', () => {
  const { attributes } = accepted(recordWith({ priority: '' }, { headers: [header('ce-priority', null)] }))
  assert.equal(attributes['priority'], undefined)
})

test('what names no attribute is ignored: the bare prefix, a key that is not UTF-8, null, another case', () => {
  const notUtf8 = Buffer.concat([Buffer.from('ce-'), Buffer.from([0xff])])
  const headers: IncomingRecord['headers'] = [
    header('ce-', 'a'),
    header('ce-', 'b'),
    [notUtf8, Buffer.from([0xff])],
    [null, Buffer.from('a')],
    [Buffer.alloc(0), null],
    header('CE-ID', 'another'),
  ]
  assert.deepEqual({ ...accepted(recordWith({}, { headers })).attributes }, plainAttributes)
})

test('a valid trace context is kept, tracestate headers are one list', () => {
  const headers = [header('traceparent', TRACEPARENT), header('tracestate', 'congo=1'), header('tracestate', 'rojo=2')]
  const event = accepted(recordWith({}, { headers }))
  assert.equal(event.traceparent, TRACEPARENT)
  assert.equal(event.tracestate, 'congo=1,rojo=2')
})

test('a broken trace context is never a fault: it is left out', () => {
  const broken = [
    [header('traceparent', 'nonsense'), header('tracestate', 'congo=1')],
    [header('traceparent', Buffer.from([0xff]))],
    [header('traceparent', null)],
    [header('traceparent', TRACEPARENT), header('traceparent', TRACEPARENT.replace('-01', '-00'))],
    [header('tracestate', 'congo=1')],
  ]
  for (const headers of broken) {
    const { traceparent, tracestate } = accepted(recordWith({}, { headers }))
    assert.deepEqual([traceparent, tracestate], [null, null])
  }
  const halfBroken = [header('traceparent', TRACEPARENT), header('tracestate', 'x'.repeat(100_000))]
  const event = accepted(recordWith({}, { headers: halfBroken }))
  assert.deepEqual([event.traceparent, event.tracestate], [TRACEPARENT, null])
})

test('of several faults the earlier stage gives the reason', () => {
  const all = { id: 'x', subject: 'a\u0000', type: 'wrong', tenantid: undefined }
  const big = { value: Buffer.alloc(1_048_577) }
  const headers = [header('ce-x', Buffer.from([0xff]))]
  assert.equal(reasonOf(recordWith({ ...all, time: undefined }, { ...big, headers })), 'not_utf8')
  assert.equal(reasonOf(recordWith({ ...all, time: undefined }, big)), 'missing_attribute')
  assert.equal(reasonOf(recordWith(all, big)), 'invalid_id')
  assert.equal(reasonOf(recordWith({ ...all, id: plainAttributes.id }, big)), 'control_character')
  assert.equal(
    reasonOf(recordWith({ type: 'wrong', tenantid: undefined }, { ...big, topic: 'a' })),
    'source_topic_mismatch',
  )
  assert.equal(reasonOf(recordWith({ type: 'wrong', tenantid: undefined }, big)), 'type_mismatch')
  assert.equal(reasonOf(recordWith({ tenantid: undefined }, big)), 'payload_too_large')
  assert.equal(reasonOf(recordWith({ tenantid: undefined, systemevent: 'true' }, big)), 'payload_too_large')
  assert.equal(reasonOf(recordWith({ tenantid: undefined })), 'missing_tenant')
})

test("an attribute's own code wins over control_character", () => {
  assert.match(fault(recordWith({ id: '\u0000' })), /^invalid_id: /)
  assert.match(fault(recordWith({ time: '\u0000' })), /^invalid_time: /)
  assert.match(fault(recordWith({ type: '\u0000' })), /^type_mismatch: /)
  assert.match(fault(recordWith({ tenantid: '\u0085' })), /^invalid_tenant: /)
  assert.match(fault(recordWith({ systemevent: 'true\n' })), /^control_character: /)
})

test('a system event is dropped whatever its tenant says, as long as it can be read', () => {
  assert.equal(fault(recordWith({ systemevent: 'true', tenantid: ' ' })), 'drop')
  assert.equal(fault(recordWith({ systemevent: 'true', tenantid: undefined })), 'drop')
  assert.match(
    fault(recordWith({ systemevent: 'true', tenantid: undefined, subject: '\u0007' })),
    /^control_character: /,
  )
})

test('texts may be as long as their limit in bytes, and no longer', () => {
  for (const [name, limit] of Object.entries({
    subject: 1024,
    datacontenttype: 256,
    dataschema: 2048,
    tenantid: 256,
  })) {
    const longest = 'é'.repeat(limit / 2)
    assert.equal(accepted(recordWith({ [name]: longest })).attributes[name], longest)
    assert.match(
      fault(recordWith({ [name]: `${longest}x` })),
      /^(attribute_too_long|invalid_tenant): .* bytes, expected at most/,
    )
  }
})

test('details say what was found and what was expected', () => {
  const details: [IncomingRecord, string][] = [
    [recordWith({ id: undefined }), 'missing_attribute: ce-id is missing'],
    [recordWith({ id: null }), 'missing_attribute: ce-id is missing: its header has no value'],
    [recordWith({ id: '' }), 'missing_attribute: ce-id is missing: its header has an empty value'],
    [recordWith({ id: undefined, time: undefined }), 'missing_attribute: ce-id, ce-time are missing'],
    [
      recordWith({ id: undefined }, { headers: [header('ce_id', 'x')] }),
      'missing_attribute: ce-id is missing: `ce_id` found where `ce-id` is read',
    ],
    [
      recordWith({ tenantid: undefined }, { headers: [header('cloudEvents:tenantId', 'acme')] }),
      'missing_tenant: ce-tenantid is missing, and this is no system event: `cloudEvents:tenantId` found where `ce-tenantid` is read',
    ],
    [
      recordWith({ id: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff' }),
      'invalid_id: ce-id is a UUID of version 4, expected a UUID of version 7',
    ],
    [recordWith({ id: 'loan-42' }), 'invalid_id: ce-id is "loan-42", expected a UUID of version 7'],
    [recordWith({ specversion: '0.3' }), 'unsupported_specversion: ce-specversion is "0.3", expected "1.0"'],
    [
      recordWith({ type: 'studio.lerian.lender.loan.approved' }),
      'type_mismatch: ce-type is "studio.lerian.lender.loan.approved", expected "studio.lerian.lender.loan_application.approved"',
    ],
    [
      recordWith({}, { topic: 'lerian.streaming.matcher' }),
      'source_topic_mismatch: ce-source is "lender", but the topic is "lerian.streaming.matcher"',
    ],
    [recordWith({ subject: 's'.repeat(1025) }), 'attribute_too_long: ce-subject has 1025 bytes, expected at most 1024'],
    [recordWith({ subject: 'a\nb' }), 'control_character: ce-subject is "a\\u{a}b", expected no control character'],
    [
      recordWith({}, { headers: [header('ce-x', Buffer.from('63afff', 'hex'))] }),
      'not_utf8: ce-x is not UTF-8: 63 af ff',
    ],
    [recordWith({ tenantid: '  ' }), 'invalid_tenant: ce-tenantid is "  ", expected more than white space'],
    [
      recordWith({}, { value: Buffer.alloc(1_048_577) }),
      'payload_too_large: the body has 1048577 bytes, expected at most 1048576',
    ],
  ]
  for (const [record, expected] of details) assert.equal(fault(record), expected)
})

test('a long value is cut in its detail, never in the middle of a character', () => {
  const detail = fault(recordWith({ id: '🏦'.repeat(100_000) }))
  assert.equal(detail, `invalid_id: ce-id is "${'🏦'.repeat(49)}…", expected a UUID of version 7`)
})
