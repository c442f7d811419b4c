// The replay of a range on a real database: what it queues, in which order, how few at a time, and what a crash does to it.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as fc from 'fast-check'
import { beginReplay, countRange, endReplay, getReplay, type ReplayWish } from '../../src/control/replays.ts'
import { retryDelivery } from '../../src/control/deliveries.ts'
import { silentLog } from '../../src/base/log.ts'
import type { Event } from '../../src/event/event.ts'
import type { Pool } from '../../src/store/pool.ts'
import type { Replay } from '../../src/store/replays.ts'
import type { TenantDatabase } from '../../src/store/tenant.ts'
import { PLACES, Replays } from '../../src/upkeep/replays.ts'
import { manualClock, type ManualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription, uuid7, type SubscriptionFixture } from '../support/fixtures.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'
import { tenantDatabase } from '../support/tenant.ts'

const SECOND = 1_000
const BOTH = ['dead_lettered', 'delivered'] as const
const START = Date.parse('2026-05-14T13:00:00Z')

interface World extends AsyncDisposable {
  pool: Pool
  /** As the subscription's tenant. */
  tenant: TenantDatabase
  clock: ManualClock
  sink: ReturnType<typeof scriptedSink>
  dispatcher: ReturnType<typeof testDispatcher>
  replays: Replays
  subscription: SubscriptionFixture
  /** Events that arrive together, a millisecond after all before them. */
  arrive(events: Event[]): Promise<Event[]>
  /** The same, delivered. */
  past(count: number): Promise<Event[]>
  count(wish?: Partial<ReplayWish>): Promise<number>
  begin(wish?: Partial<ReplayWish>): Promise<Replay>
  read(replay: Replay): Promise<Replay>
  /** Steps and deliveries by turns, a second apart, until the replay is done. */
  finish(replay: Replay): Promise<Replay>
}

async function world(given: Partial<SubscriptionFixture> = {}): Promise<World> {
  const database = await testDatabase()
  const { pool } = database
  const clock = manualClock(START)
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink })
  const replays = new Replays({ pool, clock, log: silentLog, onQueued: () => undefined })
  const subscription = await insertSubscription(pool, { retrySchedule: [0], ...given })
  const tenant = tenantDatabase(pool, subscription.tenantId)
  const wishOf = (wish: Partial<ReplayWish> = {}): ReplayWish => ({
    subscriptionId: subscription.id,
    since: new Date(START),
    until: null,
    states: BOTH,
    ...wish,
  })
  const read = async (replay: Replay): Promise<Replay> => await getReplay(tenant, replay.id)
  const arriveNow = async (events: Event[]): Promise<Event[]> => {
    clock.advance(1)
    await arrive(pool, events, new Date(clock.now()))
    return events
  }
  return {
    pool,
    tenant,
    clock,
    sink,
    dispatcher,
    replays,
    subscription,
    read,
    arrive: arriveNow,
    past: async (count) => {
      const events = await arriveNow(some(count))
      await pool.query(ALL_DELIVERED, [new Date(clock.now())])
      return events
    },
    count: async (wish) => {
      clock.advance(1)
      return (await countRange(tenant, wishOf(wish), { clock })).total
    },
    begin: async (wish) => {
      clock.advance(1)
      return await beginReplay(tenant, wishOf(wish), { clock })
    },
    finish: async (replay) => {
      for (let rounds = 0; (await read(replay)).status === 'running'; rounds++) {
        assert.ok(rounds < 1000, 'the replay does not end')
        await replays.tick()
        await dispatcher.tick()
        await drain(dispatcher)
        clock.advance(SECOND)
      }
      return await read(replay)
    },
    [Symbol.asyncDispose]: async () => await database.drop(),
  }
}

const ALL_DELIVERED = `
with done as (delete from delivery returning *)
insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, attempts, failures, crashes, created_at, finished_at)
select id, seq, tenant_id, subscription_id, ce_id, kind, 'delivered', 1, 0, 0, created_at, $1 from done`

