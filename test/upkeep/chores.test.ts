// What is removed row by row goes all at once, however much has piled up.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { expiredSecretsChore, idempotencyChore } from '../../src/upkeep/chores.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { insertSubscription } from '../support/fixtures.ts'

const HOUR = 3_600_000
const NOW = Date.parse('2026-05-14T13:00:00Z')
const MANY = 25_001
const over = new Date(NOW - HOUR)
const later = new Date(NOW + HOUR)
const going = (): AbortSignal => new AbortController().signal

let database: TestDatabase
before(async () => void (database = await testDatabase()))
after(async () => await database.drop())

const countOf = async (table: string): Promise<number> =>
  Number((await database.pool.query<{ n: string }>(`select count(*) as n from ${table}`)).rows[0]?.n)

test('answers and claims of idempotency keys that are over go in one run, and none that is not', async () => {
  const { pool } = database
  const chore = idempotencyChore({ everyMs: 1 })
  for (const [count, at] of [
    [MANY, over],
    [3, later],
  ] as const) {
    const answers = `insert into idempotent_answer (id, tenant_id, sealed, expires_at)
      select gen_random_uuid(), 'acme', '{}', $2 from generate_series(1, $1)`
    const claims = `insert into idempotency_claim (id, token, locked_until)
      select gen_random_uuid(), gen_random_uuid(), $2 from generate_series(1, $1)`
    for (const insert of [answers, claims]) await pool.query(insert, [count, at])
  }
  assert.deepEqual(await chore.run(pool, new Date(NOW), going()), { removed: 2 * MANY })
  assert.deepEqual([await countOf('idempotent_answer'), await countOf('idempotency_claim')], [3, 3])
  assert.equal(await chore.run(pool, new Date(NOW), going()), null)
})

test('old signing secrets go in one run; a hub that stops does not wait for it', async () => {
  const { pool } = database
  const { id, tenantId } = await insertSubscription(pool, {})
  await pool.query('delete from subscription_secret')
  await pool.query(
    `insert into subscription_secret (id, tenant_id, subscription_id, field, sealed, created_at, expires_at)
    select gen_random_uuid(), $1, $2, 'signing_secret', '{}', $3, $3 from generate_series(1, $4)`,
    [tenantId, id, over, MANY],
  )
  const chore = expiredSecretsChore()
  assert.equal(await chore.run(pool, new Date(NOW), AbortSignal.abort()), null)
  assert.deepEqual(await chore.run(pool, new Date(NOW), going()), { removed: MANY })
  assert.equal(await countOf('subscription_secret'), 0)
})
