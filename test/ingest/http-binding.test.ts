import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import test from 'node:test'
import * as fc from 'fast-check'
import { HubError } from '../../src/base/errors.ts'
import type { Event } from '../../src/event/event.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { parseHttpEvents } from '../../src/ingest/http-binding.ts'
import { verdict } from '../../src/ingest/verdict.ts'
import { plainAttributes } from '../support/records.ts'

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const STRUCTURED = 'application/cloudevents+json'
const BATCH = 'application/cloudevents-batch+json'

function parse(
  headers: Record<string, string>,
  body: string | Buffer,
  limits = { maxEvents: 10, maxDepth: 20 },
): IncomingRecord[] {
  return parseHttpEvents({ rawHeaders: Object.entries(headers).flat(), body: Buffer.from(body), ...limits })
}

function binary(headers: Record<string, string>, body: string | Buffer = '{"ok":true}'): IncomingRecord {
  const attributes = Object.entries(plainAttributes).map(([name, value]) => [`ce-${name}`, value])
  return only(parse({ 'content-type': 'application/json', ...Object.fromEntries(attributes), ...headers }, body))
}

/** A structured request whose envelope is the plain event with `more`, the text of further members, behind it. */
function structured(more: string, contentType = STRUCTURED): IncomingRecord {
  return only(parse({ 'content-type': contentType }, envelope(more)))
}

function envelope(more: string): string {
  return `${JSON.stringify(plainAttributes).slice(0, -1)}${more && `,${more}`}}`
}

function only(records: IncomingRecord[]): IncomingRecord {
  assert.equal(records.length, 1)
  return records[0]!
}

function accepted(record: IncomingRecord): Event {
  const decided = verdict(record)
  assert.equal(decided.kind, 'accept', 'detail' in decided ? decided.detail : '')
  return decided.event
}

function reasonOf(record: IncomingRecord): string {
  const decided = verdict(record)
  return decided.kind === 'quarantine' ? decided.reason : decided.kind
}

interface Refusal {
  code: string
  message: string
  faults: string[]
}

/** The error that a request is answered with, its faults as `path message`. */
function refusal(attempt: () => unknown): Refusal {
  const error = thrownBy(attempt)
  assert.ok(error instanceof HubError)
  const faults = error.faults.map(({ path, message }) => `${path} ${message}`)
  return { code: error.code, message: error.message, faults }
}

function thrownBy(attempt: () => unknown): unknown {
  try {
    attempt()
  } catch (error) {
    return error
  }
  return null
}

function refusedEnvelope(body: string | Buffer): Refusal {
  return refusal(() => parse({ 'content-type': STRUCTURED }, body))
}

function refusedBatch(body: string, maxEvents = 10): Refusal {
  return refusal(() => parse({ 'content-type': BATCH }, body, { maxEvents, maxDepth: 20 }))
}

test('binary: headers are the attributes in any letter case, the content type is datacontenttype, the body is the data', () => {
  const event = accepted(binary({ 'Ce-Subject': 'loan-42', 'content-type': 'Text/Plain; charset="utf-8"' }, 'body'))
  const expected = { ...plainAttributes, subject: 'loan-42', datacontenttype: 'Text/Plain; charset="utf-8"' }
  assert.deepEqual({ ...event.attributes }, expected)
  assert.equal(event.data?.toString(), 'body')
})

test('binary: an empty body is an event without data', () => {
  assert.equal(accepted(binary({}, '')).data, null)
})

test('binary: without a content type there is none to keep', () => {
  const headers = Object.fromEntries(Object.entries(plainAttributes).map(([name, value]) => [`ce-${name}`, value]))
  assert.equal(accepted(only(parse(headers, 'x'))).attributes['datacontenttype'], undefined)
})

test('binary: values are percent-decoded once, after a quoted string is opened', () => {
  const subjects = {
    'Euro%20%E2%82%AC%20%f0%9f%98%80': 'Euro € 😀',
    '100%25%20%zz%2': '100% %zz%2',
    '%2541': '%41',
    '"a \\"quoted\\" \\\\ one%21"': 'a "quoted" \\ one!',
    '"open': '"open',
    'a "b" c': 'a "b" c',
  }
  for (const [sent, expected] of Object.entries(subjects)) {
    assert.equal(accepted(binary({ 'ce-subject': sent })).attributes['subject'], expected)
  }
})

