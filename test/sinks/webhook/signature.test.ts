import { test } from 'node:test'
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { signatureHeaders } from '../../../src/sinks/webhook/signature.ts'
import { newSigningSecret } from '../../../src/secrets/secrets.ts'

const NOW = Date.parse('2026-05-14T13:00:00.999Z')
const SECONDS = '1778763600'
const id = '019e2686-ca80-7000-8000-000000000001'
const body = Buffer.from('{"amount":12.340,"π":"½"}')
const current = newSigningSecret()
const old = newSigningSecret()

test('the platform signature is the HMAC of the time in whole seconds, a dot and the body, in hex', () => {
  const headers = signatureHeaders({ id, now: NOW, body, keys: [{ key: current.key, expiresAt: null }] })
  const expected = createHmac('sha256', current.key).update(`${SECONDS}.${body.toString()}`).digest('hex')
  assert.equal(headers?.['x-lerian-signature'], `t=${SECONDS},v1=${expected}`)
})

test('the Standard Webhooks signature is what its public library makes of the secret that its owner was shown', () => {
  const headers = signatureHeaders({ id, now: NOW, body, keys: [{ key: current.key, expiresAt: null }] })
  assert.equal(headers?.['webhook-id'], id)
  assert.equal(headers?.['webhook-timestamp'], SECONDS)
  assert.equal(headers?.['webhook-signature'], new Webhook(current.text).sign(id, new Date(NOW), body))
})

test('the public library verifies a request that is sent now, by either secret of an overlap', () => {
  const keys = [
    { key: current.key, expiresAt: null },
    { key: old.key, expiresAt: Date.now() + 60_000 },
  ]
  const headers = signatureHeaders({ id, now: Date.now(), body, keys })
  assert.ok(headers)
  for (const secret of [current, old]) {
    assert.deepEqual(new Webhook(secret.text).verify(body, headers), JSON.parse(body.toString()))
  }
  assert.throws(() => new Webhook(newSigningSecret().text).verify(body, headers), /No matching signature/)
})

test('during an overlap both headers carry one signature per key, the newest first', () => {
  const alone = (key: Buffer) => signatureHeaders({ id, now: NOW, body, keys: [{ key, expiresAt: null }] })!
  const keys = [
    { key: current.key, expiresAt: null },
    { key: old.key, expiresAt: NOW + 1 },
  ]
  const both = signatureHeaders({ id, now: NOW, body, keys })
  const oldHex = alone(old.key)['x-lerian-signature']?.split(',')[1]
  assert.equal(both?.['x-lerian-signature'], `${alone(current.key)['x-lerian-signature']},${oldHex}`)
  assert.equal(
    both?.['webhook-signature'],
    `${alone(current.key)['webhook-signature']} ${alone(old.key)['webhook-signature']}`,
  )
})

test('a key signs until it expires, and not at that very millisecond', () => {
  const keys = [
    { key: current.key, expiresAt: null },
    { key: old.key, expiresAt: NOW },
  ]
  const overlap = signatureHeaders({ id, now: NOW - 1, body, keys })
  const after = signatureHeaders({ id, now: NOW, body, keys })
  assert.equal(overlap?.['webhook-signature']?.split(' ').length, 2)
  assert.equal(after?.['webhook-signature']?.split(' ').length, 1)
})

test('without a key that signs there are no headers', () => {
  assert.equal(signatureHeaders({ id, now: NOW, body, keys: [] }), null)
  assert.equal(signatureHeaders({ id, now: NOW, body, keys: [{ key: old.key, expiresAt: NOW }] }), null)
})
