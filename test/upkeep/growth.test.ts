// Weeks are made ahead and dropped again beside traffic, never one that an unfinished delivery needs; and the guard names the culprit.
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { Troubles } from '../../src/base/troubles.ts'
import { xminHolders, type XminHolder } from '../../src/store/growth.ts'
import type { Pool } from '../../src/store/pool.ts'
import {
  findingsOf,
  growthMetrics,
  healthHoursChore,
  guardChore,
  partitionChore,
  retentionChore,
} from '../../src/upkeep/growth.ts'
import type { Growth } from '../../src/upkeep/growth.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription, uuid7 } from '../support/fixtures.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'

const DAY = 24 * 3_600_000
const WEEK = 7 * DAY
/** A Wednesday. */
const start = Date.parse('2026-03-04T12:00:00Z')

const ahead = partitionChore({ everyMs: DAY, weeksAhead: 2 })
const drop = retentionChore({ everyMs: DAY, horizonMs: WEEK })

async function run(pool: Pool, chore: typeof ahead, at: number): Promise<Record<string, unknown> | null> {
  const client = await pool.connect()
  try {
    return await chore.run(client, new Date(at), new AbortController().signal)
  } finally {
    client.release()
  }
}

async function weeks(pool: Pool, parent: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>('select name from weeks_of($1) order by 1', [parent])
  return rows.map(({ name }) => name.replace(`${parent}_`, ''))
}

const count = async (pool: Pool, table: string): Promise<number> =>
  (await pool.query<{ n: number }>(`select count(*) as n from ${table}`)).rows[0]?.n ?? 0

test('the last week, this one and the coming ones are made, once, with vacuum settings of their own', async () => {
  await using database = await testDatabase()
  const { pool } = database
  assert.deepEqual(await run(pool, ahead, start), { made: 20 })
  assert.equal(await run(pool, ahead, start), null)
  for (const table of ['event_inbox', 'quarantine', 'delivery_history', 'attempt', 'outcome_hour']) {
    assert.deepEqual(await weeks(pool, table), ['2026w09', '2026w10', '2026w11', '2026w12'], table)
  }
  const { rows } = await pool.query(
    "select from pg_class where relname like '%2026w%' and relkind = 'r' and reloptions is null",
  )
  assert.equal(rows.length, 0)
  const open = await pool.query(
    "select from pg_class where relname like '%2026w%' and relkind = 'r' and not relrowsecurity",
  )
  assert.equal(open.rows.length, 0, 'none of them stands outside the wall between tenants')
  const indexes = `select count(*) as n from pg_indexes where tablename = `
  assert.deepEqual(
    (await pool.query(`${indexes} 'delivery_history_2026w10'`)).rows,
    (await pool.query(`${indexes} 'delivery_history_default'`)).rows,
  )
})

test('across the turn of a year weeks neither overlap nor leave a gap', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await run(pool, partitionChore({ everyMs: DAY, weeksAhead: 8 }), Date.parse('2026-12-10T00:00:00Z'))
  const { rows } = await pool.query<{ gaps: number }>(
    `select count(*) as gaps from (select lower, lag(upper) over (order by week) as before from weeks_of('attempt')) w where lower <> before`,
  )
  assert.equal(rows[0]?.gaps, 0)
  assert.ok((await weeks(pool, 'attempt')).includes('2026w53'))
})

test('weeks are made while others read and write the table', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await run(pool, partitionChore({ everyMs: DAY, weeksAhead: 1 }), start)
  const other = await pool.connect()
  await other.query('begin')
  await arrive(other, [anEvent({ id: uuid7(start) })], new Date(start))
  await other.query('select from attempt_2026w10')
  assert.deepEqual(await run(pool, ahead, start), { made: 5 })
  await other.query('rollback')
  other.release()
})

test('rows that came before their week was made move into it', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await insertSubscription(pool)
  const [early, odd] = [anEvent({ id: uuid7(start) }), anEvent({ id: uuid7(start - 500 * WEEK) })]
  await arrive(pool, [early, odd], new Date(start))
  assert.equal(await count(pool, 'event_inbox_default'), 2)
  await run(pool, ahead, start)
  assert.equal(await count(pool, 'event_inbox_default'), 1)
  assert.equal(await count(pool, 'event_inbox_2026w10'), 1)
  assert.equal((await arrive(pool, [early, odd], new Date(start))).stored.length, 0, 'both are known still')
})

