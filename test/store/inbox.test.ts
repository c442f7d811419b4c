import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Pool } from '../../src/store/pool.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { anEvent, arrive } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'

let database: TestDatabase
let pool: Pool
before(async () => void ({ pool } = database = await testDatabase()))
after(async () => await database.drop())

const SUBSCRIBE = `
with made as (
  insert into subscription (id, tenant_id, name, verification_state, event_types, sink, destination_key, content_mode, ordering, timeout_ms,
    metadata, created_at, updated_at)
  select uuid7(now()), tenant, 'test', 'active', array[case n when 1 then 'loan.approved' else 'card.issued_' || n end], '{}', 'd', 'binary', 'fifo', 1000, '{}', now(), now()
  from unnest($1::text[]) tenant, generate_series(1, $2) n
  returning id, tenant_id, event_types
)
insert into subscription_pattern select tenant_id, event_types[1], id from made`

async function pagesOfABatch(): Promise<number> {
  const batch = Array.from({ length: 200 }, () => anEvent({ tenantId: 'other-1' }))
  const [plan] = await plansOf(pool, async (db) => await arrive(db, batch, new Date()))
  assert.deepEqual(plan?.sequentialScans, [])
  return plan?.buffers ?? 0
}

test('what a batch costs does not depend on how much is subscribed to, whatever the statistics say', async () => {
  const alone = await pagesOfABatch()
  await pool.query(SUBSCRIBE, [Array.from({ length: 1_000 }, (_, n) => `tenant-${n}`), 1])
  const unknown = await pagesOfABatch()
  assert.ok(unknown < 2 * alone, `${alone} pages alone, ${unknown} among a thousand tenants without statistics`)

  await pool.query('vacuum analyze subscription, subscription_pattern')
  await pool.query(SUBSCRIBE, [['other-1'], 5_000])
  await pool.query("delete from subscription_pattern where tenant_id = 'other-1' and pattern = 'loan.approved'")
  const misjudged = await pagesOfABatch()
  assert.ok(misjudged < 2 * alone, `${alone} pages alone, ${misjudged} with 5,000 patterns of the one tenant`)
})
