// GET /v1/events as a tenant's developer meets it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Event } from '../../src/event/event.ts'
import { createRateLimits } from '../../src/control/limits/rate-limits.ts'
import { Troubles } from '../../src/base/troubles.ts'
import { silentLog } from '../../src/base/log.ts'
import { transaction } from '../../src/store/transaction.ts'
import { publish as store } from '../support/api.ts'
import { manualClock } from '../support/clock.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { anEvent, arrive } from '../support/fixtures.ts'
import { assertProblem } from '../support/problems.ts'
import { readable } from '../support/readable.ts'

let control: TestControl
const stopping = new AbortController()
before(async () => void (control = await testControl({ stopping: stopping.signal })))
after(async () => await control[Symbol.asyncDispose]())

interface Page {
  items: Record<string, unknown>[]
  next_cursor: string
  has_more: boolean
}

async function pull(tenant: string, query = ''): Promise<Page> {
  const answer = await control.call({ url: `/v1/events${query}`, tenant })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as Page
}

const base64 = (data: string | Buffer) => ({ data: undefined, data_base64: Buffer.from(data).toString('base64') })

const ids = ({ items }: Page): unknown[] => items.map(({ id }) => id)
const now = (): Date => new Date(control.clock.now())

/** Stores an event that can be read then. */
async function publish(tenant: string, given: Partial<Event> = {}): Promise<Event> {
  const event = await store(control, tenant, given)
  await readable(control.database.pool)
  return event
}

/** Stores so many events of a tenant in one transaction; they can be read then. */
async function publishMany(tenant: string, given: Partial<Event>[]): Promise<string[]> {
  const events = given.map((each) => anEvent({ tenantId: tenant, ...each }))
  await arrive(control.database.pool, events, now())
  await readable(control.database.pool)
  return events.map(({ id }) => id)
}

test('events come in arrival order, page by page, and the end has a cursor too', async () => {
  const all: string[] = []
  for (let batch = 0; batch < 3; batch++) all.push(...(await publishMany('pages', [{}, {}, {}])))
  await publish('another')
  const first = await pull('pages', '?limit=4')
  assert.deepEqual(ids(first), all.slice(0, 4))
  assert.equal(first.has_more, true)
  const second = await pull('pages', `?limit=5&cursor=${first.next_cursor}`)
  assert.deepEqual(ids(second), all.slice(4))
  assert.equal(second.has_more, false)
  const end = await pull('pages', `?cursor=${second.next_cursor}`)
  assert.deepEqual(end, { items: [], next_cursor: second.next_cursor, has_more: false })
  const { id } = await publish('pages')
  assert.deepEqual(ids(await pull('pages', `?cursor=${end.next_cursor}`)), [id])
  assert.deepEqual(ids(await pull('pages', `?limit=4`)), ids(first), 'the same cursor gives the same events')
})

test('an event is whole, and its data stands in the answer byte for byte', async () => {
  const body = '{ "amount": 12345678901234567890, "rate":1e400, "a":1,"a":2, "é":"\\u00e9" }'
  const { id } = await publish('whole', {
    data: Buffer.from(body),
    traceparent: 'tp',
    attributes: { id: 'x', subject: 'é' },
  })
  const answer = await control.call({ url: '/v1/events', tenant: 'whole' })
  assert.ok(answer.text.includes(`"data":${body}}`), answer.text)
  const { data, ...shown } = (answer.body as Page).items[0]!
  assert.equal(typeof data, 'object')
  assert.deepEqual(shown, {
    id,
    source: 'lender',
    event_type: 'loan.approved',
    resource_type: 'loan',
    schema_major: 1,
    attributes: { id: 'x', subject: 'é' },
    traceparent: 'tp',
    tracestate: null,
    received_at: now().toISOString(),
    data_bytes: Buffer.byteLength(body),
  })
})

test('data that is no JSON is base64, whatever it says of itself, and no data is none', async () => {
  const attributes = { id: 'x' }
  await publishMany('bytes', [
    { data: Buffer.from([0xff, 0xfe]) },
    { data: Buffer.from('{"half":'), attributes },
    { data: Buffer.from('{}'), attributes: { ...attributes, datacontenttype: 'text/plain' } },
    { data: Buffer.from('7'), attributes: { ...attributes, datacontenttype: 'application/vnd.x+json; charset=utf-8' } },
    { data: Buffer.alloc(0), attributes },
    { data: null },
  ])
  const { items } = await pull('bytes')
  const shown = items.map(({ data, data_base64 }) => ({ data, data_base64 }))
  assert.deepEqual(shown, [
    base64(Buffer.from([0xff, 0xfe])),
    base64('{"half":'),
    base64('{}'),
    { data: 7, data_base64: undefined },
    base64(''),
    { data: undefined, data_base64: undefined },
  ])
})