describe('retention', () => {
  it('drops a week when all of it is past the horizon, and what has no week by its age', async () => {
    await using database = await testDatabase()
    const { pool } = database
    await run(pool, ahead, start)
    const monday = Date.parse('2026-03-09T00:00:00Z')
    await arrive(pool, [anEvent({ id: uuid7(start - 500 * WEEK) })], new Date(start))
    assert.equal(await run(pool, drop, monday - 1), null)
    assert.deepEqual(await run(pool, drop, monday), { dropped: 4, needed: 0, strays: 0, replays: 0 })
    assert.deepEqual(await weeks(pool, 'event_inbox'), ['2026w10', '2026w11', '2026w12'])
    assert.deepEqual(await run(pool, drop, monday + WEEK), { dropped: 4, needed: 0, strays: 1, replays: 0 })
    assert.equal(await count(pool, 'event_inbox'), 0)
  })

  it('of the counted hours is its own: they go when no health looks back on them', async () => {
    await using database = await testDatabase()
    const { pool } = database
    await run(pool, ahead, start)
    await run(pool, drop, start + 50 * WEEK)
    assert.equal((await weeks(pool, 'outcome_hour')).length, 4)
    const hours = healthHoursChore({ everyMs: DAY, windowMs: WEEK })
    const monday = Date.parse('2026-03-09T00:00:00Z')
    assert.deepEqual(await run(pool, hours, monday), { dropped: 1, needed: 0, strays: 0 })
    assert.equal(await run(pool, hours, monday), null)
    assert.deepEqual(await weeks(pool, 'outcome_hour'), ['2026w10', '2026w11', '2026w12'])
  })

  it('keeps every week that an unfinished delivery needs, and drops it when that has finished', async () => {
    await using database = await testDatabase()
    const { pool } = database
    const clock = manualClock(start)
    await run(pool, partitionChore({ everyMs: DAY, weeksAhead: 12 }), start)
    await insertSubscription(pool, { retrySchedule: Array(12).fill(DAY) })
    // Older than its delivery, which is two weeks older than its first attempt.
    await arrive(pool, [anEvent({ id: uuid7(start - WEEK) })], new Date(start))
    const sink = scriptedSink(() => failed())
    const dispatcher = testDispatcher({ pool, clock, sink })
    clock.advance(2 * WEEK)
    await drain(dispatcher)
    assert.equal(await count(pool, 'attempt_2026w12'), 1)
    clock.advance(7 * WEEK)
    const left = await run(pool, drop, clock.now())
    assert.equal(left?.['needed'], 3)
    assert.deepEqual((await weeks(pool, 'event_inbox'))[0], '2026w09')
    assert.deepEqual((await weeks(pool, 'delivery_history'))[0], '2026w10')
    assert.deepEqual((await weeks(pool, 'attempt'))[0], '2026w12')

    sink.script = () => delivered
    clock.advance(DAY)
    await dispatcher.tick()
    await drain(dispatcher)
    assert.equal(await count(pool, 'delivery_history_2026w10'), 1, 'it found its event, and its place')
    const done = await run(pool, drop, clock.now())
    assert.deepEqual([done?.['dropped'], done?.['needed']], [3, 0])
  })

  it('keeps an event without a week for as long as its delivery is unfinished', async () => {
    await using database = await testDatabase()
    const { pool } = database
    await insertSubscription(pool)
    await arrive(pool, [anEvent({ id: uuid7(start - 500 * WEEK) })], new Date(start))
    assert.equal(await run(pool, drop, start + 10 * WEEK), null)
    assert.equal(await count(pool, 'event_inbox_default'), 1)
  })

  it('waits for nobody who holds the table, loses none of what it has done, and goes on the next time', async () => {
    await using database = await testDatabase()
    const { pool } = database
    await run(pool, ahead, start)
    const reader = await pool.connect()
    await reader.query('begin; lock table delivery_history_2026w10 in access share mode')
    await assert.rejects(run(pool, drop, start + 2 * WEEK), { code: '55P03' })
    assert.deepEqual(await weeks(pool, 'event_inbox'), ['2026w11', '2026w12'])
    assert.deepEqual(await weeks(pool, 'delivery_history'), ['2026w10', '2026w11', '2026w12'])
    await reader.query('rollback')
    reader.release()
    await run(pool, drop, start + 2 * WEEK)
    assert.deepEqual(await weeks(pool, 'delivery_history'), ['2026w11', '2026w12'])
  })

  it('does not hold up writers while it waits for a reader longer than half a second', async () => {
    await using database = await testDatabase()
    const { pool } = database
    await run(pool, ahead, start)
    const reader = await pool.connect()
    await reader.query('begin; lock table event_inbox_2026w09 in access share mode')
    const dropping = assert.rejects(run(pool, drop, start + WEEK), { code: '55P03' })
    await arrive(pool, [anEvent({ id: uuid7(start) })], new Date(start))
    await dropping
    await reader.query('rollback')
    reader.release()
    assert.equal(await count(pool, 'event_inbox'), 1)
  })
})

