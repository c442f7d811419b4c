import assert from 'node:assert/strict'
import { createPublicKey, type webcrypto } from 'node:crypto'
import { after, before, beforeEach, describe, mock, test } from 'node:test'
import { exportSPKI, generateKeyPair, importJWK, UnsecuredJWT, type JWTPayload } from 'jose'
import type { Log } from '../../../src/base/log.ts'
import { silentLog } from '../../../src/base/log.ts'
import { Troubles } from '../../../src/base/troubles.ts'
import { jwtAuthenticator } from '../../../src/control/auth/jwt.ts'
import { manualClock } from '../../support/clock.ts'
import { testControl, type Answer, type TestControl } from '../../support/control.ts'
import { AUDIENCE, keyServer, type KeyServer } from '../../support/key-server.ts'
import { keyOf } from '../../support/keys.ts'
import { assertProblem } from '../../support/problems.ts'

const LIST = '/v1/subscriptions'
const SCOPE = { scope: 'subscriptions:read openid' }

const clock = manualClock()
let keys: KeyServer
let control: TestControl
const settings = () => ({ jwksUrl: keys.url, issuer: keys.issuer, audience: AUDIENCE, tenantClaim: 'tenant_id' })
const jwt = (log: Log = silentLog) => jwtAuthenticator(settings(), { clock, troubles: new Troubles(log, clock) })
before(async () => {
  // The library counts the age of keys by Date.
  mock.timers.enable({ apis: ['Date'], now: clock.now() })
  keys = await keyServer(() => clock.now())
})
after(async () => {
  await keys[Symbol.asyncDispose]()
  mock.timers.reset()
})
beforeEach(async () => {
  keys.instead = null
  await control?.[Symbol.asyncDispose]()
  control = await testControl({ clock }, [jwt()])
})
after(async () => await control[Symbol.asyncDispose]())

function pass(ms: number): void {
  clock.advance(ms)
  mock.timers.setTime(clock.now())
}

const call = async (token: string, url = LIST): Promise<Answer> =>
  await control.call({ url, headers: { authorization: `Bearer ${token}` } })
const seen = async (claims: JWTPayload) => ((await signed(claims)).body as { items: unknown[] }).items.length
const signed = async (claims: JWTPayload): Promise<Answer> => await call(await keys.sign(claims))

describe('a token of the issuer', () => {
  test('lets in as its tenant, with its scopes: by scope, or by scp as text or array', async () => {
    for (const claims of [SCOPE, { scp: ['events:read', 'subscriptions:read'] }, { scp: 'subscriptions:read' }])
      assert.equal((await signed(claims)).status, 200)
    for (const claims of [{}, { scope: 'subscriptions:readx' }, { scope: ['events:read'] }, { scp: 7 }])
      assertProblem(await signed(claims), 403, 'forbidden')
    const own = (await keyOf(control, 'acme')).headers
    const sink = { kind: 'webhook', url: 'https://core.example.com/' }
    const body = { name: 'one', event_types: ['*'], sink }
    assert.equal((await control.call({ method: 'POST', url: LIST, headers: own, body })).status, 201)
    assert.deepEqual([await seen(SCOPE), await seen({ ...SCOPE, tenant_id: 'globex' })], [1, 0])
  })

  test('has to be in time, with half a minute for clocks that differ', async () => {
    const now = Math.floor(clock.now() / 1000)
    for (const claims of [{ exp: now - 29 }, { nbf: now + 29 }, { exp: now + 9e9 }])
      assert.equal((await signed({ ...SCOPE, ...claims })).status, 200, JSON.stringify(claims))
    for (const claims of [{ exp: now - 31 }, { nbf: now + 31 }, { exp: undefined }, { exp: 'soon' }])
      assertProblem(await signed({ ...SCOPE, ...claims } as JWTPayload), 401, 'unauthenticated')
  })

  test('has to be for this hub, by this issuer', async () => {
    const wrong: JWTPayload[] = [
      { aud: 'other' },
      { aud: undefined },
      { aud: ['other', 'another'] },
      { iss: 'https://evil.example' },
      { iss: undefined },
    ] as JWTPayload[]
    for (const claims of wrong) assertProblem(await signed({ ...SCOPE, ...claims }), 401, 'unauthenticated')
    assert.equal((await signed({ ...SCOPE, aud: ['other', AUDIENCE] })).status, 200)
  })

  test('has to name a tenant that can be one; without any it is an operator’s at most', async () => {
    for (const tenant_id of ['', ' ', 7, ['acme'], { acme: true }, 'a\nb', 'x'.repeat(257), '\ud800'])
      assertProblem(await signed({ ...SCOPE, tenant_id }), 401, 'unauthenticated')
    const nobody = await keys.sign({ scope: 'subscriptions:read admin', tenant_id: undefined })
    assertProblem(await call(nobody), 403, 'forbidden')
    assert.equal((await call(nobody, '/admin/tenants')).status, 200)
  })
})

