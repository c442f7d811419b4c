import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import { headerFaults, messageHeaders, type WebhookMessage } from '../../../src/sinks/webhook/headers.ts'
import { aDestination } from './destination.ts'

const message: WebhookMessage = {
  eventId: '019e2686-ca80-7000-8000-000000000001',
  eventType: 'loan.approved',
  attemptId: '019e2686-ca80-7abc-8def-0123456789ab',
  attempt: 3,
  now: Date.parse('2026-05-14T13:00:00.123Z'),
  headers: { 'content-type': 'application/json', 'ce-id': 'x' },
  body: Buffer.from('{}'),
}

describe('the headers of a request', () => {
  test('are those of the contract', () => {
    const headers = messageHeaders(aDestination('https://example.com/'), message, 'streaming-hub/0.1.0')
    const { 'x-lerian-signature': _, 'webhook-signature': __, ...rest } = headers!
    assert.deepEqual(rest, {
      'content-type': 'application/json',
      'ce-id': 'x',
      'user-agent': 'streaming-hub/0.1.0',
      'x-lerian-event-id': '019e2686-ca80-7000-8000-000000000001',
      'x-lerian-delivery-id': '019e2686-ca80-7abc-8def-0123456789ab',
      'x-lerian-event-type': 'loan.approved',
      'x-lerian-attempt': '3',
      'x-lerian-timestamp': '2026-05-14T13:00:00.123Z',
      'webhook-id': '019e2686-ca80-7000-8000-000000000001',
      'webhook-timestamp': '1778763600',
    })
  })

  test("have the subscription's own among them, which never replace the hub's", () => {
    const own = { 'X-Env': 'prod', 'Content-Type': 'text/html', 'X-Lerian-Attempt': '99', 'Webhook-Id': 'forged' }
    const headers = messageHeaders(aDestination('https://example.com/', { headers: own }), message, 'hub')
    assert.equal(headers?.['x-env'], 'prod')
    assert.equal(headers?.['content-type'], 'application/json')
    assert.equal(headers?.['x-lerian-attempt'], '3')
    assert.equal(headers?.['webhook-id'], message.eventId)
    assert.ok(!('Content-Type' in headers))
  })

  test('are none where no key signs: nothing leaves unsigned', () => {
    assert.equal(messageHeaders({ ...aDestination('https://example.com/'), signingKeys: [] }, message, 'hub'), null)
  })
})

describe("a subscription's own headers", () => {
  test('may be anything that is neither the hub’s nor the connection’s', () => {
    const headers = { 'X-Env': 'prod', authorization: 'Bearer abc.def', cookie: 'a=b', 'x-empty': '', 'x-tab': 'a\tb' }
    assert.deepEqual(headerFaults(headers), [])
    assert.deepEqual(headerFaults({}), [])
  })

  for (const name of [
    'Content-Type',
    'content-length',
    'Transfer-Encoding',
    'connection',
    'Keep-Alive',
    'host',
    'TE',
    'trailer',
    'upgrade',
    'expect',
    'proxy-authorization',
    'user-agent',
    'traceparent',
    'tracestate',
    'content-encoding',
    'X-Lerian-Signature',
    'x-lerian-anything',
    'webhook-id',
    'webhook-signature',
    'ce-id',
    'CE-Type',
  ]) {
    test(`may not be ${name}`, () => {
      assert.deepEqual(headerFaults({ [name]: 'x' }).length, 1)
      assert.ok(headerFaults({ [name]: 'x' })[0]?.startsWith(name))
    })
  }

  test('have a proper name', () => {
    for (const name of ['', 'a b', 'a:b', 'ä', 'a\r\nb', 'a\0', 'x'.repeat(257)]) {
      assert.match(headerFaults({ [name]: 'x' })[0] ?? '', /is not a header's name/, JSON.stringify(name))
    }
  })

  test('have a value that a header can carry, and never repeat it in the fault', () => {
    for (const value of ['se\r\ncret: 1', 'se\0cret', 'secret ü', 'secret\u007f', 's'.repeat(4097)]) {
      const [fault] = headerFaults({ 'x-a': value })
      assert.match(fault ?? '', /^x-a must/, JSON.stringify(value))
      assert.doesNotMatch(fault ?? '', /cret|sss/)
    }
  })

  test('are at most 32, each once', () => {
    assert.deepEqual(headerFaults(many(32)), [])
    assert.equal(headerFaults(many(33)).length, 1)
    assert.equal(headerFaults({ 'x-a': '1', 'X-A': '2' }).length, 1)
  })
})

function many(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, '']))
}
