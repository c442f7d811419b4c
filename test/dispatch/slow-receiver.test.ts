// A receiver that takes 29 of its 30 seconds: whatever the settings, nobody else may take its job, nor its neighbours, meanwhile.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import * as fc from 'fast-check'
import type { Ordering } from '../../src/event/subscription.ts'
import type { Pool } from '../../src/store/pool.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { delivered, scriptedSink } from '../support/scripted-sink.ts'

const ANSWERS_AFTER_MS = 29_000

test('no lease and batch settings make a second attempt of a job that is in the air, nor of its neighbours', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const settings = fc.record({
    workers: fc.integer({ min: 1, max: 4 }),
    claimBatch: fc.integer({ min: 1, max: 20 }),
    ordering: fc.constantFrom<Ordering>('fifo', 'strict', 'parallel'),
    lanes: fc.integer({ min: 1, max: 3 }),
    events: fc.integer({ min: 1, max: 4 }),
  })
  await fc.assert(
    fc.asyncProperty(settings, async ({ workers, claimBatch, ordering, lanes, events }) => {
      await pool.query(
        'truncate event_inbox, delivery, delivery_history, attempt, subscription cascade; truncate lane, destination',
      )
      const clock = manualClock()
      const inAir = new Map<string, number>()
      const sink = scriptedSink(async ({ destination, event }) => {
        const job = `${destination.subscriptionId} ${event.id}`
        inAir.set(job, (inAir.get(job) ?? 0) + 1)
        assert.equal(inAir.get(job), 1, 'a second attempt of one job is in the air')
        await clock.sleep(ANSWERS_AFTER_MS)
        inAir.set(job, 0)
        return delivered
      })
      for (let lane = 0; lane < lanes; lane++) await insertSubscription(pool, { ordering })
      await arrive(
        pool,
        Array.from({ length: events }, () => anEvent()),
        new Date(clock.now()),
      )
      const two = [1, 2].map(() => testDispatcher({ pool, clock, sink, options: { workers, claimBatch } }))
      const finished = async (): Promise<number> => (await pool.query('select from delivery_history')).rowCount ?? 0
      for (let rounds = 0; (await finished()) < lanes * events; rounds++) {
        assert.ok(rounds < 1_000, 'it never ends')
        for (const dispatcher of two) {
          await dispatcher.tick()
          await dispatcher.claim()
        }
        await written(pool)
        clock.advance(2_000)
      }
      for (const dispatcher of two) await dispatcher.settled()
      const { rows } = await pool.query(
        'select sum(attempts)::int as attempts, sum(crashes)::int as crashes from delivery_history',
      )
      assert.deepEqual(rows, [{ attempts: lanes * events, crashes: 0 }])
      assert.equal(sink.attempts.length, lanes * events)
    }),
    { numRuns: 15, seed: 29 },
  )
})

/** Virtual time must not pass while a real write is under way, however slow the machine is: leases would run out in between. */
async function written(pool: Pool): Promise<void> {
  for (let quiet = 0; quiet < 5; quiet++) {
    await turnOfTheLoop()
    if (pool.idleCount < pool.totalCount || pool.waitingCount > 0) quiet = 0
  }
}
