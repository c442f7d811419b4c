// What only happens when two things happen at once: each of these was found by the simulator (test/simulation) and is told here in
// the fewest steps.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as immediate } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import { wakeLanes } from '../../src/store/lanes.ts'
import type { Database, Pool } from '../../src/store/pool.ts'
import { openStreaks } from '../../src/store/streaks.ts'
import { manualClock } from '../support/clock.ts'
import type { ManualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { delivered, failed, hanging, scriptedSink } from '../support/scripted-sink.ts'

const HOUR = 3_600_000

async function rows(pool: Pool, text: string): Promise<Record<string, unknown>[]> {
  return (await pool.query(text)).rows
}

/** Runs `work` while the lane is locked, and lets it go on when the lane has gone from leased to idle. */
async function whileReleased(pool: Pool, work: (db: Database) => Promise<unknown>): Promise<void> {
  const holder = await pool.connect()
  await holder.query("update lane set state = 'leased', lease_until = now(), lease_token = 1")
  await holder.query('begin')
  await holder.query("update lane set state = 'idle', lease_until = null")
  const working = work(pool)
  const waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  while ((await pool.query(waits)).rowCount === 0);
  await holder.query('commit')
  holder.release()
  await working
}

test('an arrival that waits for a lane which is just being released wakes it', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await insertSubscription(pool)
  await whileReleased(pool, (db) => arrive(db, [anEvent()], new Date()))
  assert.deepEqual(await rows(pool, 'select state, lease_until, wake_gen from lane'), [
    { state: 'ready', lease_until: null, wake_gen: 1 },
  ])
})

test('a wake-up that waits for a lane which is just being released makes it ready', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const { id } = await insertSubscription(pool)
  await whileReleased(pool, (db) => wakeLanes(db, [id]))
  assert.deepEqual(await rows(pool, 'select state, lease_until, wake_gen from lane'), [
    { state: 'ready', lease_until: null, wake_gen: 1 },
  ])
})

test('a claim that only sheds or holds lanes has found something: there may be more behind them', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink, options: { workers: 1, claimBatch: 1 } })
  const off = await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await pool.query('update subscription set enabled = false where id = $1', [off.id])
  const broken = await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await pool.query("update destination set state = 'open', blocked_until = $1 where destination_key = $2", [
    new Date(clock.now() + HOUR),
    broken.destinationKey,
  ])
  await insertSubscription(pool, { tenantId: 'other' })
  await arrive(pool, [anEvent({ tenantId: 'other' })], new Date(clock.now()))
  assert.equal(await dispatcher.claim(), 1)
  assert.equal(await dispatcher.claim(), 1)
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 1)
})

test('a success in the same flush as a failure of the same destination clears its breaker', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const outcomes = [failed(), delivered]
  const dispatcher = testDispatcher({ pool, clock, sink: scriptedSink(() => outcomes.shift()!) })
  await insertSubscription(pool, { destinationKey: 'shared' })
  await insertSubscription(pool, { destinationKey: 'shared' })
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await dispatcher.claim()
  await dispatcher.settled()
  assert.deepEqual(await rows(pool, 'select failures from destination'), [{ failures: 0 }])
})

test("a success clears the breaker, also where only other processes saw the destination's failures", async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const gate = Promise.withResolvers<void>()
  const good = testDispatcher({ pool, clock, sink: scriptedSink(() => gate.promise.then(() => delivered)) })
  const bad = testDispatcher({ pool, clock, sink: scriptedSink(() => failed()) })
  await insertSubscription(pool, { destinationKey: 'shared', eventTypes: ['loan.*'] })
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await good.claim()
  await insertSubscription(pool, { destinationKey: 'shared', eventTypes: ['card.*'] })
  await arrive(pool, [anEvent({ resourceType: 'card' })], new Date(clock.now()))
  await drain(bad)
  assert.deepEqual(await rows(pool, 'select failures from destination'), [{ failures: 1 }])
  gate.resolve()
  await good.settled()
  assert.deepEqual(await rows(pool, 'select failures from destination'), [{ failures: 0 }])
})

test('a process that took its own lane anew after a long pause goes on under the new lease only', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const gate = Promise.withResolvers<void>()
  const sink = scriptedSink(() => gate.promise.then(() => delivered))
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool)
  const [first, second] = [anEvent(), anEvent()]
  await arrive(pool, [first, second], new Date(clock.now()))
  await dispatcher.claim()
  clock.advance(46_000)
  await dispatcher.tick()
  await dispatcher.claim()
  gate.resolve()
  await dispatcher.settled()
  await drain(dispatcher)
  assert.deepEqual(
    sink.attempts.map(({ event }) => event.id),
    [first.id, first.id, second.id],
  )
})

