import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { disableForStreak } from '../../src/store/streaks.ts'
import { subscribe, walk } from '../support/api.ts'
import { testControl, type Answer, type Call, type TestControl } from '../support/control.ts'
import { keyOf, type KeyInHand } from '../support/keys.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { delivered, failed } from '../support/scripted-sink.ts'

let control: TestControl
let key: KeyInHand
before(async () => {
  control = await testControl()
  key = await keyOf(control, 'acme')
})
after(async () => await control[Symbol.asyncDispose]())

interface Entry {
  version: number
  from_version: number | null
  what: string
  at: string
  by: { kind: string; id: string; name: string }
  changes: { field: string; old: unknown; new: unknown }[]
}

const call = async (method: Call['method'], url: string, body?: unknown): Promise<Answer> =>
  await control.call({ method: method!, url, headers: key.headers, ...(body !== undefined && { body }) })

async function historyOf(id: string, tenant = 'acme'): Promise<Entry[]> {
  const { status, body, text } = await control.call({ url: `/v1/subscriptions/${id}/history`, tenant })
  assert.equal(status, 200, text)
  return (body as { items: Entry[] }).items
}

/** Switched off by the hub itself. */
async function disable(id: string): Promise<boolean> {
  const { pool } = control.database
  const [first, last] = [new Date('2026-01-01T00:00:00Z'), new Date('2026-01-09T00:00:00Z')]
  await pool.query('update lane set first_failure_at = $2, last_failure_at = $3 where subscription_id = $1', [
    id,
    first,
    last,
  ])
  const streak = {
    subscriptionId: id,
    tenantId: 'acme',
    firstFailureAt: first.getTime(),
    lastFailureAt: last.getTime(),
  }
  return await disableForStreak(pool, streak, { reason: 'broken', now: new Date(control.clock.now()) })
}