function some(count: number, given: Partial<Event> = {}): Event[] {
  return Array.from({ length: count }, () => anEvent(given))
}

const idsOf = (events: readonly Event[]): string[] => events.map(({ id }) => id)
const sent = ({ sink }: World): string[] => sink.attempts.map(({ event }) => event.id)

async function unfinished({ pool }: World): Promise<number> {
  const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from delivery')
  return rows[0]!.n
}

describe('a replay', () => {
  test('delivers each event of its range once more, in the order of arrival, and says what became of them', async () => {
    await using w = await world()
    const first = await w.past(50)
    const second = await w.past(30)
    const replay = await w.begin()
    assert.equal(replay.total, 80)
    const done = await w.finish(replay)
    assert.deepEqual(sent(w), idsOf([...first, ...second]))
    const { status, total, queued, skipped, delivered: arrived, deadLettered, outstanding, finishedAt } = done
    assert.deepEqual(
      { status, total, queued, skipped, arrived, deadLettered, outstanding },
      { status: 'done', total: 80, queued: 80, skipped: 0, arrived: 80, deadLettered: 0, outstanding: [] },
    )
    assert.ok(finishedAt)
  })

  test('takes only what arrived at or after since and before until, and was finished when it was made', async () => {
    await using w = await world()
    await w.past(1)
    const since = new Date(w.clock.now() + 1)
    const wanted = await w.past(2)
    const until = new Date(w.clock.now() + 1)
    await w.past(1)
    assert.equal(await w.count({ since, until }), 2)
    assert.equal(await w.count({ since: until, until }), 0)
    await w.arrive(some(1))
    const unfinishedThen = await w.begin({ since, until: new Date(w.clock.now() + 60_000) })
    assert.equal(unfinishedThen.total, 3)
    w.clock.advance(1)
    await drain(w.dispatcher)
    w.sink.attempts.length = 0
    await w.finish(unfinishedThen)
    assert.equal(sent(w).length, 3)
    assert.deepEqual(sent(w).slice(0, 2), idsOf(wanted))
  })

  test('takes only the states that were asked for, and counts what is dead-lettered again', async () => {
    await using w = await world()
    w.sink.script = ({ event }) => (event.resourceType === 'bad' ? failed() : delivered)
    const bad = some(3, { resourceType: 'bad' })
    await w.arrive([...some(2), ...bad])
    await drain(w.dispatcher)
    w.sink.attempts.length = 0
    assert.equal(await w.count({ states: ['delivered'] }), 2)
    assert.equal(await w.count(), 5)
    const done = await w.finish(await w.begin({ states: ['dead_lettered'] }))
    assert.deepEqual(sent(w), idsOf(bad))
    assert.deepEqual([done.total, done.delivered, done.deadLettered], [3, 0, 3])
  })

  test("goes by an event's newest finished delivery, whoever made it, and takes the event once", async () => {
    await using w = await world()
    w.sink.script = () => failed()
    const [mended, broken] = some(2)
    await w.arrive([mended!, broken!])
    await drain(w.dispatcher)
    w.sink.script = () => delivered
    const { rows } = await w.pool.query<{ id: string }>('select id from delivery_history where ce_id = $1', [
      mended!.id,
    ])
    await retryDelivery(w.tenant, rows[0]!.id, w)
    await drain(w.dispatcher)
    w.sink.attempts.length = 0
    assert.equal(await w.count({ states: ['delivered'] }), 1)
    assert.equal(await w.count(), 2)
    await w.finish(await w.begin({ states: ['dead_lettered'] }))
    assert.deepEqual(sent(w), [broken!.id])
    w.sink.attempts.length = 0
    await w.finish(await w.begin())
    assert.deepEqual(sent(w), idsOf([mended!, broken!]))
  })

  test('takes an event that was forgotten and arrived once more only once', async () => {
    await using w = await world()
    const [twice] = await w.past(1)
    await w.pool.query('delete from event_inbox')
    await w.arrive([twice!])
    await w.pool.query(ALL_DELIVERED, [new Date(w.clock.now())])
    const replay = await w.begin()
    assert.equal(replay.total, 1)
    await w.finish(replay)
    assert.deepEqual(sent(w), [twice!.id])
  })

  test('never takes up what it has made itself, nor test events', async () => {
    await using w = await world()
    await w.past(3)
    await w.pool.query("update delivery_history set kind = 'test' where id = (select id from delivery_history limit 1)")
    const replay = await w.begin({ until: new Date(START + 3_600_000) })
    assert.equal(replay.total, 2)
    assert.equal((await w.finish(replay)).queued, 2)
    assert.equal(sent(w).length, 2)
  })

  test('skips what the hub no longer keeps', async () => {
    await using w = await world()
    const events = await w.past(40)
    await w.pool.query('delete from event_inbox where ce_id = any($1)', [idsOf(events).slice(5, 25)])
    const done = await w.finish(await w.begin())
    assert.deepEqual([done.total, done.queued, done.skipped, done.delivered], [40, 20, 20, 20])
    assert.deepEqual(sent(w), [...idsOf(events).slice(0, 5), ...idsOf(events).slice(25)])
  })

  test('gets through what it does not want at once, and not a few events a second', async () => {
    await using w = await world()
    w.sink.script = () => failed()
    for (let batch = 0; batch < 4; batch++) await w.past(400)
    await w.arrive(some(1))
    await drain(w.dispatcher)
    const replay = await w.begin({ states: ['dead_lettered'] })
    await w.replays.tick()
    assert.equal((await w.read(replay)).queued, 1)
  })

  test('of nothing is done at once', async () => {
    await using w = await world()
    const replay = await w.begin()
    await w.replays.tick()
    const { status, total } = await w.read(replay)
    assert.deepEqual({ status, total }, { status: 'done', total: 0 })
  })

  test('is kept with each delivery that it makes, whatever becomes of it', async () => {
    await using w = await world()
    const events = await w.past(4)
    const replay = await w.begin()
    await w.replays.tick()
    const crash = Promise.withResolvers<typeof delivered>()
    const fates = [delivered, failed(), crash.promise]
    w.sink.script = ({ event }) => fates[events.findIndex(({ id }) => id === event.id)]!
    const one = testDispatcher({ ...w, options: { claimBatch: 1, poisonThreshold: 1 } })
    for (let nth = 0; nth < 2; nth++) {
      await one.claim()
      await one.settled()
    }
    await one.claim()
    w.clock.advance(60_000)
    await one.tick()
    crash.resolve(delivered)
    await one.settled()
    await w.pool.query('update subscription set deleted_at = $1', [new Date(w.clock.now())])
    await one.tick()
    const { rows } = await w.pool.query(
      `select coalesce(r.reason, r.state) as fate, r.replay_of = e.id as linked, r.replay_id
       from delivery_history r join delivery_history e on e.ce_id = r.ce_id and e.kind = 'event'
       where r.kind = 'replay' order by r.seq`,
    )
    const fateOf = (fate: string): object => ({ fate, linked: true, replay_id: replay.id })
    assert.deepEqual(rows, ['delivered', 'exhausted', 'poisoned', 'cancelled'].map(fateOf))
  })
})