test('a claim whose answer comes too late for its lease gives the lane back: nothing was in the air, nobody is blamed', async () => {
  await using database = await testDatabase()
  const { pool } = database
  for (const ordering of ['fifo', 'parallel'] as const) {
    const clock = manualClock()
    const sink = scriptedSink()
    let isSlow = true
    const slowPool = {
      connect: () => pool.connect(),
      query: async (statement: { name: string; text: string }) => {
        const answer = await pool.query(statement)
        if (isSlow && statement.name === 'claim_lanes') clock.advance(20_000)
        return answer
      },
    } as unknown as Pool
    const dispatcher = testDispatcher({ pool: slowPool, clock, sink })
    await insertSubscription(pool, { ordering, tenantId: ordering })
    await arrive(pool, [anEvent({ tenantId: ordering })], new Date(clock.now()))
    await dispatcher.claim()
    await dispatcher.settled()
    assert.equal(sink.attempts.length, 0)
    const lane = `select state, in_air from lane where tenant_id = '${ordering}'`
    assert.deepEqual(await rows(pool, lane), [{ state: 'ready', in_air: [] }])
    isSlow = false
    await drain(dispatcher)
    assert.equal(sink.attempts[0]?.number, 1)
  }
})

test('streaks that cannot be due do not crowd out those that are', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const { id } = await insertSubscription(pool)
  const limits = { began: new Date(20 * HOUR), spreadMs: 12 * HOUR }
  const streak = 'update lane set first_failure_at = $1, last_failure_at = $2 where subscription_id = $3'
  await pool.query(streak, [new Date(HOUR), new Date(13 * HOUR - 1), id])
  assert.deepEqual(await openStreaks(pool, limits), [])
  await pool.query(streak, [new Date(HOUR), new Date(13 * HOUR), id])
  assert.equal((await openStreaks(pool, limits)).length, 1)
})

test('an attempt that is broken off says nothing about its destination: a troubled breaker stays as it is', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink(hanging)
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool)
  await pool.query('update destination set failures = 4')
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await dispatcher.claim()
  await dispatcher.stop(AbortSignal.abort())
  assert.deepEqual(await rows(pool, 'select state, failures from destination'), [{ state: 'closed', failures: 4 }])
})

/** Short pauses are over at once; whoever sleeps longer has to be woken. */
function impatientClock(): ManualClock {
  const clock = manualClock()
  return { ...clock, sleep: (ms, signal) => (ms <= 20 ? immediate() : clock.sleep(ms, signal)) }
}

/** Runs the loops until `count` attempts have begun; the sink answers one by one. */
async function runUntil(pool: Pool, count: number): Promise<void> {
  const done = Promise.withResolvers<void>()
  const sink = scriptedSink(() => {
    if (sink.attempts.length === count) done.resolve()
    return immediate().then(() => delivered)
  })
  const options = { workers: 4, claimBatch: 1 }
  const dispatcher = testDispatcher({ pool, clock: impatientClock(), sink, options })
  await dispatcher.start()
  await done.promise
  await dispatcher.stop(new AbortController().signal)
}

test('lanes that run alone after a crash follow each other without a pause', async () => {
  await using database = await testDatabase()
  const { pool } = database
  for (let lane = 0; lane < 4; lane++) await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(manualClock().now()))
  await pool.query('update lane set solo = true')
  await runUntil(pool, 4)
})

test('a tenant that had all its slots gets the next one as soon as one is free', async () => {
  await using database = await testDatabase()
  const { pool } = database
  for (let lane = 0; lane < 6; lane++) await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(manualClock().now()))
  await runUntil(pool, 6)
})

test('failures whose commit was answered by a cut connection count once in the breaker', async () => {
  await using database = await testDatabase()
  const clock = manualClock()
  const pool = losingOneAnswer(database.pool)
  const dispatcher = testDispatcher({ pool, clock, sink: scriptedSink(() => failed()) })
  await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await dispatcher.claim()
  const settling = dispatcher.settled()
  for (const pending = Symbol('pending'); (await Promise.race([settling, immediate(pending)])) === pending;)
    clock.advance(1)
  assert.deepEqual(await rows(pool, 'select failures, state from destination'), [{ failures: 1, state: 'closed' }])
  assert.deepEqual(await rows(pool, 'select count(*)::integer as n from attempt'), [{ n: 1 }])
})

/** The same database, whose first commit happens, and its answer is lost. */
function losingOneAnswer(pool: Pool): Pool {
  let left = 1
  const connect = async (): Promise<PoolClient> => {
    const client = await pool.connect()
    return new Proxy(client, {
      get: (_, name) => {
        const value: unknown = Reflect.get(client, name)
        if (typeof value !== 'function') return value
        return async (...given: unknown[]) => {
          const answer: unknown = await Reflect.apply(value, client, given)
          if (name === 'query' && given[0] === 'commit' && left-- > 0)
            throw new Error('Connection terminated unexpectedly')
          return answer
        }
      },
    })
  }
  return new Proxy(pool, { get: (_, name) => (name === 'connect' ? connect : bound(pool, name)) })
}

function bound(pool: Pool, name: string | symbol): unknown {
  const value: unknown = Reflect.get(pool, name)
  return typeof value === 'function' ? value.bind(pool) : value
}