describe('the history of a subscription', () => {
  test('has an entry for each version: who, what, when, and the fields that changed', async () => {
    const { id } = await subscribe(control, 'acme')
    const url = `/v1/subscriptions/${id}`
    for (const [method, path, body] of [
      ['PATCH', '', { name: 'renamed', metadata: { team: 'core' }, sink: { headers: { 'x-env': 'prod' } } }],
      ['POST', '/pause', { reason: 'why' }],
      ['POST', '/resume'],
      ['POST', '/rotate-secret'],
      ['DELETE', ''],
    ] as const)
      assert.ok((await call(method, url + path, body)).status < 300)
    const entries = await historyOf(id)
    const whats = entries.map(({ what }) => what)
    assert.deepEqual(whats, ['deleted', 'secret_rotated', 'resumed', 'paused', 'updated', 'verified', 'created'])
    assert.deepEqual(
      entries.map(({ version, from_version }) => [from_version, version]),
      [
        [6, 7],
        [5, 6],
        [4, 5],
        [3, 4],
        [2, 3],
        [1, 2],
        [null, 1],
      ],
    )
    for (const { by, at } of entries.slice(0, 5)) {
      assert.deepEqual(by, { kind: 'api_key', id: key.key.id, name: `shk_${key.key.prefix}` })
      assert.equal(at, new Date(control.clock.now()).toISOString())
    }
    assert.deepEqual(entries[6]?.by, { kind: 'local', id: 'local', name: 'local' })
    const changed = Object.fromEntries(entries.map(({ what, changes }) => [what, changes]))
    assert.deepEqual(changed['updated'], [
      { field: '/name', old: 'everything', new: 'renamed' },
      { field: '/sink/headers/x-env', old: null, new: 'prod' },
      { field: '/metadata/team', old: null, new: 'core' },
    ])
    assert.deepEqual(changed['paused'], [
      { field: '/enabled', old: true, new: false },
      { field: '/disabled_reason', old: null, new: 'why' },
    ])
    assert.deepEqual(changed['secret_rotated'], [{ field: '/signing_secret', old: '***', new: '***' }])
    assert.deepEqual(changed['verified'], [{ field: '/verification_state', old: 'pending', new: 'active' }])
    assert.ok(changed['created']?.some(({ field, new: value }) => field === '/sink/url' && typeof value === 'string'))
    assert.deepEqual(changed['deleted'], [])
  })

  test('says that secrets have changed, and never holds one', async () => {
    const auth = { kind: 'bearer', token: 'planted-first' }
    const headers = { 'x-token': { value: 'planted-header', secret: true } }
    const sink = { kind: 'webhook', url: 'https://core.example.com/', auth, headers }
    const { id, signing_secret } = await subscribe(control, 'acme', { sink })
    await call('PATCH', `/v1/subscriptions/${id}`, { sink: { auth: { token: 'planted-second' } } })
    const [entry] = await historyOf(id)
    assert.deepEqual(entry?.changes, [{ field: '/sink/auth/token', old: '***', new: '***' }])
    const { rows } = await control.database.pool.query<{ text: string }>(
      'select t::text as text from subscription_change t',
    )
    const stored = rows.map(({ text }) => text).join('\n')
    assert.ok(!stored.includes('planted') && !stored.includes(signing_secret.slice(6, 30)))
  })

  test('has what the hub does by itself, and what a verification undoes', async () => {
    const { id } = await subscribe(control, 'acme')
    assert.equal(await disable(id), true)
    assert.equal(await disable(id), false)
    await call('POST', `/v1/subscriptions/${id}/verify`)
    const [enabled, disabled, ...earlier] = await historyOf(id)
    assert.equal(enabled?.what, 'enabled_by_verification')
    assert.equal(enabled.by.kind, 'api_key')
    assert.equal(disabled?.what, 'auto_disabled')
    assert.deepEqual(disabled.by, { kind: 'hub', id: 'hub', name: 'the hub' })
    assert.deepEqual(disabled.changes, [
      { field: '/enabled', old: true, new: false },
      { field: '/disabled_reason', old: null, new: 'broken' },
    ])
    assert.equal(earlier.length, 2)
    control.probe.outcome = failed({ status: 503 })
    const { id: unreachable } = await subscribe(control, 'acme')
    control.probe.outcome = delivered
    assert.equal((await historyOf(unreachable))[0]?.what, 'verification_failed')
  })

  test('gets no entry by what changes nothing, or fails', async () => {
    const { id } = await subscribe(control, 'acme')
    const url = `/v1/subscriptions/${id}`
    const earlier = await historyOf(id)
    await call('PATCH', url, { name: 'everything' })
    await call('PATCH', url, { name: '' })
    await call('POST', `${url}/resume`)
    await call('POST', `${url}/verify`)
    const refused = await control.call({ method: 'DELETE', url, tenant: 'acme', headers: { 'if-match': '"99"' } })
    assertProblem(refused, 412, 'precondition_failed')
    assert.deepEqual(await historyOf(id), earlier)
  })

  test('comes in pages, whose cursors are its own', async () => {
    const { id } = await subscribe(control, 'acme')
    for (let nth = 0; nth < 5; nth++) await call('PATCH', `/v1/subscriptions/${id}`, { name: `name ${nth}` })
    const url = `/v1/subscriptions/${id}/history`
    assert.deepEqual(await walk<Entry>(control, { url, tenant: 'acme', limit: 2 }), await historyOf(id))
    for (const text of ['["history","x"]', '["subscriptions","3"]', '["history","99999999999"]']) {
      const cursor = Buffer.from(text).toString('base64url')
      assertFaults(await control.call({ url: `${url}?cursor=${cursor}`, tenant: 'acme' }), ['?cursor'])
    }
  })

  test('is another tenant’s for nobody else, also when its subscription is deleted', async () => {
    const { id } = await subscribe(control, 'acme')
    await call('DELETE', `/v1/subscriptions/${id}`)
    assert.equal((await historyOf(id)).length, 3)
    assertProblem(await control.call({ url: `/v1/subscriptions/${id}/history`, tenant: 'other' }), 404, 'not_found')
  })
})
