import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { walk } from '../support/api.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { keyOf, type KeyInHand } from '../support/keys.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'

const KEYS = '/admin/api-keys'
const UNKNOWN = '019e2713-6fe4-7f94-a675-6d1a78280ce9'

let control: TestControl
let admin: KeyInHand
before(async () => {
  control = await testControl()
  admin = await keyOf(control, null)
})
after(async () => await control[Symbol.asyncDispose]())

interface Shown {
  id: string
  prefix: string
  state: string
  key?: string
  [field: string]: unknown
}

const create = async (body: object): Promise<Answer> =>
  await control.call({ method: 'POST', url: KEYS, body, headers: admin.headers })
const read = async (id: string): Promise<Shown> => {
  const answer = await control.call({ url: `${KEYS}/${id}`, headers: admin.headers })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as Shown
}
const ids = async (url: string): Promise<string[]> =>
  (await walk<{ id: string }>(control, { url, limit: 2 })).map(({ id }) => id)
const revoke = async (id: string): Promise<Answer> =>
  await control.call({ method: 'DELETE', url: `${KEYS}/${id}`, headers: admin.headers })

describe('an API key, made by an operator,', () => {
  test('is shown whole once, works, and is never shown again', async () => {
    const given = { name: 'core', tenant_id: 'acme', scopes: ['events:read', 'events:read', 'subscriptions:read'] }
    const made = await create({ ...given, expires_in: '90d' })
    assert.equal(made.status, 201, made.text)
    const { key = '', ...shown } = made.body as Shown
    const now = control.clock.now()
    assert.deepEqual(shown, {
      ...given,
      id: shown.id,
      prefix: key.slice(0, 16),
      scopes: ['events:read', 'subscriptions:read'],
      state: 'active',
      created_at: new Date(now).toISOString(),
      created_by: admin.text.slice(0, 16),
      expires_at: new Date(now + 90 * 86_400_000).toISOString(),
      last_used_at: null,
      revoked_at: null,
    })
    assert.equal(made.headers['location'], `${KEYS}/${shown.id}`)
    assert.equal((await control.call({ url: '/v1/subscriptions', headers: { 'x-api-key': key } })).status, 200)
    assert.deepEqual(await read(shown.id), shown)
    const list = await control.call({ url: KEYS, headers: admin.headers })
    assert.ok(!list.text.includes(key.slice(17)) && !list.text.includes('secret'))
  })

  test('says of what is wrong where it is', async () => {
    const good = { name: 'x', tenant_id: 'acme', scopes: ['admin'] }
    const faults: [object, string[]][] = [
      [{}, ['/name', '/scopes']],
      [{ ...good, name: '' }, ['/name']],
      [{ ...good, name: 'a\nb' }, ['/name']],
      [{ ...good, tenant_id: ' ' }, ['/tenant_id']],
      [{ ...good, tenant_id: 'x'.repeat(257) }, ['/tenant_id']],
      [{ ...good, scopes: [] }, ['/scopes']],
      [{ ...good, scopes: ['everything'] }, ['/scopes/0']],
      [{ ...good, expires_in: 'soon' }, ['/expires_in']],
      [{ ...good, expires_in: '5s' }, ['/expires_in']],
      [{ ...good, prefix: 'mine' }, ['/prefix']],
      [{ name: 'x', scopes: ['admin', 'events:read'] }, ['/tenant_id']],
      [{ name: 'x', tenant_id: null, scopes: ['subscriptions:write'] }, ['/tenant_id']],
    ]
    for (const [body, paths] of faults) assertFaults(await create(body), paths)
    assert.equal((await create({ name: 'x', scopes: ['events:ingest', 'admin'] })).status, 201)
  })

  test('is revoked once and for good, and is still there to be seen', async () => {
    const { key } = await keyOf(control, 'acme')
    assert.equal((await revoke(key.id)).status, 204)
    const first = await read(key.id)
    assert.deepEqual([first.state, first['revoked_at']], ['revoked', new Date(control.clock.now()).toISOString()])
    control.clock.advance(1_000)
    assert.equal((await revoke(key.id)).status, 204)
    assert.deepEqual(await read(key.id), first)
    const { rows } = await control.database.pool.query('select revoked_by from api_key where id = $1', [key.id])
    assert.deepEqual(rows, [{ revoked_by: admin.text.slice(0, 16) }])
  })

  test('is not found where there is none', async () => {
    assertProblem(await revoke(UNKNOWN), 404, 'not_found')
    assertProblem(await control.call({ url: `${KEYS}/${UNKNOWN}`, headers: admin.headers }), 404, 'not_found')
  })

  test('expires by itself', async () => {
    const { key } = await keyOf(control, 'acme', { expiresInMs: 60_000 })
    control.clock.advance(59_999)
    assert.equal((await read(key.id)).state, 'active')
    control.clock.advance(1)
    assert.equal((await read(key.id)).state, 'expired')
  })
})

test('keys are listed in pages, the newest first, of all tenants or of one', async () => {
  const made: string[] = []
  for (let n = 0; n < 5; n++) {
    control.clock.advance(1)
    made.unshift((await keyOf(control, n % 2 === 0 ? 'even' : 'odd')).key.id)
  }
  assert.deepEqual((await ids(KEYS)).slice(0, 5), made)
  assert.deepEqual(await ids(`${KEYS}?tenant_id=odd`), [made[1], made[3]])
  assert.deepEqual(await ids(`${KEYS}?tenant_id=nobody`), [])
})

test('who did not get in is counted by the kind of credential and why, and by nothing that a caller chooses', async () => {
  await using closed = await testControl({}, [])
  const narrow = await keyOf(closed, 'acme', { scopes: ['events:read'] })
  await closed.call({ url: '/v1/subscriptions' })
  await closed.call({ url: '/v1/subscriptions', headers: { authorization: 'Bearer a.b.c' } })
  await closed.call({ url: '/v1/subscriptions', headers: { 'x-api-key': 'guess' } })
  await closed.call({ url: '/v1/subscriptions', headers: narrow.headers })
  const { text } = await closed.call({ url: '/metrics' })
  assert.deepEqual(text.match(/^hub_http_auth_failures_total.*$/gm)?.sort(), [
    'hub_http_auth_failures_total{kind="api_key",reason="forbidden"} 1',
    'hub_http_auth_failures_total{kind="api_key",reason="unauthenticated"} 1',
    'hub_http_auth_failures_total{kind="none",reason="unauthenticated"} 2',
  ])
})
