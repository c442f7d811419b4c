// The engine on a real database, step by step: what a claim takes, what an outcome does to its delivery and its lane.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { delivered, failed, hanging, scriptedSink } from '../support/scripted-sink.ts'
import type { Pool } from '../../src/store/pool.ts'

const HOUR = 3_600_000

async function rows(pool: Pool, text: string): Promise<Record<string, unknown>[]> {
  return (await pool.query(text)).rows
}

test('an event that arrives is delivered once, recorded, and leaves the lane idle', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool)
  const event = anEvent({ data: Buffer.from([0, 255, 1]) })
  await arrive(pool, [event], new Date(clock.now()))
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 1)
  assert.deepEqual(sink.attempts[0]?.event, event)
  assert.equal(sink.attempts[0]?.number, 1)
  assert.deepEqual(await rows(pool, 'select state, attempts, failures, last_status from delivery_history'), [
    { state: 'delivered', attempts: 1, failures: 0, last_status: 200 },
  ])
  assert.deepEqual(await rows(pool, 'select id, outcome, number, response from attempt'), [
    { id: sink.attempts[0]?.attemptId, outcome: 'delivered', number: 1, response: Buffer.from('ok') },
  ])
  assert.deepEqual(await rows(pool, 'select state from lane'), [{ state: 'idle' }])
  assert.equal((await rows(pool, 'select from delivery')).length, 0)
})

test('a lane keeps arrival order, also over many turns', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool)
  const events = Array.from({ length: 100 }, () => anEvent())
  for (let at = 0; at < 100; at += 25) await arrive(pool, events.slice(at, at + 25), new Date(clock.now()))
  await drain(dispatcher)
  assert.deepEqual(
    sink.attempts.map(({ event }) => event.id),
    events.map(({ id }) => id),
  )
})

test('a failed delivery of a fifo lane steps aside, and is tried over the whole curve until it is dead-lettered', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink(({ event }) => (event.resourceType === 'bad' ? failed() : delivered))
  const dispatcher = testDispatcher({ pool, clock, sink, random: () => 1 - Number.EPSILON })
  await insertSubscription(pool)
  const bad = anEvent({ resourceType: 'bad' })
  await arrive(pool, [bad, anEvent(), anEvent()], new Date(clock.now()))
  await drain(dispatcher)
  assert.deepEqual(
    sink.attempts.map(({ event }) => event.resourceType),
    ['bad', 'loan', 'loan'],
  )
  const started = clock.now()
  const times: number[] = []
  for (let step = 0; step < 10; step++) {
    const [lane] = await rows(pool, 'select state, due_at from lane')
    if (lane?.['state'] !== 'waiting') break
    clock.moveTo((lane['due_at'] as Date).getTime())
    await dispatcher.tick()
    await drain(dispatcher)
    times.push(clock.now() - started)
  }
  assert.equal(times.length, 7)
  assert.equal(times.at(-1), 99_305_000) // 27 h 35 min 5 s
  assert.deepEqual(
    await rows(pool, "select state, reason, attempts, failures from delivery_history where state <> 'delivered'"),
    [{ state: 'dead_lettered', reason: 'exhausted', attempts: 8, failures: 8 }],
  )
  assert.deepEqual(
    sink.attempts.filter(({ event }) => event.id === bad.id).map(({ number }) => number),
    [1, 2, 3, 4, 5, 6, 7, 8],
  )
  assert.deepEqual(await rows(pool, 'select state from lane'), [{ state: 'idle' }])
})

test('a failed head of a strict lane blocks it until it is delivered', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  let broken = true
  const sink = scriptedSink(() => (broken ? failed() : delivered))
  const dispatcher = testDispatcher({ pool, clock, sink, random: () => 0.5 })
  await insertSubscription(pool, { ordering: 'strict' })
  const [first, second, third] = [anEvent(), anEvent(), anEvent()]
  await arrive(pool, [first, second], new Date(clock.now()))
  await drain(dispatcher)
  await arrive(pool, [third], new Date(clock.now()))
  await drain(dispatcher)
  assert.deepEqual(await rows(pool, 'select state from lane'), [{ state: 'blocked' }])
  assert.equal(sink.attempts.length, 1)
  broken = false
  clock.advance(5_000)
  await dispatcher.tick()
  await drain(dispatcher)
  assert.deepEqual(
    sink.attempts.map(({ event }) => event.id),
    [first.id, first.id, second.id, third.id],
  )
})

test('a parallel lane has many in the air', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const gate = Promise.withResolvers<void>()
  const sink = scriptedSink(async () => {
    await gate.promise
    return delivered
  })
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool, { ordering: 'parallel' })
  await arrive(
    pool,
    Array.from({ length: 10 }, () => anEvent()),
    new Date(clock.now()),
  )
  await dispatcher.claim()
  assert.deepEqual(await rows(pool, 'select cardinality(in_air) as in_air from lane'), [{ in_air: 10 }])
  gate.resolve()
  await dispatcher.settled()
  assert.equal(sink.attempts.length, 10)
  assert.deepEqual(await rows(pool, 'select state, in_air from lane'), [{ state: 'idle', in_air: [] }])
})

