import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { Replays } from '../../src/upkeep/replays.ts'
import { deliver, publish, subscribe, walk } from '../support/api.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { failed } from '../support/scripted-sink.ts'

let control: TestControl
let replays: Replays
before(async () => {
  control = await testControl()
  const { clock, database } = control
  replays = new Replays({ pool: database.pool, clock, log: silentLog, onQueued: () => undefined })
})
after(async () => await control[Symbol.asyncDispose]())

interface ReplayJson {
  id: string
  subscription_id: string
  status: string
  total: number
  [field: string]: unknown
}

const SINCE = '2026-01-01T00:00:00Z'

async function begin(tenant: string, subscription: string, body: unknown = { since: SINCE }): Promise<Answer> {
  control.clock.advance(1)
  return await control.call({ method: 'POST', url: `/v1/subscriptions/${subscription}/replay`, tenant, body })
}

async function begun(tenant: string, subscription: string, body?: unknown): Promise<ReplayJson> {
  const answer = await begin(tenant, subscription, body)
  assert.equal(answer.status, 202, answer.text)
  return answer.body as ReplayJson
}

async function read(tenant: string, { id }: ReplayJson): Promise<ReplayJson> {
  return (await control.call({ url: `/v1/replays/${id}`, tenant })).body as ReplayJson
}

/** A subscription to which `dead` events were dead-lettered and then `good` ones delivered. */
async function history(tenant: string, { dead, good }: { dead: number; good: number }): Promise<string> {
  const { id } = await subscribe(control, tenant, { retry_schedule: ['0s'] })
  for (let nth = 0; nth < dead; nth++) await publish(control, tenant)
  await deliver(control, () => failed())
  control.clock.advance(1)
  for (let nth = 0; nth < good; nth++) await publish(control, tenant)
  await deliver(control)
  return id
}

/** How many deliveries replays have made for a subscription. */
async function made(tenant: string, subscription: string): Promise<number> {
  const url = `/v1/subscriptions/${subscription}/deliveries`
  const all = await walk<{ kind: string }>(control, { url, tenant, limit: 100 })
  return all.filter(({ kind }) => kind === 'replay').length
}

const now = (): string => new Date(control.clock.now()).toISOString()