test('binary: what decodes to no UTF-8, or to control characters, is for the verdict to refuse', () => {
  assert.equal(reasonOf(binary({ 'ce-subject': '%C0%A0' })), 'not_utf8')
  assert.equal(reasonOf(binary({ 'ce-subject': 'a%00' })), 'control_character')
  assert.equal(reasonOf(binary({ 'ce-source': 'a%00' })), 'invalid_source')
})

test('binary: two contradicting headers for one attribute are a conflict', () => {
  assert.equal(reasonOf(binary({ 'ce-datacontenttype': 'text/plain' })), 'conflicting_attribute')
  assert.equal(reasonOf(binary({ 'ce-datacontenttype': 'application/json' })), 'accept')
  assert.equal(reasonOf(binary({ 'CE-Tenantid': 'globex' })), 'conflicting_attribute')
})

test('the trace context goes with every record, other headers with none', () => {
  const headers = { authorization: 'Bearer x', 'x-tenant-id': 'globex', TraceParent: TRACEPARENT, tracestate: 'a=1' }
  const inBinary = binary(headers)
  const inBatch = parse({ 'content-type': BATCH, ...headers }, `[${envelope('')},${envelope('')}]`)
  assert.equal(inBatch.length, 2)
  for (const record of [inBinary, ...inBatch]) {
    const { traceparent, tracestate } = accepted(record)
    assert.deepEqual([traceparent, tracestate], [TRACEPARENT, 'a=1'])
    const foreign = record.headers.filter(([key]) => !/^(ce-|trace)/.test(String(key)))
    assert.deepEqual(foreign, [])
  }
})

test("a record's topic is its source's, so that the two cannot disagree, and empty where the source is none", () => {
  assert.equal(binary({}).topic, 'lerian.streaming.lender')
  assert.equal(structured('').topic, 'lerian.streaming.lender')
  assert.equal(binary({ 'ce-source': 'Not%00One' }).topic, '')
  assert.equal(only(parse({ 'content-type': STRUCTURED }, '{}')).topic, '')
})

test('binary over a socket: the bytes of the wire are the bytes of the record', async () => {
  await using server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const sent = { ...plainAttributes, tenantid: 'banco do são' }
  const lines = Object.entries(sent).map(([name, value]) => `CE-${name}: ${value}`)
  socket.write(
    Buffer.from(
      ['POST / HTTP/1.1', 'host: x', ...lines, 'content-type: text/são', 'content-length: 0', '', ''].join('\r\n'),
    ),
  )
  const [request, response] = (await once(server, 'request')) as [{ rawHeaders: string[] }, { end: () => void }]
  const records = parseHttpEvents({ rawHeaders: request.rawHeaders, body: Buffer.alloc(0), maxEvents: 1, maxDepth: 1 })
  response.end()
  socket.destroy()
  assert.deepEqual({ ...accepted(only(records)).attributes }, { ...sent, datacontenttype: 'text/são' })
})

test('structured: the data is kept byte for byte', () => {
  const texts = [
    '{"n":12345678901234567890.10,"n":1,  "s":"\\u0000\\ud800é"}',
    '[1e400 , -0]',
    '"just a string"',
    'null',
    '{"__proto__":{"a":1}}',
  ]
  for (const text of texts) {
    const event = accepted(structured(`"data" : ${text} `))
    assert.equal(event.data?.toString(), text)
    assert.equal(
      accepted(structured(`"datacontenttype":"application/vnd.x+JSON; v=1","data":${text}`)).data?.toString(),
      text,
    )
  }
})

test('structured: without data there is none', () => {
  assert.equal(accepted(structured('')).data, null)
  assert.equal(accepted(structured('"data_base64":null')).data, null)
})

