import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import type { WebhookAuth } from '../../../src/event/subscription.ts'
import { newSigningSecret } from '../../../src/secrets/secrets.ts'
import type { Destination } from '../../../src/sinks/sink.ts'
import { createRedaction, withoutSecret } from '../../../src/sinks/webhook/redaction.ts'
import { failed } from '../../support/scripted-sink.ts'

const signing = newSigningSecret()
const old = newSigningSecret()
const redact = createRedaction()

function destinationWith(auth: WebhookAuth | null, headers: Destination['sink']['headers'] = {}): Destination {
  return {
    subscriptionId: '0197',
    tenantId: 'acme',
    sink: { kind: 'webhook', url: 'https://example.com/', headers, ...(auth && { auth }) },
    contentMode: 'binary',
    timeoutMs: 1_000,
    signingKeys: [
      { key: signing.key, expiresAt: null },
      { key: old.key, expiresAt: 1 },
    ],
  }
}

function kept(response: string | Buffer, destination: Destination): string {
  return redact(failed({ response: Buffer.from(response) }), destination).response.toString()
}

const ways: Record<string, (secret: string) => string> = {
  'as it is': (secret) => secret,
  'in JSON': (secret) => JSON.stringify({ secret }),
  'percent-encoded': encodeURIComponent,
  'in a form': (secret) => new URLSearchParams({ secret }).toString(),
  'in hex': (secret) => Buffer.from(secret).toString('hex'),
  'in capital hex': (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
  ...Object.fromEntries(
    ['', 'x', 'xy', 'Bearer '].flatMap((before) =>
      (['base64', 'base64url'] as const).map((encoding) => [
        `in ${encoding} behind ${JSON.stringify(before)}`,
        (secret: string) => Buffer.from(`${before}${secret}, and more`).toString(encoding),
      ]),
    ),
  ),
}

const token = 'PLANTED "token"/with+every=thing ½'
for (const [how, write] of Object.entries(ways))
  test(`a credential ${how} is blanked out of what is kept`, () => {
    for (const destination of [
      destinationWith({ kind: 'bearer', token }),
      destinationWith({ kind: 'basic', username: 'hub', password: token }),
      destinationWith({ kind: 'api_key', header: 'x-key', value: token }),
      destinationWith(null, { 'x-token': { value: token, secret: true } }),
    ]) {
      const text = kept(`<p>${write(token)}</p>`, destination)
      assert.match(text, /\*\*\*/)
      assert.match(text, /^<p>[^]*<\/p>$/)
      assert.ok(!text.includes(write(token)), text)
    }
  })

test('signing secrets are blanked out too, the old one as well; so is the header that a password makes', () => {
  const destination = destinationWith({ kind: 'basic', username: 'hub', password: 'PLANTED-pass' })
  const page = [signing.text, old.text, signing.key.toString('hex'), Buffer.from('hub:PLANTED-pass').toString('base64')]
  const text = kept(page.join('\n'), destination)
  // A digit that the padding shares with what follows may be left.
  assert.match(text, /^whsec_\*\*\*.?=\nwhsec_\*\*\*.?=\n\*\*\*\n\*\*\*.?=*$/)
  assert.doesNotMatch(
    withoutSecret(Buffer.from('Authorization: Bearer PLANTED-oauth'), 'PLANTED-oauth').toString(),
    /PLANTED/,
  )
})

test('what is cut in the middle of a secret keeps nothing of its beginning', () => {
  const destination = destinationWith({ kind: 'bearer', token: 'PLANTED-token-of-some-length' })
  for (let length = 6; length < 28; length++) {
    const text = kept(`${'x'.repeat(100)}${'PLANTED-token-of-some-length'.slice(0, length)}`, destination)
    assert.equal(text, `${'x'.repeat(100)}***`)
  }
})

test('what holds no secret is kept byte for byte', () => {
  const destination = destinationWith({ kind: 'bearer', token })
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 4096 }), (bytes) => {
      const response = Buffer.from(bytes)
      assert.deepEqual(redact({ kind: 'delivered', status: 200, response }, destination).response, response)
    }),
  )
})
