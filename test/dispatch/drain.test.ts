// How a dispatcher stops: what has begun ends, what has not is given back as it was, and nobody is blamed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as immediate } from 'node:timers/promises'
import type { Pool } from '../../src/store/pool.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { delivered, hanging, scriptedSink } from '../support/scripted-sink.ts'

async function rows(pool: Pool, text: string): Promise<Record<string, unknown>[]> {
  return (await pool.query(text)).rows
}

/** A pool whose statements of that name wait until the gate opens. */
function gated(pool: Pool, name: string) {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>()
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const query = async (statement: { name?: string; text: string; values: unknown[] }): Promise<unknown> => {
    if (statement.name === name) {
      reach()
      await opened
    }
    return await pool.query(statement)
  }
  const own = new Proxy(pool, { get: (of, key) => (key === 'query' ? query : Reflect.get(of, key)) })
  return { pool: own, open, reached }
}

test('what was claimed in the moment of the stop is given back without an attempt', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  for (const ordering of ['fifo', 'strict', 'parallel'] as const) await insertSubscription(pool, { ordering })
  await arrive(pool, [anEvent(), anEvent()], new Date(clock.now()))
  const sink = scriptedSink()
  const slow = gated(pool, 'claim_lanes')
  const dispatcher = testDispatcher({ pool: slow.pool, clock, sink })
  await dispatcher.start()
  await slow.reached
  const stopped = dispatcher.stop(new AbortController().signal)
  slow.open()
  await stopped
  assert.equal(sink.attempts.length, 0)
  assert.deepEqual(await rows(pool, 'select distinct state, in_air, solo from lane'), [
    { state: 'ready', in_air: [], solo: false },
  ])
  assert.deepEqual(await rows(pool, 'select distinct attempts, failures, crashes from delivery'), [
    { attempts: 0, failures: 0, crashes: 0 },
  ])
  assert.deepEqual(await rows(pool, 'select id from attempt'), [])
})

test('an attempt in the air ends, its outcome is written, and the rest of its lane is given back', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  await insertSubscription(pool)
  await arrive(pool, [anEvent(), anEvent(), anEvent()], new Date(clock.now()))
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>()
  const sink = scriptedSink(async () => (await answered, delivered))
  const dispatcher = testDispatcher({ pool, clock, sink })
  await dispatcher.claim()
  const stopped = dispatcher.stop(new AbortController().signal)
  await immediate()
  answer()
  await stopped
  assert.equal(sink.attempts.length, 1)
  assert.deepEqual(await rows(pool, 'select state from delivery_history'), [{ state: 'delivered' }])
  assert.deepEqual(await rows(pool, 'select state, in_air from lane'), [{ state: 'ready', in_air: [] }])
})

test('what the deadline breaks off is recorded as unknown, uses no step, and neither adds to the blame nor takes it away', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  await insertSubscription(pool, { ordering: 'strict' })
  await arrive(pool, [anEvent(), anEvent()], new Date(clock.now()))
  await pool.query('update delivery set crashes = 3, attempts = 3 where seq = (select min(seq) from delivery)')
  await pool.query('update lane set solo = true')
  const dispatcher = testDispatcher({ pool, clock, sink: scriptedSink(hanging) })
  await dispatcher.claim()
  await dispatcher.stop(AbortSignal.abort())
  assert.deepEqual(await rows(pool, 'select outcome, number from attempt'), [{ outcome: 'outcome_unknown', number: 4 }])
  assert.deepEqual(await rows(pool, 'select attempts, failures, crashes from delivery order by seq'), [
    { attempts: 4, failures: 0, crashes: 3 },
    { attempts: 0, failures: 0, crashes: 0 },
  ])
  assert.deepEqual(await rows(pool, 'select state, solo from lane'), [{ state: 'ready', solo: true }])

  const sink = scriptedSink()
  const next = testDispatcher({ pool, clock, sink })
  await next.claim()
  await next.settled()
  assert.equal(sink.attempts.length, 1, 'the next replica takes it at once, and still alone')
  assert.deepEqual(await rows(pool, 'select solo from lane'), [{ solo: false }])
})

test('a probe that was broken off is given back with its lane: the next replica probes at once', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  await pool.query("update destination set state = 'open', failures = 5, opened = 1, blocked_until = $1", [
    new Date(clock.now()),
  ])
  const first = testDispatcher({ pool, clock, sink: scriptedSink(hanging) })
  await first.claim()
  assert.deepEqual(await rows(pool, 'select state from destination'), [{ state: 'half_open' }])
  await first.stop(AbortSignal.abort())

  const sink = scriptedSink()
  const next = testDispatcher({ pool, clock, sink })
  await next.claim()
  await next.settled()
  assert.equal(sink.attempts.length, 1)
  assert.deepEqual(await rows(pool, 'select state from destination'), [{ state: 'closed' }])
})

test('a database that hangs is let go a second after the deadline', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  await insertSubscription(pool)
  await arrive(pool, [anEvent()], new Date(clock.now()))
  const hung = gated(pool, 'flush_outcomes')
  const dispatcher = testDispatcher({ pool: hung.pool, clock, sink: scriptedSink() })
  await dispatcher.claim()
  await hung.reached
  const deadline = new AbortController()
  let stopped = false
  const stopping = dispatcher.stop(deadline.signal).then(() => (stopped = true))
  deadline.abort()
  for (let n = 0; n < 20; n++) await immediate()
  clock.advance(999)
  for (let n = 0; n < 20; n++) await immediate()
  assert.equal(stopped, false)
  clock.advance(1)
  await stopping
  hung.open()
  await dispatcher.settled()
})