test('five failures in a row open the breaker: the rest is shed without an attempt, one probe goes, a success closes it', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  let broken = true
  const sink = scriptedSink(() => (broken ? failed() : delivered))
  const dispatcher = testDispatcher({ pool, clock, sink, random: () => 1 - Number.EPSILON })
  const destinationKey = 'shared'
  await insertSubscription(pool, { destinationKey, retrySchedule: [0, HOUR, HOUR] })
  await insertSubscription(pool, { destinationKey, retrySchedule: [0, HOUR, HOUR] })
  await arrive(
    pool,
    Array.from({ length: 20 }, () => anEvent()),
    new Date(clock.now()),
  )
  await drain(dispatcher)
  const opened = sink.attempts.length
  assert.ok(opened >= 5 && opened <= 6, `${opened} attempts: five in a row, and one that was in the air`)
  assert.deepEqual(await rows(pool, 'select state, opened from destination'), [{ state: 'open', opened: 1 }])
  assert.deepEqual(await rows(pool, 'select distinct state from lane'), [{ state: 'blocked' }])
  clock.advance(40_000)
  await dispatcher.tick()
  await drain(dispatcher)
  assert.equal(sink.attempts.length, opened + 1, 'one probe')
  assert.deepEqual(await rows(pool, 'select state, opened from destination'), [{ state: 'open', opened: 2 }])
  broken = false
  clock.advance(80_000)
  await dispatcher.tick()
  await drain(dispatcher)
  assert.deepEqual(await rows(pool, 'select state, failures from destination'), [{ state: 'closed', failures: 0 }])
  clock.advance(HOUR)
  await dispatcher.tick()
  await drain(dispatcher)
  assert.deepEqual(
    await rows(pool, 'select state, count(*)::int as n, max(failures) as failures from delivery_history group by 1'),
    [{ state: 'delivered', n: 40, failures: 1 }],
  )
})

test('a lease that runs out blames the one in the air; its late outcome is logged and moves nothing', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const gate = Promise.withResolvers<void>()
  const sink = scriptedSink(async () => {
    await gate.promise
    return delivered
  })
  const paused = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool)
  await arrive(pool, [anEvent(), anEvent()], new Date(clock.now()))
  await paused.claim()
  clock.advance(46_000)
  const second = scriptedSink(() => failed())
  const other = testDispatcher({ pool, clock, sink: second })
  await other.tick()
  assert.deepEqual(await rows(pool, 'select attempts, crashes from delivery order by seq'), [
    { attempts: 1, crashes: 1 },
    { attempts: 0, crashes: 0 },
  ])
  assert.deepEqual(await rows(pool, 'select outcome, number from attempt'), [{ outcome: 'outcome_unknown', number: 1 }])
  assert.deepEqual(await rows(pool, 'select state, solo from lane'), [{ state: 'ready', solo: true }])
  await other.claim()
  await other.settled()
  gate.resolve()
  await paused.settled()
  assert.equal(sink.attempts.length, 1, 'the lost turn went no further')
  assert.deepEqual(await rows(pool, 'select outcome, number from attempt order by number'), [
    { outcome: 'delivered', number: 1 },
    { outcome: 'failed', number: 2 },
  ])
  assert.deepEqual(await rows(pool, 'select attempts, failures, crashes from delivery order by seq'), [
    { attempts: 2, failures: 1, crashes: 0 },
    { attempts: 0, failures: 0, crashes: 0 },
  ])
})

test('five crashes in a row poison the delivery, and only that one', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  await insertSubscription(pool)
  await arrive(pool, [anEvent(), anEvent()], new Date(clock.now()))
  for (let crash = 1; crash <= 5; crash++) {
    const dying = testDispatcher({ pool, clock, sink: scriptedSink(() => new Promise(() => undefined)) })
    assert.equal(await dying.claim(), 1, `claim ${crash}`)
    clock.advance(46_000)
    await testDispatcher({ pool, clock, sink: scriptedSink() }).tick()
  }
  assert.deepEqual(await rows(pool, 'select state, reason, attempts, crashes from delivery_history'), [
    { state: 'dead_lettered', reason: 'poisoned', attempts: 5, crashes: 5 },
  ])
  assert.deepEqual(await rows(pool, 'select attempts, crashes from delivery'), [{ attempts: 0, crashes: 0 }])
  assert.equal((await rows(pool, "select from attempt where outcome = 'outcome_unknown'")).length, 5)
})

