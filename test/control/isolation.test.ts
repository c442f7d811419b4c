// Every route of the API × another tenant's ids: not found, and no trace. The routes come from the API's own document, so that a
// new one is walked without anybody thinking of it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { deliver, publish, subscribe } from '../support/api.ts'
import { testControl, type Call, type TestControl } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'
import { failed } from '../support/scripted-sink.ts'

const OWNER = 'owner'
const STRANGER = 'stranger'

/** What a route asks for, by the end of its path. */
const BODIES: Record<string, object | undefined> = { '/replay': { since: '2026-01-01T00:00:00Z' } }

let control: TestControl
/** Ids of the owner's objects, by what a path begins with. */
let owned: Record<string, string[]>

before(async () => {
  control = await testControl()
  const { id: subscription } = await subscribe(control, OWNER, {
    retry_schedule: ['0s'],
    metadata: { trace: 'owner-only' },
  })
  await publish(control, OWNER, { data: Buffer.from('owner-only') })
  await deliver(control, () => failed({ detail: 'owner-only' }))
  const { id: event } = await publish(control, OWNER, { data: Buffer.from('owner-only') })
  const { body } = await control.call({ url: `/v1/subscriptions/${subscription}/deliveries`, tenant: OWNER })
  const deliveries = (body as { items: { id: string }[] }).items.map(({ id }) => id)
  assert.equal(deliveries.length, 2)
  const replaying = { method: 'POST', url: `/v1/subscriptions/${subscription}/replay`, tenant: OWNER } as const
  const replay = await control.call({ ...replaying, body: BODIES['/replay'] })
  assert.equal(replay.status, 202, replay.text)
  owned = {
    '/v1/subscriptions/': [subscription],
    '/v1/deliveries/': deliveries,
    '/v1/events/': [event],
    '/v1/replays/': [(replay.body as { id: string }).id],
  }
})
after(async () => await control[Symbol.asyncDispose]())

interface Document {
  paths: Record<string, Record<string, unknown>>
}

function calls(): Call[] {
  const { paths } = control.server.api.swagger() as unknown as Document
  return Object.entries(paths)
    .filter(([path]) => path.startsWith('/v1/'))
    .flatMap(([path, operations]) =>
      Object.keys(operations).flatMap((method) => callsOf(path, method.toUpperCase() as NonNullable<Call['method']>)),
    )
}

function callsOf(path: string, method: NonNullable<Call['method']>): Call[] {
  if (!path.includes('{')) return []
  const prefix = Object.keys(owned).find((known) => path.startsWith(known))
  assert.ok(prefix, `this test knows no ids for ${path}`)
  const body = method === 'PATCH' ? { name: 'taken over' } : BODIES[path.slice(path.lastIndexOf('/'))]
  return owned[prefix]!.map((id) => ({
    method,
    url: path.replace(/\{[^}]+\}/, id),
    tenant: STRANGER,
    ...(body && { body }),
  }))
}

async function everything(): Promise<unknown> {
  const { pool } = control.database
  const tables = [
    'subscription',
    'subscription_pattern',
    'subscription_secret',
    'lane',
    'destination',
    'delivery',
    'delivery_history',
    'replay',
  ]
  return await Promise.all(
    tables.map(async (table) => (await pool.query(`select * from ${table} t order by t::text`)).rows),
  )
}

test('another tenant’s objects are not found by any route, and nothing of theirs is touched', async () => {
  const earlier = await everything()
  const probes = control.probe.probed.length
  const all = calls()
  for (const request of all) {
    const answer = await control.call(request)
    assertProblem(answer, 404, 'not_found')
    assert.ok(!answer.text.includes('owner-only'), `${request.method} ${request.url}`)
  }
  assert.deepEqual(await everything(), earlier)
  assert.equal(control.probe.probed.length, probes)
  assert.ok(all.length >= 16, `${all.length} calls`)
})

test('the owner is found by the same calls', async () => {
  for (const request of calls()) {
    if (request.method !== 'GET') continue
    const { status, text } = await control.call({ ...request, tenant: OWNER })
    assert.equal(status, 200, `${request.url}: ${text}`)
  }
})

test('lists hold nothing of another tenant', async () => {
  const { body } = await control.call({ url: '/v1/subscriptions', tenant: STRANGER })
  assert.deepEqual(body, { items: [], next_cursor: null })
  // A cursor is no key: one that was made for the owner's list walks the caller's own.
  const cursor = Buffer.from(JSON.stringify(['subscriptions', 'ffffffff-ffff-7fff-bfff-ffffffffffff'])).toString(
    'base64url',
  )
  const walked = await control.call({ url: `/v1/subscriptions?cursor=${cursor}`, tenant: STRANGER })
  assert.deepEqual(walked.body, { items: [], next_cursor: null })
})

test('two tenants may have an event of the same id, and each sees its own', async () => {
  const { id } = await publish(control, 'twin-a', { data: Buffer.from('a') })
  await publish(control, 'twin-b', { id, data: Buffer.from('b') })
  for (const name of ['a', 'b']) {
    const { body } = await control.call({ url: `/v1/events/${id}`, tenant: `twin-${name}` })
    assert.equal((body as { data: string }).data, name)
  }
})