describe('beside live traffic', () => {
  test(`an event that arrives in the middle of a replay of 5,000 waits for at most ${PLACES} of it`, async () => {
    await using w = await world()
    for (let batch = 0; batch < 10; batch++) await w.past(500)
    const replay = await w.begin()
    let waited = 0
    for (let round = 0; (await w.read(replay)).status === 'running'; round++, w.clock.advance(SECOND)) {
      await w.replays.tick()
      assert.ok((await unfinished(w)) <= PLACES)
      if (round % 50 !== 25) {
        await w.pool.query(ALL_DELIVERED, [new Date(w.clock.now())])
        continue
      }
      w.sink.attempts.length = 0
      const [live] = await w.arrive(some(1))
      await w.dispatcher.claim()
      await w.replays.tick()
      await w.dispatcher.settled()
      await drain(w.dispatcher)
      waited = sent(w).indexOf(live!.id)
      assert.ok(waited >= 0 && waited <= PLACES, `${waited} before it`)
    }
    assert.equal(waited, PLACES)
    assert.equal((await w.read(replay)).delivered, 5000)
  })

  test(`several replays share the ${PLACES} places, and take turns`, async () => {
    await using w = await world()
    const events = await w.past(40)
    const first = await w.begin()
    const second = await w.begin()
    await w.replays.tick()
    assert.equal(await unfinished(w), PLACES)
    assert.equal((await w.read(second)).queued, 0)
    await w.finish(second)
    assert.equal((await w.read(first)).delivered, 40)
    assert.deepEqual(sent(w), idsOf([...events, ...events]))
  })

  test('a replay waits for the one before it, also when that is looked at later', async () => {
    await using w = await world()
    await w.past(40)
    const first = await w.begin()
    const second = await w.begin()
    await w.pool.query("update replay set next_step_at = next_step_at + interval '1 hour' where id = $1", [first.id])
    await w.replays.tick()
    assert.equal((await w.read(second)).queued, 0)
  })

  test('what one replay has left of the places is for the next one', async () => {
    await using w = await world()
    const events = await w.past(10)
    await w.begin()
    const second = await w.begin()
    await w.replays.tick()
    w.clock.advance(SECOND)
    await w.replays.tick()
    assert.equal((await w.read(second)).queued, PLACES - 10)
    assert.equal(await unfinished(w), PLACES)
    await drain(w.dispatcher)
    assert.deepEqual(sent(w), idsOf([...events, ...events.slice(0, PLACES - 10)]))
  })

  test('its places stay taken while its deliveries fail, and nothing more is queued', async () => {
    await using w = await world({ retrySchedule: [0, 3_600_000, 3_600_000] })
    await w.past(100)
    w.sink.script = () => failed()
    const replay = await w.begin()
    for (let round = 0; round < 5; round++) {
      await w.replays.tick()
      await drain(w.dispatcher)
      w.clock.advance(SECOND)
    }
    assert.equal((await w.read(replay)).queued, PLACES)
    assert.equal(await unfinished(w), PLACES)
  })

  test('while its subscription is disabled it waits, and goes on when that is enabled again', async () => {
    await using w = await world()
    await w.past(40)
    const replay = await w.begin()
    await w.pool.query('update subscription set enabled = false, version = version + 1')
    for (let round = 0; round < 20; round++, w.clock.advance(SECOND)) await w.replays.tick()
    assert.equal((await w.read(replay)).queued, 0)
    await w.pool.query('update subscription set enabled = true, version = version + 1')
    await w.pool.query('update lane set version = 3')
    assert.equal((await w.finish(replay)).delivered, 40)
  })
})

