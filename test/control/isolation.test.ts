// Every route of tenants × another tenant's ids: not found, and no trace. The routes come from the API's own document, so that a
// new one is walked without anybody thinking of it; one whose ids the test has no objects for fails it.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { deliver, publish, subscribe } from '../support/api.ts'
import { testControl, type Answer, type Call, type TestControl } from '../support/control.ts'
import { keyOf, type KeyInHand } from '../support/keys.ts'
import { operationsOf, type Operation } from '../support/operations.ts'
import { assertProblem } from '../support/problems.ts'
import { failed } from '../support/scripted-sink.ts'
import { tenantTables } from '../support/tenant-tables.ts'

const OWNER = 'owner'
const STRANGER = 'stranger'
/** In everything of the owner's. */
const TRACE = 'owner-only'

let control: TestControl
let stranger: KeyInHand
let owner: KeyInHand
/** Ids of the owner's objects, by what a path begins with. */
let owned: Record<string, string[]>

before(async () => {
  control = await testControl()
  owner = await keyOf(control, OWNER)
  stranger = await keyOf(control, STRANGER)
  const { id: subscription } = await subscribe(control, OWNER, {
    retry_schedule: ['0s'],
    name: TRACE,
    metadata: { trace: TRACE },
  })
  await publish(control, OWNER, { data: Buffer.from(TRACE), source: TRACE })
  await deliver(control, () => failed({ detail: TRACE }))
  const { id: event } = await publish(control, OWNER, { data: Buffer.from(TRACE), source: TRACE })
  const { body } = await as(owner, { url: `/v1/subscriptions/${subscription}/deliveries` })
  const deliveries = (body as { items: { id: string }[] }).items.map(({ id }) => id)
  assert.equal(deliveries.length, 2)
  const since = { since: '2026-01-01T00:00:00Z' }
  const replay = await as(owner, { method: 'POST', url: `/v1/subscriptions/${subscription}/replay`, body: since })
  assert.equal(replay.status, 202, replay.text)
  owned = {
    '/v1/subscriptions/': [subscription],
    '/v1/deliveries/': deliveries,
    '/v1/events/': [event],
    '/v1/replays/': [(replay.body as { id: string }).id],
  }
})
after(async () => await control[Symbol.asyncDispose]())

const told = ({ body }: Answer): unknown => ({ ...(body as object), request_id: null })
const names = (answer: Answer): string[] => Object.keys(answer.headers).sort()
const event = (tenant: string): Record<string, string> => ({
  specversion: '1.0',
  id: `019e2713-6fe4-7f94-a675-${Math.random().toString(16).slice(2, 14).padEnd(12, '0')}`,
  source: 'lender',
  type: 'studio.lerian.lender.loan.approved',
  time: '2026-05-14T13:00:00Z',
  schemaversion: '1.0.0',
  resourcetype: 'loan',
  eventtype: 'approved',
  tenantid: tenant,
})

const as = async ({ headers }: KeyInHand, request: Call): Promise<Answer> =>
  await control.call({ ...request, headers: { ...headers, ...request.headers } })

/** A batch with an event of each of these tenants. */
const ingest = async (key: KeyInHand, ...tenants: string[]): Promise<Answer> =>
  await as(key, {
    method: 'POST',
    url: '/v1/ingest',
    raw: JSON.stringify(tenants.map(event)),
    headers: { 'content-type': 'application/cloudevents-batch+json' },
  })

/** Those of tenants: what needs a tenant's credential, so operators' routes and ingest are others. */
function tenantsOperations(): Operation[] {
  return operationsOf(control).filter(({ scope }) => scope !== null && scope !== 'admin' && scope !== 'events:ingest')
}

/** A call for each object of the owner that the path can name. */
function callsOf({ method, path, body }: Operation): Call[] {
  const named = path.match(/\{[^}]+\}/g) ?? []
  assert.equal(named.length, 1, `this test puts one id into a path, and ${path} has ${named.length}`)
  const prefix = Object.keys(owned).find((known) => path.startsWith(`${known}{`))
  assert.ok(prefix, `this test has no objects for ${path}: make one in before()`)
  const request = body === null ? {} : { body }
  return owned[prefix]!.map((id) => ({ method, url: path.replace(named[0] ?? '', id), ...request }))
}

function callsByIds(): Call[] {
  return tenantsOperations()
    .filter(({ path }) => path.includes('{'))
    .flatMap(callsOf)
}

