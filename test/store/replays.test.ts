import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { findUnfinished } from '../../src/store/deliveries.ts'
import { makePartitions } from '../../src/store/partitions.ts'
import type { Pool } from '../../src/store/pool.ts'
import {
  cancelReplay,
  countReplayable,
  countRunning,
  insertReplay,
  listReplays,
  nextEvents,
  statesOf,
  takeReplay,
  type Replay,
} from '../../src/store/replays.ts'
import type { TenantDatabase } from '../../src/store/tenant.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { insertSubscription } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'
import { tenantDatabase } from '../support/tenant.ts'

const NOW = Date.parse('2026-05-14T13:00:00Z')
const DAY = 86_400_000
const LONG = 20_000

let database: TestDatabase
let pool: Pool
let tenant: TenantDatabase
let replay: Replay
before(async () => {
  database = await testDatabase()
  pool = database.pool
  tenant = tenantDatabase(pool, 'acme')
  for (let week = 0; week < 6; week++) await makePartitions(pool, new Date(NOW - week * 7 * DAY), 0)
  const { id } = await insertSubscription(pool)
  await pool.query(
    `insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, attempts, failures, crashes, created_at, finished_at)
     select uuid7(at), n, 'acme', $1, uuid7(at), 'event', 'delivered', 1, 0, 0, at, at
     from generate_series(1, $2::integer) n, lateral (select $3::timestamptz - n * interval '2 minutes' as at) t`,
    [id, LONG, new Date(NOW)],
  )
  await pool.query(
    `insert into replay (id, tenant_id, subscription_id, since, until, states, status, all_queued, total, cursor_at, created_at, updated_at, finished_at)
     select uuid7($2), 'acme', $1, $2, $2, '{delivered}', 'done', true, 0, $2, $2, $2, $2 from generate_series(1, $3::integer)`,
    [id, new Date(NOW - DAY), LONG],
  )
  await pool.query('vacuum analyze')
  const range = {
    tenantId: 'acme',
    subscriptionId: id,
    since: new Date(NOW - 20 * DAY),
    until: new Date(NOW),
    states: ['delivered'] as const,
    createdAt: new Date(NOW),
  }
  replay = await insertReplay(tenant, { ...range, total: await countReplayable(tenant, range) })
})
after(async () => await database.drop())

const costs = async (
  bound: number,
  work: (db: TenantDatabase) => Promise<unknown>,
  as: string | null = 'acme',
): Promise<void> => {
  for (const { sequentialScans, buffers, text } of await plansOf(pool, work, as)) {
    assert.deepEqual(sequentialScans, [], text)
    assert.ok(buffers <= bound, `${buffers} pages: ${text}`)
  }
}

test('a long history and many replays that have ended cost a step nothing', async () => {
  const { subscriptionId, id } = replay
  assert.equal(replay.total, (20 * DAY) / 120_000)
  await costs(10, async (db) => await takeReplay(db, new Date(NOW)), null)
  await costs(100, async (db) => await statesOf(db, replay.outstanding), null)
  await costs(10, async (db) => await cancelReplay(db, { id, now: new Date(NOW) }))
  await costs(40, async (db) => await findUnfinished(db, { subscriptionId, eventId: id }))
  const middle = { ...replay, cursor: { at: new Date(NOW - 10 * DAY), seq: 0 } }
  await costs(500, async (db) => await nextEvents(db, middle, 5), null)
})

test('lists and limits read the replays of their subscription alone, and a page of them', async () => {
  const { subscriptionId } = replay
  await costs(20, async (db) => await listReplays(db, { subscriptionId, before: null, limit: 10 }))
  await costs(10, async (db) => await countRunning(db, subscriptionId))
})

test('a count reads its range, and not the history around it', async () => {
  const since = new Date(NOW - 10 * DAY)
  const range = { ...replay, since, until: new Date(since.getTime() + 3_600_000) }
  assert.equal(await countReplayable(tenant, range), 30)
  await costs(200, async (db) => await countReplayable(db, range))
})
