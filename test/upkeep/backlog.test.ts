import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRegistry } from '../../src/base/metrics.ts'
import { watchBacklog } from '../../src/upkeep/backlog.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'
import { failed, scriptedSink } from '../support/scripted-sink.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { silentLog } from '../../src/base/log.ts'
import { recordWith } from '../support/records.ts'

const HOUR_MS = 3_600_000

test('what waits is shown by state with the age of the oldest, and forgotten when another replica measures', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const registry = createRegistry({ processMetrics: false })
  const { chore, forget } = watchBacklog({ registry, clock })
  const shown = async (): Promise<Record<string, number>> => {
    await chore.run(pool, new Date(clock.now()), new AbortController().signal)
    const lines = (await registry.metrics()).matchAll(/^(hub_\w+)\{state="(\w+)"\} (\S+)$/gm)
    return Object.fromEntries(
      [...lines].map(([, name = '', state, value]) => [
        `${name.replace(/hub_|_deliveries|_seconds/g, '')} ${state}`,
        Number(value),
      ]),
    )
  }
  const none = { 'backlog queued': 0, 'backlog retrying': 0, 'backlog blocked': 0, 'backlog held': 0 }
  const ages = { queued: 0, retrying: 0, blocked: 0, held: 0 }
  const all = (counts: Partial<typeof none>, old: Partial<typeof ages>, open = 0): Record<string, number> => ({
    ...none,
    ...counts,
    ...Object.fromEntries(
      Object.entries({ ...ages, ...old }).map(([state, age]) => [`backlog_oldest_age ${state}`, age]),
    ),
    'breakers open': open,
    'breakers half_open': 0,
  })
  assert.deepEqual(await shown(), all({}, {}))

  const metrics = ingestMetrics(createRegistry({ processMetrics: false }))
  const deps = { pool, clock, log: silentLog, metrics, onWoken: () => undefined }
  const { id: parked } = await insertSubscription(pool, { destinationKey: 'parked' })
  await insertSubscription(pool, { destinationKey: 'failing', retrySchedule: [0, 10 * HOUR_MS] })
  await ingest([recordWith({ id: uuid7() })], deps)
  clock.advance(60_000)
  assert.deepEqual(await shown(), all({ 'backlog queued': 2 }, { queued: 60 }))

  await pool.query("update lane set state = 'held' where subscription_id = $1", [parked])
  await drain(testDispatcher({ pool, clock, sink: scriptedSink(() => failed()), random: () => 0.9 }))
  clock.advance(60_000)
  assert.deepEqual(await shown(), all({ 'backlog retrying': 1, 'backlog held': 1 }, { retrying: 120, held: 120 }))

  await pool.query(`update destination set state = 'open', blocked_until = $1 where destination_key = 'failing'`, [
    new Date(clock.now() + HOUR_MS),
  ])
  await pool.query("update lane set state = 'blocked', due_at = $2 where subscription_id <> $1", [
    parked,
    new Date(clock.now()),
  ])
  assert.deepEqual(await shown(), all({ 'backlog blocked': 1, 'backlog held': 1 }, { blocked: 120, held: 120 }, 1))

  forget()
  assert.doesNotMatch(await registry.metrics(), /^hub_/m)
})
