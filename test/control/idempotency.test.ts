// The same POST sent again under the same key.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createApiKey } from '../../src/control/api-keys.ts'
import { removeIdempotencyKeys } from '../../src/store/idempotency.ts'
import { testControl, type Answer, type Call, type TestControl } from '../support/control.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

const draft = { name: 'first', event_types: ['*'], sink: { kind: 'webhook', url: 'https://example.com/' } }
const create = (key: string, given: Partial<Call> = {}): Call => ({
  method: 'POST',
  url: '/v1/subscriptions',
  tenant: 'acme',
  body: draft,
  headers: { 'idempotency-key': key },
  ...given,
})
const countOf = async (tenant: string): Promise<number> =>
  ((await control.call({ url: '/v1/subscriptions', tenant })).body as { items: unknown[] }).items.length
const codeOf = ({ body }: Answer): unknown => (body as { code?: unknown }).code

test('is answered as it was the first time, to the byte, and done once; what is kept of it is sealed', async () => {
  const first = await control.call(create('k1', { tenant: 'once' }))
  const again = await control.call(create('k1', { tenant: 'once' }))
  assert.equal(first.status, 201)
  assert.deepEqual([again.status, again.text], [201, first.text])
  assert.equal(again.headers['idempotent-replayed'], 'true')
  assert.equal(again.headers['location'], first.headers['location'])
  assert.equal(again.headers['etag'], first.headers['etag'])
  assert.equal(await countOf('once'), 1)
  const { signing_secret: secret } = first.body as { signing_secret: string }
  const { rows } = await control.database.pool.query<{ row: string }>('select t::text as row from idempotent_answer t')
  assert.ok(rows.length > 0 && rows.every(({ row }) => !row.includes(secret)))
})

test('with another body, or to another path, is refused', async () => {
  const { body } = await control.call(create('k2'))
  const other = await control.call(create('k2', { body: { ...draft, name: 'second' } }))
  assert.deepEqual([other.status, codeOf(other)], [422, 'idempotency_key_reused'])
  const elsewhere = await control.call(
    create('k2', { url: `/v1/subscriptions/${(body as { id: string }).id}/pause`, body: {} }),
  )
  assert.deepEqual([elsewhere.status, codeOf(elsewhere)], [422, 'idempotency_key_reused'])
})

test('of another tenant, or of another key of the same one, is another request', async () => {
  await control.call(create('k3', { tenant: 'a' }))
  await control.call(create('k3', { tenant: 'b' }))
  assert.deepEqual([await countOf('a'), await countOf('b')], [1, 1])
  const scopes = ['subscriptions:write' as const, 'subscriptions:read' as const]
  for (const name of ['one', 'two']) {
    const wish = { name, tenantId: 'keys', scopes, expiresInMs: null, createdBy: 'test' }
    const { text } = await createApiKey(wish, { pool: control.database.pool, clock: control.clock })
    const headers = { 'idempotency-key': 'k3', 'x-api-key': text }
    const answer = await control.call({ method: 'POST', url: '/v1/subscriptions', body: draft, headers })
    assert.equal(answer.headers['idempotent-replayed'], undefined)
    assert.equal(answer.status, 201)
  }
  assert.equal(await countOf('keys'), 2)
})

test('sent eight times at once is done once; the others are told to ask again, or given its answer', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => control.call(create('k4', { tenant: 'eight' }))))
  assert.equal(await countOf('eight'), 1)
  for (const answer of answers) {
    if (answer.status === 201) continue
    assert.deepEqual([answer.status, codeOf(answer)], [409, 'idempotency_in_progress'])
    assert.ok(Number(answer.headers['retry-after']) > 0)
  }
})

test('whose first try was malformed, or failed for a reason that passes, is done', async () => {
  const wrong = await control.call(create('k5', { body: { ...draft, event_types: [] } }))
  assert.equal(wrong.status, 400)
  assert.equal((await control.call(create('k5'))).status, 201)
  const { body } = await control.call(create('k6'))
  const pause = (headers: Record<string, string>): Call =>
    create('k7', {
      url: `/v1/subscriptions/${(body as { id: string }).id}/pause`,
      body: {},
      headers: { 'idempotency-key': 'k7', ...headers },
    })
  assert.equal((await control.call(pause({ 'if-match': '"99"' }))).status, 412)
  assert.equal((await control.call(pause({}))).status, 200)
})

test('after its process has died over it is refused for two minutes, and then done', async () => {
  await control.call(create('k8', { tenant: 'dead' }))
  const { pool } = control.database
  await pool.query(
    `with a as (delete from idempotent_answer where tenant_id = 'dead' returning id)
    insert into idempotency_claim select id, gen_random_uuid(), $1 from a`,
    [new Date(control.clock.now() + 120_000)],
  )
  assert.equal((await control.call(create('k8', { tenant: 'dead' }))).status, 409)
  control.clock.advance(120_000)
  assert.equal((await control.call(create('k8', { tenant: 'dead' }))).status, 201)
  assert.equal(await countOf('dead'), 2)
})

test('is seen by every replica', async (t) => {
  const other = await testControl({ pool: control.database.pool })
  t.after(() => other[Symbol.asyncDispose]())
  const first = await control.call(create('k9', { tenant: 'two' }))
  const again = await other.call(create('k9', { tenant: 'two' }))
  assert.equal(again.text, first.text)
})

test('is remembered for a day, and then removed', async () => {
  const { pool } = control.database
  await control.call(create('k10', { tenant: 'day' }))
  control.clock.advance(24 * 3_600_000)
  const anew = await control.call(create('k10', { tenant: 'day' }))
  assert.deepEqual([anew.status, anew.headers['idempotent-replayed'], await countOf('day')], [201, undefined, 2])
  control.clock.advance(25 * 3_600_000)
  assert.ok((await removeIdempotencyKeys(pool, new Date(control.clock.now()), 1_000)) > 0)
  assert.deepEqual((await pool.query('select from idempotent_answer')).rows, [])
})

test('is taken by every POST but the ingest of events, which have their own ids; a key that is none is refused', async () => {
  const { paths } = (await control.call({ url: '/openapi.json' })).body as {
    paths: Record<string, Record<string, Operation>>
  }
  const posts = Object.entries(paths).flatMap(([path, { post }]) => (post ? [{ path, post }] : []))
  const without = posts.filter(
    ({ post }) => !post.parameters?.some(({ in: place, name }) => place === 'header' && name === 'idempotency-key'),
  )
  assert.deepEqual(
    without.map(({ path }) => path),
    ['/v1/ingest'],
  )
  assert.ok(posts.length > 8)
  const bodyless = posts.filter(({ path, post }) => path !== '/v1/ingest' && post.requestBody === undefined)
  assert.ok(bodyless.length > 2)
  for (const { path } of bodyless) {
    const url = path.replaceAll(/\{\w+\}/g, '01970000-0000-7000-8000-000000000001')
    const headers = { 'idempotency-key': 'not one' }
    const answer = await control.call({ method: 'POST', url, tenant: 'acme', headers })
    assert.equal(answer.status, 400, path)
    assert.match(answer.text, /idempotency-key/, path)
  }
  const answer = await control.call(create('not one'))
  assert.equal(answer.status, 400)
  assert.match(answer.text, /idempotency-key/)
})

interface Operation {
  requestBody?: unknown
  parameters?: { in: string; name: string }[]
}
