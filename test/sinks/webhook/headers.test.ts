import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { messageHeaders, type Sender, type WebhookMessage } from '../../../src/sinks/webhook/headers.ts'

const sender: Sender = {
  signingKeys: [{ key: randomBytes(32), expiresAt: null }],
  userAgent: 'streaming-hub/0.1.0',
  headers: {},
}

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
    const headers = messageHeaders(sender, message)
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
    const own = { 'x-env': 'prod', 'content-type': 'text/html', 'x-lerian-attempt': '99', 'webhook-id': 'forged' }
    const headers = messageHeaders({ ...sender, headers: own }, message)
    assert.equal(headers?.['x-env'], 'prod')
    assert.equal(headers?.['content-type'], 'application/json')
    assert.equal(headers?.['x-lerian-attempt'], '3')
    assert.equal(headers?.['webhook-id'], message.eventId)
  })

  test('are none where no key signs: nothing leaves unsigned', () => {
    assert.equal(messageHeaders({ ...sender, signingKeys: [] }, message), null)
  })
})
