// Tokens for the brokers, from a real endpoint on loopback: one for all, a new one in time, and errors that tell no secret.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sentence } from '../../src/stream/kafka-error.ts'
import { TokenError, tokenSource } from '../../src/stream/token-source.ts'
import { manualClock } from '../support/clock.ts'
import { tokenIssuer, type TokenIssuer } from '../support/token-issuer.ts'

function source({ tokenUrl, secret: clientSecret }: TokenIssuer) {
  const clock = manualClock()
  return { clock, ...tokenSource({ tokenUrl, clientId: 'hub', clientSecret, scope: 'kafka read' }, { clock }) }
}

test('one token serves all who ask, at the same time and later', async () => {
  await using issuer = await tokenIssuer()
  const { token, clock } = source(issuer)
  const tokens = await Promise.all([token(), token(), token()])
  clock.advance(2_000_000)
  assert.equal(new Set([...tokens, await token()]).size, 1)
  assert.equal(issuer.issued, 1)
  const [, claims = ''] = tokens[0].split('.')
  assert.equal((JSON.parse(Buffer.from(claims, 'base64url').toString()) as { scope: string }).scope, 'kafka read')
})

test('a new one comes before the old one runs out, and at once when a broker has refused it', async () => {
  await using issuer = await tokenIssuer()
  const { token, forget, clock } = source(issuer)
  await token()
  clock.advance(3_600_000 * 0.75)
  await token()
  assert.equal(issuer.issued, 2)
  forget()
  await token()
  assert.equal(issuer.issued, 3)
})

test('one that cannot be renewed is used until it runs out', async () => {
  await using issuer = await tokenIssuer()
  const { token, clock } = source(issuer)
  const first = await token()
  issuer.instead = { status: 503, body: 'away' }
  clock.advance(3_600_000 * 0.9)
  assert.equal(await token(), first)
  clock.advance(3_600_000 * 0.1)
  await assert.rejects(token(), TokenError)
  issuer.instead = null
  assert.equal(typeof (await token()), 'string')
})

const answers: [string, { status: number; body: string }, RegExp][] = [
  [
    'a refusal',
    { status: 401, body: '{"error":"invalid_client","error_description":"x"}' },
    /answers 401 \(invalid_client\)$/,
  ],
  ['a page', { status: 502, body: '<html>private</html>' }, /answers 502$/],
  ['nothing of use', { status: 200, body: '[]' }, /its answer holds no access_token$/],
  ['a token with control characters', { status: 200, body: '{"access_token":"a\\u0001b"}' }, /holds no access_token$/],
  ['another place', { status: 302, body: '' }, /answers 302$/],
  ['too much', { status: 200, body: 'x'.repeat(1 << 20) }, /: Response content exceeded max size/],
]
for (const [what, instead, reason] of answers) {
  test(`${what} in place of a token is an error that says from where, and no secret`, async () => {
    await using issuer = await tokenIssuer()
    issuer.instead = instead
    const { token } = source(issuer)
    await assert.rejects(token(), (error) => {
      assert.ok(error instanceof TokenError)
      const said = sentence(error)
      assert.match(said, /^no token can be had from 127\.0\.0\.1:\d+: /)
      assert.match(said, reason)
      assert.ok(!said.includes(issuer.secret) && !said.includes('private'), said)
      return true
    })
  })
}