test('filters pass over what is not asked for, and the cursor moves on over it', async () => {
  const [a, b, c, d] = await publishMany('filters', [
    { source: 'lender', resourceType: 'loan', key: 'loan.approved' },
    { source: 'lender', resourceType: 'loan_application', key: 'loan_application.approved' },
    { source: 'ledger', resourceType: 'loan', key: 'loan.approved' },
    { source: 'ledger', resourceType: 'account', key: 'account.opened' },
  ])
  const found = async (query: string) => ids(await pull('filters', query))
  assert.deepEqual(await found('?origin=lender'), [a, b])
  assert.deepEqual(await found('?event_type=loan.approved'), [a, c])
  assert.deepEqual(await found('?event_type=loan.*'), [a, c])
  assert.deepEqual(await found('?event_type=loan.*&origin=ledger'), [c])
  assert.deepEqual(await found('?event_type=account.opened&event_type=loan_application.*'), [b, d])
  assert.deepEqual(await found('?event_type=*'), [a, b, c, d])
  assert.deepEqual(await found('?event_type=*&event_type=account.opened'), [a, b, c, d])
  assert.deepEqual(await found('?event_type=nothing.here'), [])
  const nothing = await pull('filters', '?event_type=nothing.here')
  assert.deepEqual(ids(await pull('filters', `?cursor=${nothing.next_cursor}`)), [], 'all of it has been looked at')
  const one = await pull('filters', '?event_type=loan.*&limit=1')
  assert.deepEqual(ids(one), [a])
  assert.deepEqual(
    ids(await pull('filters', `?cursor=${one.next_cursor}`)),
    [c, d],
    'what lay before the next match was looked at, and cursors go with any filter',
  )
})

test('a call looks at so many events and no more, and says that there are others', async () => {
  const many = Array.from({ length: 2_500 }, (_, n): Partial<Event> => ({
    data: null,
    source: n === 2_400 ? 'rare' : 'lender',
  }))
  const all = await publishMany('sparse', many)
  const first = await pull('sparse', '?origin=rare')
  assert.deepEqual([first.items, first.has_more], [[], true])
  const second = await pull('sparse', `?origin=rare&cursor=${first.next_cursor}`)
  assert.deepEqual([ids(second), second.has_more], [[all[2_400]], false])
})

test('a page ends where it gets too large, and holds one event at least', async () => {
  const data = Buffer.from(JSON.stringify('x'.repeat(900_000)))
  const all = await publishMany(
    'large',
    Array.from({ length: 10 }, () => ({ data })),
  )
  const got: unknown[] = []
  let sizes: number[] = []
  for (let page = await pull('large'); ; page = await pull('large', `?cursor=${page.next_cursor}`)) {
    got.push(...ids(page))
    sizes.push(page.items.length)
    if (!page.has_more) break
  }
  assert.deepEqual(got, all)
  assert.deepEqual(sizes, [4, 4, 2])
})

test('a new reader may begin at the end', async () => {
  await publish('latest')
  const { items, next_cursor } = await pull('latest', '?from=latest')
  assert.deepEqual(items, [])
  const { id } = await publish('latest')
  assert.deepEqual(ids(await pull('latest', `?cursor=${next_cursor}`)), [id])
  assert.equal((await pull('latest', '?from=earliest')).items.length, 2)
})

test('what is malformed is refused, and says where', async () => {
  const { next_cursor } = await pull('refused')
  const other = Buffer.from(JSON.stringify(['subscriptions', '1.1'])).toString('base64url')
  const huge = Buffer.from(JSON.stringify(['events', `${'9'.repeat(19)}.1`])).toString('base64url')
  for (const [query, path] of [
    ['limit=0', '?limit'],
    ['limit=1001', '?limit'],
    ['limit=many', '?limit'],
    ['cursor=zzz', '?cursor'],
    ['cursor=', '?cursor'],
    [`cursor=${other}`, '?cursor'],
    [`cursor=${huge}`, '?cursor'],
    [`cursor=${next_cursor}x`, '?cursor'],
    ['wait=31s', '?wait'],
    ['wait=-1s', '?wait'],
    ['wait=soon', '?wait'],
    ['origin=', '?origin'],
    ['origin=a.b', '?origin'],
    ['origin=a&origin=b', '?origin'],
    ['event_type=loan', '?event_type'],
    ['event_type=loan.approved&event_type=*.approved', '?event_type/1'],
    [Array.from({ length: 21 }, () => 'event_type=a.b').join('&'), '?event_type'],
    ['from=middle', '?from'],
    [`from=latest&cursor=${next_cursor}`, '?from'],
    ['unknown=1', '?unknown'],
  ] as const) {
    const answer = await control.call({ url: `/v1/events?${query}`, tenant: 'refused' })
    const { errors } = assertProblem(answer, 400, 'invalid_request')
    assert.ok(
      errors.some((fault) => fault.path === path),
      `${query}: ${answer.text}`,
    )
  }
})

