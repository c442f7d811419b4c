import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import * as fc from 'fast-check'
import { silentLog } from '../../../src/base/log.ts'
import { ApiKeys } from '../../../src/control/auth/api-keys.ts'
import { isSameSecret, newKey, readKey } from '../../../src/control/auth/api-key.ts'
import type { Principal } from '../../../src/control/auth/principal.ts'
import { recordApiKeyUses } from '../../../src/store/api-keys.ts'
import { testControl, type Answer, type TestControl } from '../../support/control.ts'
import { keyOf, type KeyInHand } from '../../support/keys.ts'
import { assertProblem } from '../../support/problems.ts'

const TENANTS = '/v1/subscriptions'
const OPERATORS = '/admin/tenants'
const DAY = 86_400_000

let control: TestControl
before(async () => {
  control = await testControl({}, [])
})
after(async () => await control[Symbol.asyncDispose]())

const get = async (url: string, headers: Record<string, string>): Promise<Answer> =>
  await control.call({ url, headers })

/** What the caller may know of a key that is no good. */
function refusal(answer: Answer): unknown {
  const { request_id: _, ...told } = assertProblem(answer, 401, 'unauthenticated')
  return told
}

describe('an API key', () => {
  test('lets in as bearer token or in a header of its own, in any mode', async () => {
    const { headers, text } = await keyOf(control, 'acme')
    for (const given of [
      headers,
      { authorization: `bearer  ${text}` },
      { 'x-api-key': text },
      { ...headers, 'x-api-key': text },
    ])
      assert.equal((await get(TENANTS, given)).status, 200)
    await using open = await testControl()
    const own = await keyOf(open, 'acme', { scopes: ['events:read'] })
    assertProblem(await open.call({ url: TENANTS, headers: own.headers }), 403, 'forbidden')
    assertProblem(await open.call({ url: TENANTS, headers: { 'x-api-key': 'guess' } }), 401, 'unauthenticated')
    assertProblem(
      await open.call({ url: TENANTS, headers: { authorization: 'Bearer shk_guess' } }),
      401,
      'unauthenticated',
    )
    assert.equal((await open.call({ url: TENANTS })).status, 200)
  })

  test('is told nothing of why it is not good: unknown, wrong, revoked, expired, cut, doubled', async () => {
    const { text, key } = await keyOf(control, 'acme')
    const other = await keyOf(control, 'acme')
    const revoked = await revokedKey()
    const expiring = await keyOf(control, 'acme', { expiresInMs: DAY })
    assert.equal((await get(TENANTS, expiring.headers)).status, 200)
    control.clock.advance(DAY)
    const given: Record<string, string>[] = [
      { authorization: `Bearer ${newKey().text}` },
      { authorization: `Bearer shk_${key.prefix}_${other.text.slice(-43)}` },
      revoked.headers,
      expiring.headers,
      { authorization: `Bearer ${text.slice(0, -1)}` },
      { authorization: `Bearer ${text}=` },
      { authorization: `Bearer ${text.toUpperCase()}`, 'x-api-key': text.toUpperCase() },
      { authorization: `Bearer ${text}`, 'x-api-key': other.text },
      { 'x-api-key': '' },
      { 'x-api-key': `${text} `.repeat(2) },
    ]
    const answers = new Set<string>()
    for (const headers of given) answers.add(JSON.stringify(refusal(await get(TENANTS, headers))))
    assert.equal(answers.size, 1, [...answers].join('\n'))
    assertProblem(await get(TENANTS, {}), 401, 'unauthenticated')
    assertProblem(await get(TENANTS, { authorization: `Basic ${text}` }), 401, 'unauthenticated')
  })

  test('acts for its tenant, whatever else the request names', async () => {
    const { headers } = await keyOf(control, 'acme')
    const sink = { kind: 'webhook', url: 'https://core.example.com/' }
    const body = { name: 'mine', event_types: ['*'], sink }
    const given = { ...headers, 'x-tenant-id': 'globex' }
    const made = await control.call({ method: 'POST', url: TENANTS, headers: given, body })
    assert.equal(made.status, 201, made.text)
    const { rows } = await control.database.pool.query('select tenant_id from subscription where name = $1', ['mine'])
    assert.deepEqual(rows, [{ tenant_id: 'acme' }])
  })

  test('with the scope admin and no tenant sees what operators see, and no tenant’s objects', async () => {
    const { headers } = await keyOf(control, null, { scopes: ['admin', 'events:ingest'] })
    assert.equal((await get(OPERATORS, headers)).status, 200)
    assertProblem(await get(TENANTS, headers), 403, 'forbidden')
  })

  test('with the scope admin and a tenant sees what operators see, and of tenants’ objects its own, as its other scopes say', async () => {
    const both = await keyOf(control, 'acme', { scopes: ['admin', 'subscriptions:read'] })
    assert.equal((await get(OPERATORS, both.headers)).status, 200)
    assert.equal((await get(TENANTS, both.headers)).status, 200)
    const admin = await keyOf(control, 'acme', { scopes: ['admin'] })
    assertProblem(await get(TENANTS, admin.headers), 403, 'forbidden')
  })

  test('is looked up once in five seconds, and one that is revoked stops within them on every replica', async (t) => {
    const replica = new ApiKeys({ pool: control.database.pool, clock: control.clock, log: silentLog })
    const { key, headers } = await keyOf(control, 'acme')
    const query = t.mock.method(control.database.pool, 'query')
    for (let n = 0; n < 20; n++) await ask(replica, headers)
    await Promise.all(Array.from({ length: 20 }, async () => await ask(replica, headers)))
    assert.equal(query.mock.callCount(), 1)
    await revoke(key.id)
    assert.equal((await ask(replica, headers)).tenantId, 'acme')
    control.clock.advance(5_001)
    await assert.rejects(ask(replica, headers), { code: 'unauthenticated' })
  })

  test('that is revoked here stops here at once', async () => {
    const { key, headers } = await keyOf(control, 'acme')
    assert.equal((await get(TENANTS, headers)).status, 200)
    const admin = await keyOf(control, null)
    const ended = await control.call({ method: 'DELETE', url: `/admin/api-keys/${key.id}`, headers: admin.headers })
    assert.equal(ended.status, 204, ended.text)
    refusal(await get(TENANTS, headers))
  })

  test('that does not exist is looked up once in a while too, and drives out none that does', async (t) => {
    const keys = new ApiKeys({ pool: control.database.pool, clock: control.clock, log: silentLog })
    const { headers } = await keyOf(control, 'acme')
    await ask(keys, headers)
    const query = t.mock.method(control.database.pool, 'query', async () => ({ rows: [] }))
    const guess = { 'x-api-key': newKey().text }
    for (let n = 0; n < 5; n++) await assert.rejects(ask(keys, guess), { code: 'unauthenticated' })
    assert.equal(query.mock.callCount(), 1)
    for (let n = 0; n < 10_100; n++) await ask(keys, { 'x-api-key': newKey().text }).catch(() => undefined)
    const asked = query.mock.callCount()
    await ask(keys, headers)
    assert.equal(query.mock.callCount(), asked)
  })

  test('lets nobody in while it cannot be looked up', async (t) => {
    const { headers } = await keyOf(control, 'acme')
    const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const query = t.mock.method(control.database.pool, 'query', async () => await Promise.reject(away))
    assertProblem(await get(TENANTS, headers), 503, 'unavailable')
    query.mock.restore()
    assert.equal((await get(TENANTS, headers)).status, 200)
  })
})