describe('the guard', () => {
  const healthy: Growth = {
    holders: [{ culprit: 'the session 1', seconds: 30, transactions: 100 }],
    tables: [{ table: 'lane', liveRows: 1000, deadRows: 40_000, bytes: 1 << 20 }],
    partitions: [{ table: 'attempt', partitions: 12, isAhead: true, defaultRows: 0 }],
  }
  const options = { horizonMs: 4 * WEEK, weeksAhead: 4 }

  it('finds nothing where nothing is', () => {
    assert.deepEqual([...findingsOf(healthy, options)], [])
  })

  const [holder] = healthy.holders
  const [table] = healthy.tables
  const [partition] = healthy.partitions
  const bad: [string, Partial<Growth>, string, RegExp][] = [
    [
      'an old transaction',
      { holders: [{ ...holder!, seconds: 600 }] },
      'vacuum and the pull cursor are held back',
      /session 1 for 600 s/,
    ],
    [
      'an old slot',
      { holders: [{ culprit: 'the replication slot x (nobody reads it)', seconds: null, transactions: 1_000_000 }] },
      'vacuum and the pull cursor are held back',
      /slot x .*, 1000000 transactions ago/,
    ],
    ['dead rows', { tables: [{ ...table!, deadRows: 50_000 }] }, 'vacuum of lane does not keep up', /50000 dead/],
    ['bloat', { tables: [{ ...table!, bytes: 64 << 20 }] }, 'lane is bloated', /64 MiB for 1000 rows/],
    [
      'many weeks',
      { partitions: [{ ...partition!, partitions: 17 }] },
      'attempt has unusually many partitions',
      /17.*16/,
    ],
    [
      'no next week',
      { partitions: [{ ...partition!, isAhead: false }] },
      'attempt has no partition for next week',
      /./,
    ],
    [
      'strays',
      { partitions: [{ ...partition!, defaultRows: 3 }] },
      'rows of attempt lie in no week of their own',
      /3:/,
    ],
  ]
  for (const [what, part, subject, reason] of bad) {
    it(`finds ${what}`, () => {
      const found = findingsOf({ ...healthy, ...part }, options)
      assert.deepEqual([...found.keys()], [subject])
      assert.match(found.get(subject) ?? '', reason)
    })
  }

  it('names a transaction that is left open, once, and says when it is over', async () => {
    await using database = await testDatabase()
    const { pool } = database
    const clock = manualClock(start)
    const troubles = new Troubles(silentLog, clock)
    const registry = createRegistry({ processMetrics: false })
    const guard = guardChore({ ...options, troubles, metrics: growthMetrics(registry) })
    await run(pool, ahead, start)
    const other = await pool.connect()
    await other.query("set application_name = 'a forgotten console'; begin; select pg_current_xact_id()")
    await run(pool, guard, start)
    assert.equal(troubles.find('vacuum and the pull cursor are held back'), null, 'it is young')
    const old = findingsOf({ ...healthy, holders: await ageing(pool) }, options)
    assert.match(
      [...old.values()].join(),
      /the session \d+ of user \w+ \(a forgotten console, idle in transaction\) for 700 s/,
    )
    await other.query('rollback')
    other.release()
    await arrive(pool, [anEvent({ id: uuid7(start - 99 * WEEK) })], new Date(start))
    await run(pool, guard, start)
    const strays = 'rows of event_inbox lie in no week of their own'
    assert.match(troubles.find(strays)?.message ?? '', /^1:/)
    assert.match(await registry.metrics(), /hub_default_partition_rows\{table="event_inbox"\} 1/)
    await pool.query('delete from event_inbox')
    await run(pool, guard, start)
    assert.equal(troubles.find(strays), null)
  })
})

/** As they are, but ten minutes older. */
async function ageing(pool: Pool): Promise<XminHolder[]> {
  return (await xminHolders(pool)).map((found) => ({ ...found, seconds: 700 }))
}