describe('the end of a replay', () => {
  test('by hand: nothing more is queued, what was queued is delivered and counted', async () => {
    await using w = await world()
    await w.past(40)
    const replay = await w.begin()
    await w.replays.tick()
    const ended = await endReplay(w.tenant, replay.id, w)
    assert.deepEqual([ended.status, ended.outstanding.length], ['cancelled', PLACES])
    await drain(w.dispatcher)
    for (let round = 0; round < 3; round++, w.clock.advance(SECOND)) await w.replays.tick()
    const after = await w.read(replay)
    assert.deepEqual(
      [after.status, after.queued, after.delivered, after.outstanding.length, after.nextStepAt],
      ['cancelled', PLACES, PLACES, 0, null],
    )
    assert.equal(sent(w).length, PLACES)
  })

  test('by hand, before anything was queued, and a second time', async () => {
    await using w = await world()
    await w.past(4)
    const replay = await w.begin()
    const ended = await endReplay(w.tenant, replay.id, w)
    w.clock.advance(SECOND)
    assert.deepEqual(await endReplay(w.tenant, replay.id, w), ended)
    await w.replays.tick()
    assert.equal(await unfinished(w), 0)
  })

  test('one that is done stays done', async () => {
    await using w = await world()
    await w.past(4)
    const done = await w.finish(await w.begin())
    assert.deepEqual(await endReplay(w.tenant, done.id, w), done)
  })

  test('with its subscription', async () => {
    await using w = await world()
    await w.past(40)
    const replay = await w.begin()
    await w.replays.tick()
    await w.pool.query('update subscription set deleted_at = $1', [new Date(w.clock.now())])
    await w.dispatcher.tick()
    w.clock.advance(SECOND)
    await w.replays.tick()
    const { status, queued, deadLettered, nextStepAt } = await w.read(replay)
    assert.deepEqual([status, queued, deadLettered, nextStepAt], ['cancelled', PLACES, PLACES, null])
  })
})

