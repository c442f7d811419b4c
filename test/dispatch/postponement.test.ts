// What the hub itself cannot make is postponed: no attempt, no step of the schedule, no word on the receiver, however long it lasts.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { pino } from 'pino'
import { createRegistry } from '../../src/base/metrics.ts'
import type { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { dispatchMetrics } from '../../src/dispatch/metrics.ts'
import { SecretError } from '../../src/secrets/secrets.ts'
import { wakeLanes } from '../../src/store/lanes.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription, type SubscriptionFixture } from '../support/fixtures.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'

const clock = manualClock()
const HOUR = 3_600_000
let database: TestDatabase
before(async () => (database = await testDatabase()))
after(() => database.drop())
beforeEach(() => database.pool.query('truncate subscription cascade; truncate lane, delivery, destination, attempt'))

const missingKey = (): Promise<never> => Promise.reject(new SecretError('unknown_key', 'the key is not in the ring'))

function setUp(open: () => Promise<null> = missingKey) {
  const sink = scriptedSink()
  const state = { open }
  const lines: Record<string, unknown>[] = []
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) })
  const metrics = dispatchMetrics(createRegistry({ processMetrics: false }))
  const { pool } = database
  const dispatcher = testDispatcher({
    pool,
    clock,
    sink,
    log,
    metrics,
    destinationOf: async (lane) => {
      await state.open()
      const signingKeys = [{ key: Buffer.alloc(32), expiresAt: null }]
      const { subscriptionId, tenantId, timeoutMs } = lane
      const to = { kind: 'webhook' as const, url: 'https://example.com/', headers: {} }
      return {
        sink,
        destination: { subscriptionId, tenantId, sink: to, contentMode: 'binary', timeoutMs, signingKeys },
      }
    },
  })
  return { sink, state, lines, metrics, dispatcher }
}

async function queue(events: number, given: Partial<SubscriptionFixture> = {}): Promise<SubscriptionFixture> {
  const subscription = await insertSubscription(database.pool, given)
  const all = Array.from({ length: events }, () => anEvent({ tenantId: subscription.tenantId }))
  await arrive(database.pool, all, new Date(clock.now()))
  return subscription
}

/** Time goes by in steps of ten seconds. */
async function wait(dispatcher: Dispatcher, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10_000) {
    clock.advance(10_000)
    await dispatcher.tick()
    await drain(dispatcher)
  }
}

async function one<T>(text: string): Promise<T> {
  return (await database.pool.query(text)).rows[0] as T
}

const untouched = `select (select count(*)::integer from attempt) as attempts, (select count(*)::integer from delivery) as queued,
  (select coalesce(max(attempts + failures + crashes), 0) from delivery) as counted, (select state from destination) as breaker,
  (select max(failures) from destination) as failures, (select first_failure_at from lane) as streak,
  (select enabled from subscription) as enabled, (select count(*)::integer from delivery_history) as finished`

for (const ordering of ['fifo', 'strict', 'parallel'] as const) {
  test(`a ${ordering} lane whose secret does not open waits for days, unharmed, and then delivers all in its order`, async () => {
    const { sink, state, lines, metrics, dispatcher } = setUp()
    const { id } = await queue(3, { ordering, retrySchedule: [0] })
    await drain(dispatcher)
    await wait(dispatcher, HOUR / 10)
    clock.advance(200 * HOUR) // longer than what switches a failing subscription off
    await wait(dispatcher, 60_000)
    assert.equal(sink.attempts.length, 0)
    assert.deepEqual(await one(untouched), {
      attempts: 0,
      queued: 3,
      counted: 0,
      breaker: 'closed',
      failures: 0,
      streak: null,
      enabled: true,
      finished: 0,
    })
    const [told, ...more] = lines.filter(({ msg }) => msg === 'deliveries are postponed')
    assert.deepEqual([told?.['subscription_id'], told?.['reason'], more], [id, 'unknown_key', []])
    const counted = (await metrics.postponed.get()).values
    assert.deepEqual(counted[0]?.labels, { reason: 'unknown_key' })
    // Every 15 to 45 seconds, for each attempt that would have been made.
    const tries = (counted[0]?.value ?? 0) / (ordering === 'parallel' ? 3 : 1)
    assert.ok(tries >= 8 && tries <= 30, `${tries} tries`)

    state.open = async () => null
    await wait(dispatcher, 60_000)
    const order = sink.attempts.map(({ event, number }) => [event.id, number])
    assert.deepEqual(
      order,
      (await database.pool.query<{ ce_id: string }>('select ce_id from delivery_history order by seq')).rows.map(
        ({ ce_id }) => [ce_id, 1],
      ),
    )
    assert.equal(order.length, 3)
    assert.equal(lines.filter(({ msg }) => msg === 'deliveries go on').length, 1)
    await database.pool.query('truncate delivery_history')
  })
}

