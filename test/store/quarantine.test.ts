import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import * as fc from 'fast-check'
import { storeQuarantined } from '../../src/store/inbox.ts'
import type { Pool } from '../../src/store/pool.ts'
import { findQuarantined, listQuarantine, type QuarantineList } from '../../src/store/quarantine.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'

let database: TestDatabase
let pool: Pool
before(async () => void ({ pool } = database = await testDatabase()))
after(async () => await database.drop())

const first: QuarantineList = {
  before: null,
  limit: 100,
  maxBytes: 1 << 20,
  reason: null,
  source: null,
  since: null,
  until: null,
}
const bytes = fc.option(
  fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)),
  { nil: null },
)

test('whatever was in a record comes back as it was', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(bytes, bytes), { maxLength: 5 }), bytes, bytes, async (headers, key, value) => {
      const id = uuid7()
      const record = {
        topic: 'lerian.streaming.x',
        position: { partition: 1, offset: 2n ** 40n },
        timestamp: 1_700_000_000_123,
        key,
        headers,
        value,
      }
      await storeQuarantined(pool, [{ id, reason: 'not_utf8', detail: 'd', source: null, record }], new Date(0))
      assert.deepEqual((await findQuarantined(pool, id))?.record, record)
    }),
    { numRuns: 50 },
  )
})

test('a page ends at its bytes, but holds one record at least', async () => {
  const reason = 'payload_too_large'
  for (const size of [10, 600, 10, 10]) {
    const record = { topic: 't', position: null, timestamp: null, key: null, headers: [], value: Buffer.alloc(size) }
    await storeQuarantined(pool, [{ id: uuid7(), reason, detail: 'd', source: null, record }], new Date())
  }
  const sizes = async (given: Partial<QuarantineList>): Promise<[number[], boolean]> => {
    const { items, more } = await listQuarantine(pool, { ...first, reason, ...given })
    return [items.map(({ record }) => record.value?.length ?? 0), more]
  }
  const [, more] = await sizes({ maxBytes: 700 })
  assert.equal(more, false)
  assert.deepEqual((await sizes({ maxBytes: 1 }))[0].length, 1)
  assert.deepEqual((await sizes({ maxBytes: 1 }))[1], true)
  assert.equal((await sizes({ limit: 3 }))[0].length, 3)
  assert.equal((await sizes({ limit: 3 }))[1], true)
  assert.equal((await sizes({ limit: 4 }))[1], false)
})

test('no list reads the quarantine from end to end', async () => {
  for (const given of [
    {},
    { reason: 'not_utf8' },
    { reason: 'not_utf8', source: 'x' },
    { since: new Date() },
    { before: uuid7() },
  ]) {
    for (const { sequentialScans, text } of await plansOf(
      pool,
      async (db) => await listQuarantine(db, { ...first, ...given }),
    )) {
      assert.deepEqual(sequentialScans, [], text)
    }
  }
})