describe('the last use of a key', () => {
  test('is written down once a minute, for all keys in one statement, and when the hub stops', async (t) => {
    const keys = new ApiKeys({ pool: control.database.pool, clock: control.clock, log: silentLog })
    const [one, two] = [await keyOf(control, 'acme'), await keyOf(control, 'acme')]
    await keys.start()
    for (const { headers } of [one, one, two]) await ask(keys, headers)
    const usedAt = new Date(control.clock.now())
    assert.deepEqual([await lastUse(one), await lastUse(two)], [null, null])
    const query = t.mock.method(control.database.pool, 'query')
    control.clock.advance(60_000)
    while ((await lastUse(one)) === null) await new Promise(setImmediate)
    assert.equal(query.mock.calls.filter(({ arguments: [text] }) => /update api_key/.test(text)).length, 1)
    assert.deepEqual([await lastUse(one), await lastUse(two)], [usedAt, usedAt])
    control.clock.advance(1_000)
    await ask(keys, two.headers)
    await keys.stop()
    assert.deepEqual([await lastUse(one), await lastUse(two)], [usedAt, new Date(control.clock.now())])
  })

  test('never goes back, and waits for a database that is away', async (t) => {
    const keys = new ApiKeys({ pool: control.database.pool, clock: control.clock, log: silentLog })
    const one = await keyOf(control, 'acme')
    await ask(keys, one.headers)
    const now = new Date(control.clock.now())
    const query = t.mock.method(control.database.pool, 'query', async () => await Promise.reject(new Error('away')))
    await keys.writeUses()
    query.mock.restore()
    await keys.writeUses()
    assert.deepEqual(await lastUse(one), now)
    await recordApiKeyUses(control.database.pool, [{ id: one.key.id, at: new Date(0) }])
    assert.deepEqual(await lastUse(one), now)
  })
})

test('a key says what it is, and is stored as a digest', async () => {
  const { text } = await keyOf(control, 'acme')
  assert.match(text, /^shk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/)
  const { rows } = await control.database.pool.query('select * from api_key')
  assert.ok(!JSON.stringify(rows).includes(text.slice(17)))
  assert.notEqual(newKey().text, newKey().text)
})

test('no text but a key is read as one, and no other secret is the same', () => {
  const made = newKey()
  assert.ok(isSameSecret(readKey(made.text)!, made.secretSha256))
  assert.ok(!isSameSecret({ prefix: made.prefix, secretSha256: Buffer.alloc(32) }, null))
  fc.assert(
    fc.property(fc.string(), fc.nat(text(made).length - 1), (other, at) => {
      const changed = made.text.slice(0, at) + other + made.text.slice(at + 1)
      const read = readKey(changed)
      return (
        read === null || changed === made.text || !isSameSecret(read, made.secretSha256) || read.prefix !== made.prefix
      )
    }),
  )
})

const text = (made: { text: string }): string => made.text

async function ask(keys: ApiKeys, headers: Record<string, string>): Promise<Principal> {
  const principal = await keys.authenticate({ headers } as unknown as FastifyRequest)
  assert.ok(principal)
  return principal
}

async function revoke(id: string): Promise<void> {
  await control.database.pool.query("update api_key set revoked_at = $2, revoked_by = 'test' where id = $1", [
    id,
    new Date(control.clock.now()),
  ])
}

async function revokedKey(): Promise<KeyInHand> {
  const made = await keyOf(control, 'acme')
  await revoke(made.key.id)
  return made
}

async function lastUse({ key }: KeyInHand): Promise<Date | null> {
  const { rows } = await control.database.pool.query<{ at: Date | null }>(
    'select last_used_at as at from api_key where id = $1',
    [key.id],
  )
  return rows[0]!.at
}