/** A pool whose `nth` statement from now on fails, before it is sent or after it was carried out. */
function failing(pool: Pool, nth: number, when: 'before' | 'after'): Pool {
  let left = nth
  return {
    connect: async () => {
      const client = await pool.connect()
      return {
        query: async (...given: [string]) => {
          if (given[0] === 'rollback') return await client.query(...given)
          const fails = left-- === 0
          if (fails && when === 'before') throw new Error('the connection broke')
          const result = await client.query(...given)
          if (fails) throw new Error('the connection broke')
          return result
        },
        on: () => undefined,
        off: () => undefined,
        release: () => client.release(true),
      }
    },
  } as unknown as Pool
}

describe('a crash', () => {
  test('at any statement of any step neither loses nor doubles an event', async () => {
    await using w = await world()
    const events = await w.past(60)
    const replay = await w.begin()
    let crashes = 0
    for (let nth = 0; (await w.read(replay)).status === 'running'; nth++) {
      const broken = new Replays({
        ...w,
        pool: failing(w.pool, nth % 9, nth % 2 === 0 ? 'before' : 'after'),
        log: silentLog,
        onQueued: () => undefined,
      })
      await broken.step().catch(() => crashes++)
      await drain(w.dispatcher)
      w.clock.advance(nth % 18 === 17 ? 10 * SECOND : 0)
    }
    assert.ok(crashes > 20, `${crashes} crashes`)
    assert.deepEqual(sent(w), idsOf(events))
    const { queued, delivered: arrived, total } = await w.read(replay)
    assert.deepEqual([queued, arrived, total], [60, 60, 60])
  })

  test('of none: two replicas that step at the same time double nothing', async () => {
    await using w = await world()
    const events = await w.past(100)
    const other = new Replays({ ...w, log: silentLog, onQueued: () => undefined })
    const replay = await w.begin()
    while ((await w.read(replay)).status === 'running') {
      await Promise.all([w.replays.tick(), other.tick(), w.replays.tick(), drain(w.dispatcher)])
      await drain(w.dispatcher)
      w.clock.advance(SECOND)
    }
    assert.deepEqual(sent(w), idsOf(events))
  })
})

test('the service steps about once a second until it is stopped, and goes on after the database was away', async () => {
  await using w = await world()
  await w.past(20)
  await w.begin()
  const queued = { now: Promise.withResolvers<void>() }
  const stalled = Promise.withResolvers<void>()
  let broken = true
  const pool = { connect: async () => await (broken ? Promise.reject(new Error('away')) : w.pool.connect()) }
  const log = { info: () => undefined, error: () => stalled.resolve() }
  const service = new Replays({
    clock: w.clock,
    pool: pool as unknown as Pool,
    log: log as unknown as typeof silentLog,
    onQueued: () => queued.now.resolve(),
  })
  await service.start()
  await stalled.promise
  broken = false
  w.clock.advance(2 * SECOND)
  await queued.now.promise
  assert.equal(await unfinished(w), PLACES)
  await service.stop()
  await drain(w.dispatcher)
  w.clock.advance(10 * SECOND)
  await service.stop()
  assert.equal(await unfinished(w), 0)
})

