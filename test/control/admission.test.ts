// Who gets to a route: the same rules for every route, by key, tenant and address, with the standard fields and a problem.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { HubError } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import type { Authenticator } from '../../src/control/auth/authenticate.ts'
import { SCOPES, type Principal } from '../../src/control/auth/principal.ts'
import { createCounter } from '../../src/control/limits/counter.ts'
import { FailedLogins } from '../../src/control/limits/failed-logins.ts'
import { createRateLimits, type RateLimitSettings } from '../../src/control/limits/rate-limits.ts'
import type { ControlDeps } from '../../src/control/server.ts'
import { Troubles } from '../../src/base/troubles.ts'
import { manualClock } from '../support/clock.ts'
import { testControl, type Call } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'

const ID = '01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'
const settings: RateLimitSettings = {
  tiers: {
    relaxed: { max: 4, windowMs: 60_000 },
    default: { max: 3, windowMs: 60_000 },
    aggressive: { max: 2, windowMs: 60_000 },
  },
  tenantFactor: 2,
  pull: { max: 4, windowMs: 2_000 },
  failedAuth: { max: 3, windowMs: 60_000 },
  failOpen: false,
}

/** `Bearer <tenant>.<key>`, with every scope, or with those that are named behind one more dot. */
const keys: Authenticator = {
  name: 'keys',
  authenticate: async ({ headers: { authorization } }): Promise<Principal | null> => {
    if (authorization === undefined) return null
    const [tenantId, name, scope] = authorization.replace('Bearer ', '').split('.')
    if (tenantId === undefined || name === undefined || tenantId === 'wrong')
      throw new HubError('unauthenticated', 'The key is not known.')
    const scopes = new Set(SCOPES.filter((each) => scope === undefined || each === scope))
    return { kind: 'api_key', id: name, tenantId, isConfined: false, name, scopes }
  },
}

const bearer = (key: string, more: Record<string, string> = {}) => ({ authorization: `Bearer ${key}`, ...more })

function deps(): Partial<ControlDeps> {
  const clock = manualClock()
  const counted = { redis: null, troubles: new Troubles(silentLog, clock) }
  return {
    authenticators: [keys],
    rateLimits: createRateLimits(settings, counted),
    failedLogins: new FailedLogins(
      createCounter({ name: 'failed-auth', ...settings.failedAuth }, counted, true),
      clock,
    ),
  }
}