test('a cursor from before a restore to an earlier moment is told apart, and aligning the inbox makes it good again', async () => {
  await publish('restored')
  const ahead = Buffer.from(JSON.stringify(['events', `${10 ** 9}.5`])).toString('base64url')
  const answer = await control.call({ url: `/v1/events?cursor=${ahead}`, tenant: 'restored' })
  assertProblem(answer, 409, 'conflict')
  await control.database.pool.query('select align_inbox(true)')
  const { id } = await publish('restored')
  assert.deepEqual(ids(await pull('restored', `?cursor=${ahead}`)), [id])
  assert.equal((await pull('restored')).items.length, 2)
})

test('an event behind an open transaction waits for it, and a reader passes over neither', async () => {
  const seen: unknown[] = []
  let cursor = ''
  const read = async () => {
    const page = await pull('open', cursor && `?cursor=${cursor}`)
    cursor = page.next_cursor
    seen.push(...ids(page))
  }
  let early = ''
  const late: string[] = []
  await transaction(control.database.pool, async (db) => {
    const event = anEvent({ tenantId: 'open' })
    early = event.id
    await arrive(db, [event], now())
    late.push((await store(control, 'open')).id)
    await read()
    assert.deepEqual(seen, [])
  })
  await readable(control.database.pool)
  await read()
  assert.deepEqual(seen, [early, ...late])
})

/** Resolves when so many wait; none of the answers may have come before. */
async function waiting(count: number, answers: Promise<Answer>[] = []): Promise<void> {
  const ended: Answer[] = []
  for (const answer of answers) void answer.then((each) => ended.push(each))
  const limit = AbortSignal.timeout(60_000)
  while (/^hub_pull_waiters (\d+)$/m.exec((await control.call({ url: '/metrics' })).text)?.[1] !== String(count)) {
    if (ended.length > 0) throw new Error(`not waiting: ${ended[0]?.text}`)
    limit.throwIfAborted()
    await setImmediate()
  }
}

const wait = (tenant: string, query = ''): Promise<Answer> =>
  control.call({ url: `/v1/events?wait=30s${query}`, tenant })

test('a long poll is answered when an event of its tenant comes that it asks for, and by no other', async () => {
  const { pool } = control.database
  const polls = [wait('patient', '&origin=ledger'), wait('patient', '&origin=ledger')]
  await waiting(2, polls)
  await publish('impatient', { source: 'ledger' })
  await publish('patient', { source: 'lender' })
  control.arrivals.tell()
  await waiting(2, polls)
  const { id } = await publish('patient', { source: 'ledger' })
  control.arrivals.tell()
  for (const answer of await Promise.all(polls)) assert.deepEqual(ids(answer.body as Page), [id])
  await waiting(0)
  assert.equal(pool.idleCount, pool.totalCount)
})

test('a long poll holds no connection, and ends with an empty page when its time is over', async () => {
  const { pool } = control.database
  const polls = Array.from({ length: 20 }, () => wait('quiet'))
  await waiting(20, polls)
  assert.equal(pool.idleCount, pool.totalCount, 'no connection is held by those who wait')
  control.clock.advance(30_000)
  for (const { body } of await Promise.all(polls)) assert.deepEqual((body as Page).items, [])
})

test('a tenant can be asked for by so many at once and no more; others are not concerned', async () => {
  const polls = Array.from({ length: 64 }, () => wait('crowd'))
  await waiting(64, polls)
  const answer = await wait('crowd')
  assertProblem(answer, 429, 'rate_limited')
  assert.equal(answer.headers['retry-after'], '1')
  const other = wait('beside')
  await waiting(65, [other])
  control.clock.advance(30_000)
  await Promise.all([...polls, other])
})

test('pulls are limited for a tenant, by the standard headers', async () => {
  const quota = { max: 1, windowMs: 1_000 }
  const settings = {
    tiers: null,
    tenantFactor: 1,
    pull: { max: 2, windowMs: 2_000 },
    failedAuth: quota,
    failOpen: true,
  }
  const counted = { redis: null, troubles: new Troubles(silentLog, manualClock()) }
  await using limited = await testControl({ rateLimits: createRateLimits(settings, counted) })
  const call = async (tenant: string) => await limited.call({ url: '/v1/events', tenant })
  const first = await call('acme')
  assert.equal(first.headers['ratelimit-policy'], '"pull";q=2;w=2')
  assert.match(String(first.headers['ratelimit']), /^"pull";r=1;t=\d$/)
  await call('acme')
  const third = await call('acme')
  assertProblem(third, 429, 'rate_limited')
  assert.ok(Number(third.headers['retry-after']) >= 1)
  assert.equal((await call('other')).status, 200)
})

test('a stop ends long polls at once', async () => {
  const poll = wait('stopped')
  await waiting(1, [poll])
  stopping.abort()
  const { status, body } = await poll
  assert.deepEqual([status, (body as Page).items], [200, []])
  assert.deepEqual(((await wait('stopped')).body as Page).items, [])
})
