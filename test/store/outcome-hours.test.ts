// The counted hours against the attempts and deliveries themselves, whatever happened: crashes, late outcomes, the same outcome twice.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { LATENCY_BOUNDS_MS } from '../../src/store/outcome-hours.ts'
import { flushOutcomes } from '../../src/store/outcomes.ts'
import type { LaneOutcome } from '../../src/store/outcomes.ts'
import type { Pool } from '../../src/store/pool.ts'
import { manualClock, type ManualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription, uuid7 } from '../support/fixtures.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'
import type { Outcome } from '../../src/sinks/sink.ts'

const CLASSES = [...LATENCY_BOUNDS_MS.map((bound) => `ms_${bound}`), 'ms_more']
const TRUE_CLASSES = [...LATENCY_BOUNDS_MS, 2 ** 31 - 1].map((bound, at) => {
  const low = LATENCY_BOUNDS_MS[at - 1] ?? -1
  return `(count(*) filter (where duration_ms > ${low} and duration_ms <= ${bound}))::integer`
})

/** Hours that count nothing are as good as none: what was taken for unknown may have been the only thing in one. */
const COUNTED = `
select subscription_id as subscription, began_at as hour, delivered, failed, outcome_unknown, deliveries_delivered, deliveries_dead_lettered,
  array[${CLASSES.join()}] as classes, last_delivered_at as good, last_failed_at as bad
from outcome_hour where delivered + failed + outcome_unknown + deliveries_delivered + deliveries_dead_lettered > 0 order by 1, 2`

const TRUE_COUNTS = `
with happened as (
  select subscription_id, started_at as at, outcome, duration_ms, null as state from attempt
  union all select subscription_id, finished_at, null, null, state from delivery_history
)
select subscription_id as subscription, date_trunc('hour', at, 'UTC') as hour,
  (count(*) filter (where outcome = 'delivered'))::integer as delivered, (count(*) filter (where outcome = 'failed'))::integer as failed,
  (count(*) filter (where outcome = 'outcome_unknown'))::integer as outcome_unknown,
  (count(*) filter (where state = 'delivered'))::integer as deliveries_delivered,
  (count(*) filter (where state = 'dead_lettered'))::integer as deliveries_dead_lettered,
  array[${TRUE_CLASSES.join()}] as classes,
  max(at + duration_ms * interval '1 ms') filter (where outcome = 'delivered') as good,
  max(at + duration_ms * interval '1 ms') filter (where outcome = 'failed') as bad
from happened group by subscription_id, date_trunc('hour', at, 'UTC') order by 1, 2`

async function assertCounted(pool: Pool): Promise<void> {
  const [counted, truth] = [await pool.query(COUNTED), await pool.query(TRUE_COUNTS)]
  assert.deepEqual(counted.rows, truth.rows)
}

type Step =
  | { kind: 'arrive'; events: number }
  | { kind: 'work'; outcome: Outcome; took: number }
  | { kind: 'crash' }
  | { kind: 'late'; outcome: Outcome }
  | { kind: 'pass'; ms: number }

const outcome = fc.constantFrom<Outcome>(delivered, failed())
const step = fc.oneof(
  fc.record({ kind: fc.constant('arrive' as const), events: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ kind: fc.constant('work' as const), outcome, took: fc.integer({ min: 0, max: 20_000 }) }),
  fc.constant<Step>({ kind: 'crash' }),
  fc.record({ kind: fc.constant('late' as const), outcome }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 5 * 3_600_000 }) }),
)

async function play(pool: Pool, clock: ManualClock, steps: readonly Step[]): Promise<void> {
  const common = { pool, clock, options: { poisonThreshold: 2, workers: 1 } }
  const hung = Promise.withResolvers<Outcome>()
  for (const taken of steps) {
    switch (taken.kind) {
      case 'arrive':
        await arrive(
          pool,
          Array.from({ length: taken.events }, () => anEvent()),
          new Date(clock.now()),
        )
        break
      case 'work': {
        const sink = scriptedSink(() => (clock.advance(taken.took), taken.outcome))
        await drain(testDispatcher({ ...common, sink }))
        break
      }
      case 'crash': {
        const lost = testDispatcher({ ...common, sink: scriptedSink(() => hung.promise) })
        await lost.claim()
        clock.advance(60_000)
        await lost.tick()
        break
      }
      case 'late': {
        // Its lease runs out, and its outcome comes after all.
        const gate = Promise.withResolvers<Outcome>()
        const slow = testDispatcher({ ...common, sink: scriptedSink(() => gate.promise) })
        await slow.claim()
        clock.advance(60_000)
        await slow.tick()
        gate.resolve(taken.outcome)
        await slow.settled()
        break
      }
      case 'pass':
        clock.advance(taken.ms)
        await testDispatcher({ ...common, sink: scriptedSink() }).tick()
    }
  }
}

test('what is counted by the hour is what the attempts and deliveries say', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  await insertSubscription(pool, { retrySchedule: [0, 600_000] })
  await insertSubscription(pool, { retrySchedule: [0, 0], ordering: 'parallel' })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 10 }), async (steps) => {
      await play(pool, clock, steps)
      await assertCounted(pool)
    }),
    { numRuns: 25 },
  )
  const { rows } = await pool.query('select outcome, count(*)::integer as n from attempt group by 1 order by 1')
  assert.equal(rows.length, 3, JSON.stringify(rows))
})

test('an outcome that is written twice, because the answer to the first was lost, counts once', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const now = Date.parse('2026-05-14T13:59:59.900Z')
  const { id: subscriptionId } = await insertSubscription(pool)
  await pool.query("update lane set state = 'leased', lease_until = now(), lease_token = 7")
  for (const known of ['failed', 'outcome_unknown'] as const) {
    const attempt: LaneOutcome['attempts'][number] = {
      attemptId: uuid7(now),
      deliveryId: uuid7(now),
      tenantId: 'acme',
      subscriptionId,
      token: 7,
      number: 1,
      startedAt: now,
      durationMs: known === 'failed' ? 250 : null,
      outcome: known,
      status: null,
      errorClass: known === 'failed' ? 'timeout' : null,
      errorDetail: null,
      response: Buffer.alloc(0),
      fate: 'retry',
      reason: null,
      failures: 1,
      dueAt: now,
      aside: false,
    }
    const streak = { cleared: false, firstFailureAt: null, lastFailureAt: null }
    const lease = {
      subscriptionId,
      token: 7,
      wakeGen: 0,
      version: 1,
      inAir: [],
      underWay: false,
      leaseMs: 1,
      notBefore: null,
      streak,
    }
    for (let time = 0; time < 2; time++)
      await flushOutcomes(pool, [{ attempts: [attempt], step: lease }], new Date(now))
  }
  await assertCounted(pool)
})