describe('a replay of a range', () => {
  test('is begun, and is read with its progress until it is done', async () => {
    const subscription = await history('teller', { dead: 2, good: 3 })
    const answer = await begin('teller', subscription, { since: SINCE, states: ['delivered', 'dead_lettered'] })
    assert.equal(answer.status, 202, answer.text)
    const { id, ...rest } = answer.body as ReplayJson
    assert.equal(answer.headers['location'], `/v1/replays/${id}`)
    const fresh = {
      subscription_id: subscription,
      since: '2026-01-01T00:00:00.000Z',
      until: now(),
      states: ['delivered', 'dead_lettered'],
      status: 'running',
      total: 5,
      queued: 0,
      skipped: 0,
      delivered: 0,
      dead_lettered: 0,
      unfinished: 0,
      created_at: now(),
      updated_at: now(),
      finished_at: null,
    }
    assert.deepEqual(rest, fresh)
    const replay = answer.body as ReplayJson
    await replays.tick()
    assert.deepEqual(await read('teller', replay), { id, ...fresh, queued: 5, unfinished: 5 })
    assert.equal(await deliver(control), 5)
    control.clock.advance(1000)
    await replays.tick()
    const end = { status: 'done', queued: 5, delivered: 5, updated_at: now(), finished_at: now() }
    assert.deepEqual(await read('teller', replay), { id, ...fresh, ...end })
  })

  test('takes the dead-lettered ones up to now when nothing else is said', async () => {
    const subscription = await history('plain', { dead: 2, good: 3 })
    const { total, states, until } = await begun('plain', subscription)
    assert.deepEqual({ total, states, until }, { total: 2, states: ['dead_lettered'], until: now() })
  })

  test('ends now where until is in the future', async () => {
    const subscription = await history('future', { dead: 1, good: 0 })
    const replay = await begun('future', subscription, { since: SINCE, until: '9999-12-31T23:59:59Z' })
    assert.deepEqual([replay.total, replay['until']], [1, now()])
  })

  test('names itself and what it repeats on the deliveries that it makes', async () => {
    const subscription = await history('linked', { dead: 1, good: 0 })
    const replay = await begun('linked', subscription)
    await replays.tick()
    const url = `/v1/subscriptions/${subscription}/deliveries`
    const [repeated, original] = await walk<Record<string, unknown>>(control, { url, tenant: 'linked', limit: 10 })
    assert.deepEqual(
      [repeated?.['kind'], repeated?.['replay_of'], repeated?.['replay_id']],
      ['replay', original?.['id'], replay.id],
    )
    assert.deepEqual([original?.['kind'], original?.['replay_of'], original?.['replay_id']], ['event', null, null])
  })

  test('is only counted in a dry run', async () => {
    const subscription = await history('dry', { dead: 2, good: 3 })
    const wish = { since: SINCE, states: ['delivered'], dry_run: true }
    const { status, body } = await begin('dry', subscription, wish)
    assert.equal(status, 200)
    assert.deepEqual(body, {
      subscription_id: subscription,
      since: '2026-01-01T00:00:00.000Z',
      until: now(),
      states: ['delivered'],
      total: 3,
    })
    await replays.tick()
    assert.equal(await made('dry', subscription), 0)
    assert.deepEqual((await control.call({ url: `/v1/subscriptions/${subscription}/replays`, tenant: 'dry' })).body, {
      items: [],
      next_cursor: null,
    })
  })

  test('is cancelled by hand, also twice', async () => {
    const subscription = await history('quitter', { dead: 2, good: 0 })
    const replay = await begun('quitter', subscription)
    const cancel = { method: 'DELETE', url: `/v1/replays/${replay.id}`, tenant: 'quitter' } as const
    const { status, body } = await control.call(cancel)
    assert.equal(status, 200)
    assert.deepEqual(body, { ...replay, status: 'cancelled', finished_at: now(), updated_at: now() })
    control.clock.advance(1000)
    assert.deepEqual((await control.call(cancel)).body, body)
    await replays.tick()
    assert.equal(await made('quitter', subscription), 0)
  })

  test('is one of a few at a time', async () => {
    const subscription = await history('eager', { dead: 1, good: 0 })
    const [first] = [await begun('eager', subscription), await begun('eager', subscription)]
    await begun('eager', subscription)
    assertProblem(await begin('eager', subscription), 409, 'conflict')
    assert.equal((await begin('eager', subscription, { since: SINCE, dry_run: true })).status, 200)
    await control.call({ method: 'DELETE', url: `/v1/replays/${first.id}`, tenant: 'eager' })
    await begun('eager', subscription)
  })

  test('is one of a few also when many are begun at the same time', async () => {
    const subscription = await history('rush', { dead: 1, good: 0 })
    await begun('rush', subscription)
    await begun('rush', subscription)
    const { pool } = control.database
    const holder = await pool.connect()
    await holder.query('begin')
    await holder.query('select from subscription where id = $1 for update', [subscription])
    const both = Promise.all([begin('rush', subscription), begin('rush', subscription)])
    const answered = both.then(() => true)
    const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    const bothWait = async (): Promise<boolean> => (await pool.query(waiting)).rowCount === 2
    while (!(await Promise.race([answered, bothWait()])));
    await holder.query('rollback')
    holder.release()
    const statuses = (await both).map(({ status }) => status)
    assert.deepEqual(new Set(statuses), new Set([202, 409]))
  })
})

test("a subscription's replays are listed in pages, the newest first", async () => {
  const subscription = await history('lists', { dead: 1, good: 0 })
  const ids: string[] = []
  for (let nth = 0; nth < 5; nth++) {
    const { id } = await begun('lists', subscription)
    ids.unshift(id)
    await control.call({ method: 'DELETE', url: `/v1/replays/${id}`, tenant: 'lists' })
  }
  const url = `/v1/subscriptions/${subscription}/replays`
  const listed = await walk<ReplayJson>(control, { url, tenant: 'lists', limit: 2 })
  assert.deepEqual(
    listed.map(({ id }) => id),
    ids,
  )
  assertFaults(await control.call({ url: `${url}?cursor=WzEsMl0`, tenant: 'lists' }), ['?cursor'])
})

