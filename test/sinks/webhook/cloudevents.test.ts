import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import { encodeEvent } from '../../../src/sinks/webhook/cloudevents.ts'
import { anEvent } from '../../support/fixtures.ts'
import { awkwardBodies } from './awkward-bodies.ts'
import type { Event } from '../../../src/event/event.ts'

const attributes = {
  specversion: '1.0',
  id: '019e2686-ca80-7000-8000-000000000001',
  source: 'lender',
  type: 'studio.lerian.lender.loan.approved',
  time: '2026-05-14T13:00:00.123456789Z',
  datacontenttype: 'application/json',
}

function event(given: Partial<Event> = {}, more: Record<string, string> = {}): Event {
  return anEvent({ ...given, attributes: { ...attributes, ...more } })
}

describe('binary mode', () => {
  test('carries every attribute in a header, and the data content type as the content type', () => {
    assert.deepEqual(encodeEvent(event(), 'binary').headers, {
      'content-type': 'application/json',
      'ce-specversion': '1.0',
      'ce-id': attributes.id,
      'ce-source': 'lender',
      'ce-type': 'studio.lerian.lender.loan.approved',
      'ce-time': '2026-05-14T13:00:00.123456789Z',
    })
  })

  test('percent-encodes as the HTTP binding says', () => {
    const { headers } = encodeEvent(event({}, { subject: 'Euro € 😀 "50%"\r\nx-evil: 1', plain: '!#$&~/:' }), 'binary')
    assert.equal(headers['ce-subject'], 'Euro%20%E2%82%AC%20%F0%9F%98%80%20%2250%25%22%0D%0Ax-evil:%201')
    assert.equal(headers['ce-plain'], '!#$&~/:')
  })

  test('encodes any value to printable ASCII, and no value is lost by it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const encoded = encodeEvent(event({}, { ext: value }), 'binary').headers['ce-ext']!
        return /^[\x21-\x7e]*$/.test(encoded) && decodeURIComponent(encoded) === value
      }),
    )
  })

  test('leaves out what is no CloudEvents name', () => {
    const more = { myext: 'a', 'My-Ext': 'b', my_ext: 'c', ['é']: 'd', data: 'e' }
    const { headers } = encodeEvent(event({}, more), 'binary')
    const names = Object.keys(headers).filter((name) => !(name.slice(3) in attributes))
    assert.deepEqual(names, ['content-type', 'ce-myext'])
  })

  test('says application/json where the event says nothing, and never what no header can carry', () => {
    const { datacontenttype: _, ...silent } = attributes
    assert.equal(encodeEvent(anEvent({ attributes: silent }), 'binary').headers['content-type'], 'application/json')
    const odd = encodeEvent(event({}, { datacontenttype: 'text/plain; charset="ü"\n' }), 'binary')
    assert.equal(odd.headers['content-type'], 'text/plain; charset="%C3%BC"%0A')
  })

  for (const [what, data] of Object.entries(awkwardBodies)) {
    test(`sends ${what} as it is`, () => assert.equal(encodeEvent(event({ data }), 'binary').body, data))
  }
})

describe('structured mode', () => {
  test('is one JSON envelope with every attribute, and no attribute headers', () => {
    const { headers, body } = encodeEvent(event({ data: Buffer.from('{"a":1}') }, { my_ext: 'x' }), 'structured')
    assert.deepEqual(headers, { 'content-type': 'application/cloudevents+json' })
    assert.deepEqual(JSON.parse(body.toString()), { ...attributes, data: { a: 1 } })
  })

  test('carries JSON data byte for byte', () => {
    for (const text of [
      '{"big":12345678901234567890123456789,"a":1,"a":2}',
      '{"nul":"\\u0000","lone":"\\ud800","é":"\\u00e9"}',
      ' [ 1.0 , 1e400, -0 ]\n',
      '"text"',
      'null',
    ]) {
      const { body } = encodeEvent(event({ data: Buffer.from(text) }), 'structured')
      assert.ok(body.includes(`,"data":${text}}`), text)
      assert.doesNotThrow(() => JSON.parse(body.toString()) as unknown)
    }
  })

  test('knows JSON by the content type', () => {
    for (const [datacontenttype, isJson] of [
      ['application/json', true],
      ['Application/JSON; charset=utf-8', true],
      ['application/vnd.bank.v1+json', true],
      ['text/json', true],
      ['text/plain', false],
      ['application/jsonp', false],
      ['application/xml+notjson', false],
      ['json', false],
    ] as const) {
      const { body } = encodeEvent(event({ data: Buffer.from('1') }, { datacontenttype }), 'structured')
      assert.equal(body.includes('"data":1'), isJson, datacontenttype)
    }
  })

  for (const [what, data] of Object.entries(awkwardBodies)) {
    test(`loses no byte of ${what}`, () => {
      const { body } = encodeEvent(event({ data }), 'structured')
      const envelope = JSON.parse(body.toString()) as { data?: unknown; data_base64?: string }
      if (envelope.data_base64 === undefined) assert.ok(body.includes(Buffer.concat([Buffer.from('"data":'), data])))
      else assert.deepEqual(Buffer.from(envelope.data_base64, 'base64'), data)
    })
  }

  test('sends data as base64 that only claims to be JSON', () => {
    for (const data of [Buffer.alloc(0), Buffer.from('{'), Buffer.from([0x22, 0xff, 0x22]), Buffer.from('\ufeff{}')]) {
      const { body } = encodeEvent(event({ data }), 'structured')
      assert.equal((JSON.parse(body.toString()) as Record<string, string>)['data_base64'], data.toString('base64'))
    }
  })

  test('never lets an extension stand for the data', () => {
    const { body } = encodeEvent(event({ data: null }, { data: 'forged', data_base64: 'forged' }), 'structured')
    assert.doesNotMatch(body.toString(), /forged/)
  })
})

test('an event without data goes out structured, in either mode, without a data member', () => {
  for (const mode of ['binary', 'structured'] as const) {
    const { headers, body } = encodeEvent(event({ data: null }), mode)
    assert.equal(headers['content-type'], 'application/cloudevents+json')
    assert.deepEqual(JSON.parse(body.toString()), attributes)
  }
})