test('structured: where the content type is not JSON, the characters of the string are the data', () => {
  const xml = structured('"data":"<much wow=\\"xml\\"/>","datacontenttype":"application/xml"')
  assert.equal(accepted(xml).data?.toString(), '<much wow="xml"/>')
  const fault = refusal(() => structured('"data":{"a":1},"datacontenttype":"text/plain"'))
  assert.deepEqual(fault.faults, ['/data must be a string, because its datacontenttype is not JSON'])
})

test('structured: data_base64 is the bytes that it encodes', () => {
  assert.deepEqual(accepted(structured('"data_base64":"AP8BAgM="')).data, Buffer.from('00ff010203', 'hex'))
  assert.deepEqual(accepted(structured('"data_base64":""')).data, Buffer.alloc(0))
  for (const broken of ['"AP8BAgM"', '"AP8 BAgM="', '"_w=="', '"/x=="', '1', '{}', 'true']) {
    const { code, faults } = refusal(() => structured(`"data_base64":${broken}`))
    assert.equal(code, 'invalid_request')
    assert.deepEqual(faults, ['/data_base64 must be a string of base64 with its padding'], broken)
  }
})

test('structured: an event has its data once', () => {
  for (const twice of ['"data":1,"data_base64":"AA=="', '"data":1,"data":1', '"data_base64":"AA==","data":null']) {
    assert.match(refusal(() => structured(twice)).message, /an event has its data once/)
  }
})

test('structured: booleans and integers are attributes in their text form, null is an attribute without a value', () => {
  const { attributes } = accepted(structured('"a":true,"b":false,"c":-12345678901234567890,"d":null,"e":"é\\u0041"'))
  const { a, b, c, d, e } = attributes
  assert.deepEqual({ a, b, c, d, e }, { a: 'true', b: 'false', c: '-12345678901234567890', d: undefined, e: 'éA' })
  assert.equal(reasonOf(structured('"systemevent":true')), 'drop')
})

test('structured: what no header can carry is refused, all of it at once, each by its pointer', () => {
  const { code, faults } = refusal(() => structured('"a":1.5,"b":{},"c/d~":[],"e":"\\ud800","\\udc00":"f","g":1e3'))
  assert.equal(code, 'invalid_request')
  assert.deepEqual(faults, [
    '/a must be a string, a boolean, an integer or null',
    '/b must be a string, a boolean, an integer or null',
    '/c~1d~0 must be a string, a boolean, an integer or null',
    '/e has half a surrogate pair in it, which no text can carry',
    '/\\u{dc00} has half a surrogate pair in it, which no text can carry',
    '/g must be a string, a boolean, an integer or null',
  ])
})

test("structured: an event's own faults are verdicts, not errors", () => {
  assert.equal(reasonOf(only(parse({ 'content-type': STRUCTURED }, '{}'))), 'missing_attribute')
  assert.equal(reasonOf(structured('"tenantid":"globex"')), 'conflicting_attribute')
  assert.equal(reasonOf(structured('"subject":"a\\u0000"')), 'control_character')
  assert.equal(reasonOf(structured('"__proto__":"x","":"y"')), 'accept')
})

test('structured: a body that is no envelope says where and why', () => {
  assert.deepEqual(refusedEnvelope(''), {
    code: 'invalid_request',
    message: 'the body is empty',
    faults: [' is empty'],
  })
  assert.match(refusedEnvelope('{"a":').message, /^the body is not JSON: /)
  assert.equal(refusedEnvelope(Buffer.from('{"a":"\xff"}', 'latin1')).message, 'the body is not UTF-8')
  assert.equal(refusedEnvelope('[]').message, 'the body must be a CloudEvent, a JSON object')
  assert.equal(refusedEnvelope('['.repeat(21)).message, 'the body is nested deeper than 20 levels')
})

test('batch: each element is an event of its own', () => {
  const body = `[ ${envelope('"data":1')}\n,${envelope('"id":"x"')} , {} ]`
  const reasons = parse({ 'content-type': `${BATCH}; charset=UTF-8` }, body).map(reasonOf)
  assert.deepEqual(reasons, ['accept', 'conflicting_attribute', 'missing_attribute'])
  assert.deepEqual(parse({ 'content-type': BATCH }, ' [ ] '), [])
})