test('a replay that cannot be is refused, with every fault', async () => {
  const { id } = await subscribe(control, 'faulty')
  const faults: [unknown, string[]][] = [
    [{}, ['/since']],
    [{ since: 'yesterday', until: 'today' }, ['/since', '/until']],
    [{ since: SINCE, until: '2025-12-31T23:59:59Z' }, ['/until']],
    [{ since: '2999-01-01T00:00:00Z' }, ['/since']],
    [{ since: '2999-01-01T00:00:00Z', until: '2998-01-01T00:00:00Z' }, ['/since', '/until']],
    [{ since: SINCE, states: [] }, ['/states']],
    [{ since: SINCE, states: ['queued'] }, ['/states/0']],
    [{ since: SINCE, states: 'delivered' }, ['/states']],
    [{ since: SINCE, states: ['delivered', 'delivered', 'delivered'] }, ['/states']],
    [{ since: SINCE, dry_run: 'yes' }, ['/dry_run']],
    [{ since: SINCE, speed: 9 }, ['/speed']],
    [[], ['']],
  ]
  for (const [body, paths] of faults) assertFaults(await begin('faulty', id, body), paths)
  const twice = await begun('faulty', id, { since: '0001-01-01T00:00:00Z', states: ['delivered', 'delivered'] })
  assert.deepEqual([twice['states'], twice['since']], [['delivered'], '1970-01-01T00:00:00.000Z'])
  const leap = await begun('faulty', id, { since: '2016-12-31T23:59:60Z', until: SINCE })
  assert.equal(leap['since'], '2016-12-31T23:59:59.000Z')
})

test("another tenant's replays and subscriptions are not found", async () => {
  const subscription = await history('owner', { dead: 1, good: 0 })
  const replay = await begun('owner', subscription)
  assertProblem(await begin('thief', subscription), 404, 'not_found')
  assertProblem(await begin('thief', subscription, { since: SINCE, dry_run: true }), 404, 'not_found')
  const calls = [
    { url: `/v1/subscriptions/${subscription}/replays` },
    { url: `/v1/replays/${replay.id}` },
    { method: 'DELETE', url: `/v1/replays/${replay.id}` },
  ] as const
  for (const call of calls) assertProblem(await control.call({ ...call, tenant: 'thief' }), 404, 'not_found')
  assert.equal((await read('owner', replay)).status, 'running')
  assertFaults(await control.call({ url: '/v1/replays/12', tenant: 'owner' }), [':id'])
})

test('with its subscription deleted a replay is cancelled, and can still be read', async () => {
  const subscription = await history('leaver', { dead: 3, good: 0 })
  const replay = await begun('leaver', subscription)
  await control.call({ method: 'DELETE', url: `/v1/subscriptions/${subscription}`, tenant: 'leaver' })
  await replays.tick()
  assert.equal((await read('leaver', replay)).status, 'cancelled')
  assertProblem(await begin('leaver', subscription), 404, 'not_found')
})

test('a replay of an unverified subscription waits for its verification', async () => {
  const subscription = await history('waiter', { dead: 2, good: 0 })
  control.probe.outcome = failed()
  const sink = { url: 'https://elsewhere.example.com/hooks' }
  const url = `/v1/subscriptions/${subscription}`
  await control.call({ method: 'PATCH', url, tenant: 'waiter', body: { sink } })
  await control.server.settled()
  const replay = await begun('waiter', subscription)
  await replays.tick()
  assert.equal((await read('waiter', replay))['queued'], 0)
  control.probe.outcome = { kind: 'delivered', status: 200, response: Buffer.from('ok') }
  await control.call({ method: 'POST', url: `${url}/verify`, tenant: 'waiter' })
  control.clock.advance(10_000)
  await replays.tick()
  assert.equal((await read('waiter', replay))['queued'], 2)
  assert.equal(await made('waiter', subscription), 2)
})