describe('a token that is forged', () => {
  test('is refused whatever it says of its algorithm', async () => {
    const other = await generateKeyPair('ES256')
    const claims = { iss: keys.issuer, aud: AUDIENCE, sub: 'eve', tenant_id: 'acme', ...SCOPE }
    const spki = await exportSPKI((await importJWK(keys.publicJwk(), 'ES256')) as webcrypto.CryptoKey)
    const jwkBytes = Buffer.from(JSON.stringify(keys.publicJwk()))
    const raw = createPublicKey({ key: keys.publicJwk(), format: 'jwk' }).export({
      type: 'spki',
      format: 'der',
    })
    const good = await keys.sign(SCOPE)
    const [head, payload, signature] = good.split('.') as [string, string, string]
    const forged = [
      new UnsecuredJWT(claims).setExpirationTime('5m').encode(),
      `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`,
      `${Buffer.from('{"alg":"nOnE"}').toString('base64url')}.${payload}.${signature}`,
      await keys.sign(SCOPE, { alg: 'HS256', key: Buffer.from(spki) }),
      await keys.sign(SCOPE, { alg: 'HS256', key: raw }),
      await keys.sign(SCOPE, { alg: 'HS256', key: jwkBytes }),
      await keys.sign(SCOPE, { key: other.privateKey }),
      await keys.sign(SCOPE, { key: other.privateKey, header: { jwk: keys.publicJwk() } }),
      await keys.sign(SCOPE, { key: other.privateKey, header: { jku: keys.url, x5u: keys.url } }),
      `${head}.${Buffer.from(JSON.stringify({ ...claims, exp: 4e9, tenant_id: 'globex' })).toString('base64url')}.${signature}`,
      `${head}.${payload}.${'A'.repeat(signature.length)}`,
      `${head}.${payload}.`,
      `${head}.${payload}`,
      `${good}.${signature}`,
    ]
    for (const token of forged) assertProblem(await call(token), 401, 'unauthenticated')
    assert.equal((await call(good)).status, 200)
  })

  test('does not make the hub ask for keys, however many key ids it names', async () => {
    assert.equal((await signed(SCOPE)).status, 200)
    const asked = keys.asked
    for (let n = 0; n < 30; n++) {
      const token = await keys.sign(SCOPE, { header: { kid: `unknown ${n}` } })
      assertProblem(await call(token), 401, 'unauthenticated')
    }
    assert.equal(keys.asked, asked)
    pass(10_001)
    for (let n = 0; n < 30; n++) await call(await keys.sign(SCOPE, { header: { kid: `unknown ${n}` } }))
    assert.equal(keys.asked, asked + 1)
  })
})

describe('the issuer’s keys', () => {
  test('are looked for again when they were rotated', async () => {
    const old = await keys.sign({ ...SCOPE, exp: Math.floor(clock.now() / 1000) + 9_000 })
    assert.equal((await call(old)).status, 200)
    await keys.rotate()
    assert.equal((await call(old)).status, 200)
    pass(10_001)
    assert.equal((await signed(SCOPE)).status, 200)
    assertProblem(await call(old), 401, 'unauthenticated')
  })

  test('are all tried for a token that names none of them', async () => {
    const old = keys.publicJwk()
    const token = await keys.sign(SCOPE, { header: { kid: undefined } })
    await keys.rotate()
    const both = { keys: [old, keys.publicJwk()].map((jwk) => ({ ...jwk, kid: undefined })) }
    keys.instead = { status: 200, body: JSON.stringify(both) }
    pass(600_001)
    const later = { ...SCOPE, exp: Math.floor(clock.now() / 1000) + 300 }
    assertProblem(await call(token), 401, 'unauthenticated')
    assert.equal((await call(await keys.sign(later, { header: { kid: undefined } }))).status, 200)
    const other = await generateKeyPair('ES256')
    const forged = await keys.sign(later, { header: { kid: undefined }, key: other.privateKey })
    assertProblem(await call(forged), 401, 'unauthenticated')
  })

  test('let nobody in while they cannot be had or used, and are not asked for by each request', async () => {
    const token = await keys.sign({ ...SCOPE, exp: Math.floor(clock.now() / 1000) + 9_000 })
    const bad = [
      { status: 500, body: '' },
      { status: 404, body: '{}' },
      { status: 302, body: '' },
      { status: 200, body: 'not json' },
      { status: 200, body: '{}' },
      { status: 200, body: '{"keys": "none"}' },
      { status: 200, body: 'null' },
      {
        status: 200,
        body: '{"keys": [{"kty": "EC", "kid": "1", "crv": "P-256", "x": "AA", "y": "AA", "alg": "ES256"}]}',
      },
    ]
    for (const instead of bad) {
      control = await renewed()
      Object.assign(keys, { instead, asked: 0 })
      const kid = instead.body.includes('"EC"') ? { kid: '1' } : {}
      const asked = kid.kid === undefined ? token : await keys.sign(SCOPE, { header: kid })
      for (let n = 0; n < 20; n++) {
        const answer = await call(asked)
        assertProblem(answer, 503, 'unavailable')
        assert.ok(Number(answer.headers['retry-after']) > 0)
      }
      assert.equal(keys.asked, 1, JSON.stringify(instead))
      keys.instead = null
      pass(kid.kid === undefined ? 2_001 : 600_001)
      assert.equal((await call(token)).status, 200, JSON.stringify(instead))
    }
  })

  test('that were had once are asked for again after ten minutes, and nobody gets in by old ones', async () => {
    assert.equal((await signed(SCOPE)).status, 200)
    keys.instead = { status: 500, body: '' }
    assert.equal((await signed(SCOPE)).status, 200)
    pass(600_001)
    assertProblem(await signed(SCOPE), 503, 'unavailable')
  })
})

async function renewed(): Promise<TestControl> {
  await control[Symbol.asyncDispose]()
  return await testControl({ clock }, [jwt()])
}

test('a token of another issuer is nobody’s, and an API key works beside tokens', async () => {
  const { headers } = await keyOf(control, 'acme')
  assert.equal((await control.call({ url: LIST, headers })).status, 200)
  assertProblem(await control.call({ url: LIST, headers: { authorization: 'Bearer opaque' } }), 401, 'unauthenticated')
  assertProblem(await control.call({ url: LIST }), 401, 'unauthenticated')
})