test('batch: one broken envelope refuses all of it, by the pointers of all faults', () => {
  assert.deepEqual(refusedBatch(`[${envelope('')},1,${envelope('"a":[]')}]`), {
    code: 'invalid_request',
    message: '/1 must be a CloudEvent, a JSON object',
    faults: ['/1 must be a CloudEvent, a JSON object', '/2/a must be a string, a boolean, an integer or null'],
  })
  assert.equal(refusedBatch('{}').message, 'the body must be a JSON array of CloudEvents')
})

test('batch: it has a most of events, and its error a most of faults', () => {
  const eleven = JSON.stringify(Array(11).fill(1))
  const message = 'A batch has at most 10 events; this one has 11'
  assert.deepEqual(refusedBatch(eleven, 10), { code: 'payload_too_large', message, faults: [] })
  assert.equal(refusedBatch(eleven, 11).faults.length, 11)
  assert.equal(refusedBatch(JSON.stringify(Array(30).fill(1)), 30).faults.length, 20)
})

test('what cannot be read as CloudEvents is an unsupported media type', () => {
  const unsupported: [Record<string, string>, RegExp][] = [
    [{ 'content-type': 'application/json' }, /^content-type is no CloudEvents format that is read here/],
    [{}, /^content-type is no CloudEvents format/],
    [{ 'content-type': 'application/cloudevents+avro', 'ce-id': 'x' }, /^content-type is no CloudEvents format/],
    [{ 'content-type': `${STRUCTURED}; charset=utf-16` }, /^content-type has the charset utf-16/],
    [{ 'content-type': STRUCTURED, 'content-encoding': 'gzip' }, /^content-encoding is gzip/],
    [{ 'ce-id': 'x', 'Content-Encoding': 'br' }, /^content-encoding is br/],
  ]
  for (const [headers, message] of unsupported) {
    const { code, message: found } = refusal(() => parse(headers, '{}'))
    assert.equal(code, 'unsupported_media_type')
    assert.match(found, message)
  }
  assert.equal(parse({ 'content-type': STRUCTURED, 'content-encoding': 'identity' }, '{}').length, 1)
})

test('one event is the same event in all three modes', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((value) => !/\p{Cc}/u.test(value))
  fc.assert(
    fc.property(text, fc.jsonValue(), (subject, data) => {
      const json = JSON.stringify(data)
      const members = `"subject":${JSON.stringify(subject)},"datacontenttype":"application/json","data":${json}`
      const inBinary = accepted(binary({ 'ce-subject': encodeURIComponent(subject) }, json))
      assert.deepEqual(accepted(structured(members)), inBinary)
      assert.deepEqual(accepted(only(parse({ 'content-type': BATCH }, `[${envelope(members)}]`))), inBinary)
    }),
    { numRuns: 500 },
  )
})

test('any request gives records with one verdict each, or a HubError', () => {
  const contentType = fc.constantFrom(
    STRUCTURED,
    BATCH,
    'application/json',
    '',
    'application/cloudevents',
    `${BATCH};charset=x`,
  )
  const name = fc.constantFrom('ce-id', 'CE-', 'ce-subject', 'traceparent', 'content-type', 'content-encoding', 'x')
  const value = fc.oneof(fc.string({ unit: fc.nat(255).map((code) => String.fromCharCode(code)) }), fc.constant('%ff"'))
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
    fc.json({ stringUnit: 'binary' }).map((text) => Buffer.from(text)),
    fc
      .array(fc.dictionary(fc.constantFrom('id', 'data', 'data_base64', 'source', ''), fc.jsonValue()))
      .map((array) => Buffer.from(JSON.stringify(array))),
  )
  fc.assert(
    fc.property(contentType, fc.array(fc.tuple(name, value)), body, (type, more, bytes) => {
      const rawHeaders = ['Content-Type', type, ...more.flat()]
      try {
        const records = parseHttpEvents({ rawHeaders, body: bytes, maxEvents: 3, maxDepth: 5 })
        for (const record of records) assert.ok(['accept', 'drop', 'quarantine'].includes(verdict(record).kind))
      } catch (error) {
        assert.ok(error instanceof HubError, String(error))
      }
    }),
    { numRuns: 1_000 },
  )
})