test('a disabled or unverified subscription gets nothing: what is queued is held', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink })
  const { id } = await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await pool.query('update subscription set enabled = false where id = $1', [id])
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 0)
  assert.deepEqual(await rows(pool, 'select state from lane'), [{ state: 'held' }])
})

test('turns go round the tenants: one with many subscriptions gets no more than one with one', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink, options: { workers: 1, claimBatch: 1 } })
  for (let n = 0; n < 50; n++) await insertSubscription(pool, { tenantId: 'big' })
  await insertSubscription(pool, { tenantId: 'small' })
  await arrive(
    pool,
    Array.from({ length: 3 }, () => anEvent({ tenantId: 'big' })),
    new Date(clock.now()),
  )
  await arrive(
    pool,
    Array.from({ length: 3 }, () => anEvent({ tenantId: 'small' })),
    new Date(clock.now()),
  )
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 153)
  const places = sink.attempts.flatMap(({ event }, place) => (event.tenantId === 'small' ? place : []))
  assert.ok(Math.max(...places) <= 6, `the small tenant was served at ${places.join()}`)
})

test('a parallel lane takes what arrives while one of its attempts is slow', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const gate = Promise.withResolvers<void>()
  const slow = anEvent({ resourceType: 'slow' })
  const sink = scriptedSink(async ({ event }) => {
    if (event.id === slow.id) await gate.promise
    return delivered
  })
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool, { ordering: 'parallel' })
  await arrive(pool, [slow], new Date(clock.now()))
  await dispatcher.claim()
  await arrive(pool, [anEvent(), anEvent()], new Date(clock.now()))
  await dispatcher.claim()
  while ((await rows(pool, "select from delivery_history where state = 'delivered'")).length < 2) {
    await dispatcher.claim()
  }
  assert.deepEqual(await rows(pool, 'select state, cardinality(in_air) as in_air from lane'), [
    { state: 'leased', in_air: 1 },
  ])
  gate.resolve()
  await dispatcher.settled()
  assert.equal(sink.attempts.length, 3)
  assert.equal((await rows(pool, 'select from delivery')).length, 0)
})

test("a deleted subscription's queue is cancelled, and nothing more is sent", async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink()
  const dispatcher = testDispatcher({ pool, clock, sink })
  const { id } = await insertSubscription(pool)
  await arrive(pool, [anEvent(), anEvent()], new Date(clock.now()))
  await pool.query('update subscription set deleted_at = $2, version = version + 1 where id = $1', [
    id,
    new Date(clock.now()),
  ])
  await pool.query('update lane set version = version + 1 where subscription_id = $1', [id])
  await drain(dispatcher)
  await dispatcher.tick()
  assert.equal(sink.attempts.length, 0)
  assert.deepEqual(await rows(pool, 'select state, reason, count(*)::int as n from delivery_history group by 1, 2'), [
    { state: 'dead_lettered', reason: 'cancelled', n: 2 },
  ])
  assert.deepEqual(await rows(pool, 'select drained_at from subscription'), [{ drained_at: null }])
  clock.advance(10 * 60_000)
  await dispatcher.tick()
  assert.deepEqual(await rows(pool, 'select drained_at from subscription'), [{ drained_at: new Date(clock.now()) }])
})

test('a streak that is sustained and spread switches the subscription off, and never its verification', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink(() => failed())
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool, { retrySchedule: [0] })
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await drain(dispatcher)
  clock.advance(12 * HOUR)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await drain(dispatcher)
  clock.advance(108 * HOUR - 1)
  await dispatcher.tick()
  assert.deepEqual(await rows(pool, 'select enabled from subscription'), [{ enabled: true }])
  clock.advance(1)
  await dispatcher.tick()
  assert.deepEqual(
    await rows(
      pool,
      'select enabled, verification_state, disabled_at, s.version = l.version as agree from subscription s, lane l',
    ),
    [{ enabled: false, verification_state: 'active', disabled_at: new Date(clock.now()), agree: true }],
  )
})

test('an attempt that is broken off at the deadline of a stop uses no step, keeps its place, and its lane is given back', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink(hanging)
  const dispatcher = testDispatcher({ pool, clock, sink })
  await insertSubscription(pool)
  const [first, second] = [anEvent(), anEvent()]
  await arrive(pool, [first, second], new Date(clock.now()))
  await dispatcher.claim()
  await dispatcher.stop(AbortSignal.abort())
  assert.deepEqual(await rows(pool, 'select state, solo, first_failure_at from lane'), [
    { state: 'ready', solo: false, first_failure_at: null },
  ])
  assert.deepEqual(await rows(pool, 'select outcome, number from attempt'), [{ outcome: 'outcome_unknown', number: 1 }])
  const next = scriptedSink()
  await drain(testDispatcher({ pool, clock, sink: next }))
  assert.deepEqual(
    next.attempts.map(({ event, number }) => [event.id, number]),
    [
      [first.id, 2],
      [second.id, 1],
    ],
  )
})
