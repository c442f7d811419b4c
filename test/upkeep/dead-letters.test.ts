// Retention of the producers' dead letters, by whole days.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pool } from '../../src/store/pool.ts'
import { storeDeadLetters } from '../../src/store/producer-dead-letters.ts'
import { transaction } from '../../src/store/transaction.ts'
import { readDeadLetter } from '../../src/ingest/dead-letter.ts'
import { deadLetterDaysChore, deadLetterPruneChore } from '../../src/upkeep/chores.ts'
import type { Chore } from '../../src/upkeep/upkeep.ts'
import { testDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { recordWith } from '../support/records.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const start = Date.parse('2026-05-14T22:30:00Z')

const run = async (pool: Pool, chore: Chore, at: number) =>
  await transaction(pool, async (client) => await chore.run(client, new Date(at), new AbortController().signal))

let offset = 0n
async function see(pool: Pool, at: number): Promise<void> {
  const record = recordWith({}, { topic: 'lerian.streaming.lender.dlq', position: { partition: 0, offset: offset++ } })
  const found = { id: uuid7(at), source: 'lender', fields: readDeadLetter(record.headers), record }
  assert.equal(await storeDeadLetters(pool, [found], new Date(at)), 1)
}

async function partitions(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'producer_dead_letter'::regclass order by 1`,
  )
  return rows.map(({ name }) => name.replace('producer_dead_letter_', ''))
}

const prune = (retentionMs: number, onStrays: () => void = () => assert.fail('strays')): Chore =>
  deadLetterPruneChore({ everyMs: HOUR, retentionMs, onStrays })

test('the days until the next run, and one more, are made ahead', async () => {
  await using database = await testDatabase()
  const { pool } = database
  assert.deepEqual(await run(pool, deadLetterDaysChore({ everyMs: HOUR }), start), { made: 3 })
  assert.deepEqual(await partitions(pool), ['2026_05_14', '2026_05_15', '2026_05_16', 'default'])
  assert.equal(await run(pool, deadLetterDaysChore({ everyMs: HOUR }), start), null)
  assert.deepEqual(await run(pool, deadLetterDaysChore({ everyMs: 7 * DAY }), start), { made: 6 })
  await see(pool, start + 8 * DAY)
  assert.equal((await pool.query('select from producer_dead_letter_default')).rowCount, 0)
})

test('a day is dropped when all of it is past retention, and never made again', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const days = deadLetterDaysChore({ everyMs: HOUR })
  await run(pool, days, start)
  await see(pool, start)
  await see(pool, start + 2 * HOUR)
  const midnight = Date.parse('2026-05-15T00:00:00Z')
  assert.equal(await run(pool, prune(2 * DAY), midnight + 2 * DAY - 1), null)
  assert.deepEqual(await run(pool, prune(2 * DAY), midnight + 2 * DAY), { dropped: 1 })
  await run(pool, days, midnight + HOUR)
  assert.deepEqual(await partitions(pool), ['2026_05_15', '2026_05_16', '2026_05_17', 'default'])
  assert.equal((await pool.query('select from producer_dead_letter')).rowCount, 1)
})

test('a reader that holds the table is not waited for, and nothing is dropped by halves', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await run(pool, deadLetterDaysChore({ everyMs: HOUR }), start)
  const reader = await pool.connect()
  await reader.query('begin; lock table producer_dead_letter_2026_05_15 in access share mode')
  await assert.rejects(run(pool, prune(HOUR), start + 9 * DAY), { code: '55P03' })
  assert.equal((await partitions(pool)).length, 4)
  await reader.query('rollback')
  reader.release()
  assert.deepEqual(await run(pool, prune(HOUR), start + 9 * DAY), { dropped: 3 })
})

test('those that came before their day was made move into it', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await see(pool, start)
  await run(pool, deadLetterDaysChore({ everyMs: HOUR }), start)
  assert.equal((await pool.query('select from producer_dead_letter_2026_05_14')).rowCount, 1)
  assert.equal((await pool.query('select from producer_dead_letter_default')).rowCount, 0)
})

test('those that have no day are told of, and go when all of them are past retention', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await see(pool, start - 5 * DAY)
  await see(pool, start - 4 * DAY)
  assert.deepEqual(await run(pool, deadLetterDaysChore({ everyMs: HOUR }), start), { made: 3 })
  let told = 0
  await run(
    pool,
    prune(DAY, () => told++),
    start - 3 * DAY,
  )
  assert.equal(told, 1)
  await run(pool, prune(DAY), start - 3 * DAY + 1)
  assert.equal((await pool.query('select from producer_dead_letter')).rowCount, 0)
})