test('whatever the history, a replay takes exactly what was counted, and what the definition says', async () => {
  await using w = await world()
  const ms = fc.integer({ min: 0, max: 12 })
  const row = fc.record({
    event: fc.integer({ min: 0, max: 2 }),
    kind: fc.constantFrom('event', 'event', 'replay', 'test'),
    state: fc.constantFrom(...BOTH),
    createdAt: ms,
    finishedAfter: fc.integer({ min: 0, max: 5 }),
  })
  const range = fc.record({
    since: fc.integer({ min: 0, max: 6 }),
    length: ms,
    states: fc.subarray([...BOTH], { minLength: 1 }),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(row, { minLength: 3, maxLength: 20 }),
      range,
      async (history, { since, length, states }) => {
        await w.pool.query('truncate delivery_history, delivery, event_inbox, replay')
        const base = w.clock.now()
        const rows = history.map((one, at) => ({ ...one, seq: at + 1, finishedAt: one.createdAt + one.finishedAfter }))
        const events = some(3)
        await arrive(w.pool, events, new Date(base))
        await w.pool.query('delete from delivery')
        for (const one of rows) await insertFinished(w, events, { one, base })
        w.clock.moveTo(base + 12)
        const bounds = { since: new Date(base + since), until: new Date(base + since + length) }
        const wish = { subscriptionId: w.subscription.id, ...bounds, states }
        const expected = modelOf(rows, { since, until: Math.min(since + length, 12), states, now: 12 })
        const { total } = await countRange(w.tenant, wish, w)
        assert.equal(total, expected.length)
        w.sink.attempts.length = 0
        const done = await w.finish(await beginReplay(w.tenant, wish, w))
        assert.deepEqual(
          sent(w),
          expected.map((event) => events[event]!.id),
        )
        assert.deepEqual([done.total, done.queued], [total, total])
      },
    ),
    { numRuns: 60, seed: 7 },
  )
})

interface Finished {
  event: number
  kind: string
  state: (typeof BOTH)[number]
  seq: number
  createdAt: number
  finishedAt: number
}

async function insertFinished(
  { pool, subscription }: World,
  events: readonly Event[],
  { one, base }: { one: Finished; base: number },
): Promise<void> {
  await pool.query(
    `insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at, finished_at)
     values ($1, $2, 'acme', $3, $4, $5, $6, $7, 1, 0, 0, $8, $9)`,
    [
      uuid7(base + one.createdAt),
      one.seq,
      subscription.id,
      events[one.event]!.id,
      one.kind,
      one.state,
      one.state === 'delivered' ? null : 'exhausted',
      new Date(base + one.createdAt),
      new Date(base + one.finishedAt),
    ],
  )
}

/** The definition, in plain words: the events that are replayed, in their order. */
function modelOf(
  rows: readonly Finished[],
  { since, until, states, now }: { since: number; until: number; states: readonly string[]; now: number },
): number[] {
  const finished = rows.filter(({ finishedAt, kind }) => finishedAt <= now && kind !== 'test')
  const inRange = (one: Finished): boolean => one.createdAt >= since && one.createdAt < until
  const arrivals = new Map<number, Finished>()
  for (const one of finished.toSorted((a, b) => a.createdAt - b.createdAt || a.seq - b.seq))
    if (one.kind === 'event' && inRange(one)) arrivals.set(one.event, one)
  return [...arrivals.values()]
    .toSorted((a, b) => a.createdAt - b.createdAt || a.seq - b.seq)
    .filter(({ event }) => {
      const all = finished.filter((one) => one.event === event && one.createdAt >= since)
      const known = all.filter((one) => one.kind === 'replay' || inRange(one))
      const newest = known.toSorted((a, b) => a.finishedAt - b.finishedAt || a.seq - b.seq).at(-1)
      return states.includes(newest!.state)
    })
    .map(({ event }) => event)
}
