// A transaction ends one way or the other, whatever happens to its connection.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { transaction } from '../../src/store/transaction.ts'
import { testDatabase } from '../support/database.ts'

test('what it throws is rolled back', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const broken = transaction(pool, async (client) => {
    await client.query("insert into tenant_turn values ('acme')")
    throw new Error('no')
  })
  await assert.rejects(broken, /^Error: no$/)
  assert.equal((await pool.query('select from tenant_turn')).rowCount, 0)
})

test('a connection that is cut between two statements fails the transaction, and nothing else; the pool goes on', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const broken = transaction(pool, async (client) => {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    await pool.query('select pg_terminate_backend($1)', [rows[0]?.pid])
    // Its end arrives while no statement runs, when nobody waits for an answer that could carry the error.
    while (client.listenerCount('error') > 0 && !(await isGone(pool, rows[0]?.pid))) await delay(5)
    await delay(20)
    await client.query('select 1')
  })
  await assert.rejects(broken)
  assert.deepEqual((await pool.query('select 1 as one')).rows, [{ one: 1 }])
})

async function isGone(
  pool: { query: (text: string, values: unknown[]) => Promise<{ rowCount: number | null }> },
  pid: unknown,
) {
  return (await pool.query('select from pg_stat_activity where pid = $1', [pid])).rowCount === 0
}