/** All of all tenants, as the database has it; keys apart, whose last use is written now and then. */
async function everything(): Promise<unknown> {
  const { pool } = control.database
  const tables = (await tenantTables(pool)).filter(({ name }) => name !== 'api_key')
  return await Promise.all(
    tables.map(async ({ name }) => (await pool.query(`select * from ${name} t order by t::text`)).rows),
  )
}

describe('another tenant’s objects', () => {
  test('are not found by any route, and nothing of theirs is touched', async (t) => {
    const earlier = await everything()
    const probes = control.probe.probed.length
    const all = callsByIds()
    for (const request of all) {
      // In any letter case, and as one of ours besides.
      const upper = { ...request, url: request.url.replace(/[0-9a-f-]{36}/, (id) => id.toUpperCase()) }
      for (const call of [request, upper, { ...request, headers: { 'x-tenant-id': OWNER } }]) {
        const answer = await as(stranger, call)
        assertProblem(answer, 404, 'not_found')
        assert.ok(!answer.text.includes(TRACE), `${request.method} ${request.url}`)
      }
    }
    assert.deepEqual(await everything(), earlier)
    assert.equal(control.probe.probed.length, probes)
    assert.ok(all.length >= 16, `${all.length} calls`)
    t.diagnostic(`${all.length} calls of ${tenantsOperations().length} operations, each three times`)
  })

  test('are answered as what does not exist at all', async () => {
    for (const request of callsByIds()) {
      const missing = { ...request, url: request.url.replace(/[0-9a-f-]{36}/, '019e2713-6fe4-7f94-a675-6d1a78280ce9') }
      const [foreign, none] = [await as(stranger, request), await as(stranger, missing)]
      assert.deepEqual(told(foreign), told(none), `${request.method} ${request.url}`)
      assert.deepEqual(names(foreign), names(none))
    }
  })

  test('are in no list, with any filter', async (t) => {
    let asked = 0
    for (const { path, query } of tenantsOperations().filter(
      ({ method, path: at }) => method === 'GET' && !at.includes('{'),
    )) {
      const ids = Object.values(owned).flat()
      const filters = query.flatMap((name) => [...ids, OWNER, TRACE, '*', 'true'].map((value) => `?${name}=${value}`))
      for (const filter of ['', ...filters]) {
        asked++
        const answer = await as(stranger, { url: `${path}${filter}` })
        assert.ok(
          !answer.text.replaceAll(filter.split('=')[1] ?? ' ', '').includes(TRACE),
          `${path}${filter}: ${answer.text}`,
        )
        if (answer.status === 200) assert.deepEqual((answer.body as { items?: unknown[] }).items ?? [], [], path)
        else assertProblem(answer, 400, 'invalid_request')
      }
    }
    t.diagnostic(`${asked} requests`)
    // A cursor is no key: one that was made for the owner's list walks the caller's own.
    const cursor = Buffer.from(JSON.stringify(['subscriptions', 'ffffffff-ffff-7fff-bfff-ffffffffffff'])).toString(
      'base64url',
    )
    const walked = await as(stranger, { url: `/v1/subscriptions?cursor=${cursor}` })
    assert.deepEqual(walked.body, { items: [], next_cursor: null })
  })

  test('are found by their owner with the same calls', async () => {
    for (const request of callsByIds().filter(({ method }) => method === 'GET')) {
      const { status, text } = await as(owner, request)
      assert.equal(status, 200, `${request.url}: ${text}`)
    }
  })
})

test('two tenants may have an event of the same id, and each sees its own', async () => {
  const { id } = await publish(control, 'twin-a', { data: Buffer.from('a') })
  await publish(control, 'twin-b', { id, data: Buffer.from('b') })
  for (const name of ['a', 'b']) {
    const { body } = await control.call({ url: `/v1/events/${id}`, tenant: `twin-${name}` })
    assert.equal((body as { data: string }).data, name)
  }
})

test('a tenant’s key brings in events of that tenant only; a service’s key those of all', async () => {
  const service = await keyOf(control, null, { scopes: ['events:ingest'] })
  const count = async (): Promise<number> => (await control.database.pool.query('select from event_inbox')).rows.length
  const earlier = await count()
  assertProblem(await ingest(stranger, OWNER), 403, 'forbidden')
  assertProblem(await ingest(stranger, STRANGER, OWNER), 403, 'forbidden')
  assert.equal(await count(), earlier)
  assert.equal((await ingest(stranger, STRANGER, STRANGER)).status, 200)
  assert.equal((await ingest(service, STRANGER, OWNER, 'new')).status, 200)
  assert.equal(await count(), earlier + 5)
})