test('what arrives meanwhile waits too; an edit is tried at once', async () => {
  const { sink, state, dispatcher } = setUp()
  const { id } = await queue(1)
  await drain(dispatcher)
  const waiting = await one<{ state: string; due: number }>(
    'select state, extract(epoch from due_at)::float8 * 1000 as due from lane',
  )
  assert.equal(waiting.state, 'blocked')
  const wait_ms = waiting.due - clock.now()
  assert.ok(wait_ms >= 15_000 && wait_ms <= 45_001, `${wait_ms} ms`)
  await arrive(database.pool, [anEvent()], new Date(clock.now()))
  await drain(dispatcher)
  assert.equal((await one<{ state: string }>('select state from lane')).state, 'blocked')
  state.open = async () => null
  await database.pool.query('update subscription set version = version + 1; update lane set version = version + 1')
  await wakeLanes(database.pool, [id])
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 2)
})

test('an edit while it is found out is tried at once', async () => {
  let edits = 0
  const { sink, dispatcher } = setUp(async () => {
    if (edits++ > 0) return null
    await database.pool.query('update subscription set version = version + 1; update lane set version = version + 1')
    await wakeLanes(database.pool, [id])
    return await missingKey()
  })
  const { id } = await queue(1)
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 1)
})

test('a lane that has nothing to do when it is found out does not wait', async () => {
  const { dispatcher } = setUp(async () => {
    await database.pool.query('delete from delivery')
    return await missingKey()
  })
  await queue(1)
  await drain(dispatcher)
  assert.equal((await one<{ state: string }>('select state from lane')).state, 'idle')
})

test('a parallel lane whose secret is lost in the middle hands over what has ended, and waits with the rest', async () => {
  let opened = 0
  const { sink, dispatcher } = setUp(async () => (++opened > 2 ? await missingKey() : null))
  await queue(5, { ordering: 'parallel' })
  await drain(dispatcher)
  assert.equal(sink.attempts.length, 2)
  assert.deepEqual(await one('select count(*)::integer as count, max(attempts) as attempts from delivery'), {
    count: 3,
    attempts: 0,
  })
  assert.equal((await one<{ state: string }>('select state from lane')).state, 'blocked')
})

test('a half-open breaker whose probe was postponed lets another one through', async () => {
  const { sink, state, dispatcher } = setUp()
  const { tenantId, destinationKey } = await queue(1)
  await database.pool.query("update destination set state = 'open', failures = 5, opened = 1, blocked_until = $1", [
    new Date(clock.now()),
  ])
  await drain(dispatcher)
  const breaker = await one<{ state: string; blocked: number }>(
    'select state, extract(epoch from blocked_until)::float8 * 1000 as blocked from destination',
  )
  assert.equal(breaker.state, 'half_open')
  assert.ok(breaker.blocked <= clock.now(), `${tenantId} ${destinationKey}`)
  state.open = async () => null
  await wait(dispatcher, 60_000)
  assert.equal(sink.attempts.length, 1)
  assert.equal((await one<{ state: string }>('select state from destination')).state, 'closed')
})

test('a proxy of the hub that cannot be used is no attempt either: all waits, unharmed, and is delivered when it is back', async () => {
  const { sink, lines, metrics, dispatcher } = setUp(async () => null)
  await database.pool.query('truncate delivery_history')
  sink.script = () => failed({ errorClass: 'proxy', status: null })
  await queue(3, { retrySchedule: [0] })
  await drain(dispatcher)
  clock.advance(200 * HOUR)
  await wait(dispatcher, 120_000)
  const { attempts, queued, counted, breaker, streak, enabled, finished } =
    await one<Record<string, unknown>>(untouched)
  assert.deepEqual([attempts, queued, counted, breaker, streak, enabled, finished], [0, 3, 0, 'closed', null, true, 0])
  assert.equal(lines.filter(({ msg }) => msg === 'deliveries are postponed').length, 1)
  assert.deepEqual((await metrics.postponed.get()).values[0]?.labels, { reason: 'proxy' })

  sink.script = () => delivered
  await wait(dispatcher, 60_000)
  assert.equal((await one<{ finished: number }>(untouched)).finished, 3)
  await database.pool.query('truncate delivery_history')
})

test('a tunnel that does not come about uses up a step and moves the breaker, and never the streak', async () => {
  const { sink, dispatcher } = setUp(async () => null)
  sink.script = () => failed({ errorClass: 'tunnel', status: null })
  await queue(6, { retrySchedule: [0] })
  await drain(dispatcher)
  const { attempts, breaker, streak, enabled } = await one<Record<string, unknown>>(untouched)
  assert.deepEqual([attempts, breaker, streak, enabled], [5, 'open', null, true])
  await database.pool.query('truncate delivery_history')
})