beforeEach(() => mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-05-14T13:00:00Z') }))
afterEach(() => mock.timers.reset())

describe('a caller who comes too often', () => {
  test('is told so, with the standard fields, and served again in the next window', async () => {
    const registry = createRegistry({ processMetrics: false })
    await using control = await testControl({ ...deps(), registry })
    const list: Call = { url: '/v1/subscriptions', headers: bearer('a.one') }
    const first = await control.call(list)
    assert.equal(first.status, 200)
    assert.equal(first.headers['ratelimit-policy'], '"relaxed-key";q=4;w=60, "relaxed-tenant";q=8;w=60')
    assert.equal(first.headers['ratelimit'], '"relaxed-key";r=3;t=60, "relaxed-tenant";r=7;t=60')
    assert.equal(first.headers['retry-after'], undefined)
    for (let i = 0; i < 3; i++) assert.equal((await control.call(list)).status, 200)
    mock.timers.tick(20_500)
    const refused = await control.call(list)
    const { detail } = assertProblem(refused, 429, 'rate_limited')
    assert.equal(detail, 'The limit relaxed-key is 4 requests in 60 s.')
    assert.equal(refused.headers['retry-after'], '40')
    assert.equal(refused.headers['ratelimit'], '"relaxed-key";r=0;t=40')
    assert.match(await registry.metrics(), /hub_http_refused_total\{tier="relaxed"\} 1\n/)
    mock.timers.tick(39_500)
    assert.equal((await control.call(list)).status, 200)
  })

  test('meets the limit of what the route does: reads, changes, or sets much in motion', async () => {
    await using control = await testControl(deps())
    const admitted = async (call: Call): Promise<number> => {
      for (let count = 0; ; count++) if ((await control.call(call)).status === 429) return count
    }
    const headers = bearer('a.one')
    assert.equal(await admitted({ url: `/v1/deliveries/${ID}`, headers }), 4)
    assert.equal(await admitted({ method: 'DELETE', url: `/v1/subscriptions/${ID}`, headers }), 3)
    assert.equal(await admitted({ method: 'POST', url: `/v1/subscriptions/${ID}/verify`, headers }), 2)
    for (const action of ['rotate-secret', 'replay'])
      assert.equal(await admitted({ method: 'POST', url: `/v1/subscriptions/${ID}/${action}`, body: {}, headers }), 0)
    assert.equal(await admitted({ method: 'POST', url: `/v1/deliveries/${ID}/retry`, headers }), 0)
  })

  test('is counted also where the key lacks the scope', async () => {
    await using control = await testControl(deps())
    const list: Call = { url: '/v1/subscriptions', headers: bearer('a.narrow.events:read') }
    for (let i = 0; i < 4; i++) assertProblem(await control.call(list), 403, 'forbidden')
    assertProblem(await control.call(list), 429, 'rate_limited')
  })

  test('exhausts neither another tenant, nor the operators, nor the health of the hub', async () => {
    await using control = await testControl(deps())
    for (const key of ['a.one', 'a.two', 'a.three'])
      for (let i = 0; i < 5; i++) await control.call({ url: '/v1/subscriptions', headers: bearer(key) })
    assertProblem(await control.call({ url: '/v1/subscriptions', headers: bearer('a.new') }), 429, 'rate_limited')
    assert.equal((await control.call({ url: '/v1/subscriptions', headers: bearer('b.one') })).status, 200)
    assert.equal((await control.call({ url: '/admin/tenants', headers: bearer('a.one') })).status, 200)
    for (let i = 0; i < 20; i++) assert.equal((await control.call({ url: '/healthz' })).status, 200)
  })

  test('is not counted for taking events in', async () => {
    await using control = await testControl(deps())
    const ingest: Call = { method: 'POST', url: '/v1/ingest', headers: bearer('a.one'), raw: 'x' }
    for (let i = 0; i < 10; i++) assert.equal((await control.call(ingest)).status, 415)
  })
})

describe('whoever brings wrong credentials', () => {
  test('is not asked for more of them after some, and the hub does not look at them', async () => {
    let looked = 0
    const counting: Authenticator = {
      name: 'counting',
      authenticate: async (request, scope) => {
        looked++
        return await keys.authenticate(request, scope)
      },
    }
    const registry = createRegistry({ processMetrics: false })
    await using control = await testControl({ ...deps(), authenticators: [counting], registry })
    const guess = (i: number): Call => ({ url: '/v1/subscriptions', headers: bearer(`wrong.${i}`) })
    assert.equal((await control.call({ url: '/v1/subscriptions', headers: bearer('a.one') })).status, 200)
    for (let i = 0; i < 3; i++) assertProblem(await control.call(guess(i)), 401, 'unauthenticated')
    looked = 0
    const refused = await control.call(guess(3))
    assertProblem(refused, 429, 'rate_limited')
    assert.equal(refused.headers['retry-after'], '60')
    assert.equal(looked, 0)
    assert.match(await registry.metrics(), /hub_http_refused_total\{tier="failed_auth"\} 1\n/)
    // Others at the same address, who were let in before, go on.
    assert.equal((await control.call({ url: '/v1/subscriptions', headers: bearer('a.one') })).status, 200)
    assertProblem(await control.call({ url: '/v1/subscriptions' }), 401, 'unauthenticated')
  })

  test('has the address that a trusted proxy names, and nobody else does', async () => {
    assert.deepEqual(await statuses([]), [401, 401, 401, 429, 429])
    assert.deepEqual(await statuses(['127.0.0.0/8']), [401, 401, 401, 401, 401])
    assert.deepEqual(await statuses(['10.0.0.0/8']), [401, 401, 401, 429, 429])
  })
})

function guessFrom(address: string): Call {
  return { url: '/v1/subscriptions', headers: bearer('wrong.1', { 'x-forwarded-for': address }) }
}

/** What five guesses get, each of which says that it comes from elsewhere. */
async function statuses(trustedProxies: string[]): Promise<number[]> {
  await using control = await testControl({ ...deps(), trustedProxies })
  const answers = []
  for (let i = 0; i < 5; i++) answers.push((await control.call(guessFrom(`203.0.113.${i}`))).status)
  return answers
}
