// A batch on a real database: what is stored, what is quarantined, what is matched, and what a fault does.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import type { IngestDeps } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { createPool } from '../../src/store/pool.ts'
import type { Pool } from '../../src/store/pool.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'
import { recordWith } from '../support/records.ts'

function deps(pool: Pool): IngestDeps & { woken: number } {
  const made = {
    pool,
    clock: manualClock(),
    log: silentLog,
    metrics: ingestMetrics(createRegistry({ processMetrics: false })),
    woken: 0,
    onWoken: () => void made.woken++,
  }
  return made
}

let offset = 0n

function record(
  given: Record<string, string | undefined> = {},
  value: Buffer | null = Buffer.from('{}'),
): IncomingRecord {
  const type = `studio.lerian.lender.loan_application.${given['eventtype'] ?? 'approved'}`
  return recordWith({ id: uuid7(), type, ...given }, { position: { partition: 3, offset: offset++ }, value })
}

async function rows(pool: Pool, text: string): Promise<Record<string, unknown>[]> {
  return (await pool.query(text)).rows
}

test('each record gets what its verdict says, in one go', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const ingesting = deps(pool)
  await insertSubscription(pool)
  const results = await ingest(
    [record(), record({ systemevent: 'true' }), record({ id: 'nonsense' }), record({ tenantid: undefined })],
    ingesting,
  )
  assert.deepEqual(
    results.map((result) => (result.kind === 'quarantined' ? result.reason : result.kind)),
    ['accepted', 'dropped', 'invalid_id', 'missing_tenant'],
  )
  assert.equal((await rows(pool, 'select from event_inbox')).length, 1)
  assert.equal((await rows(pool, 'select from delivery')).length, 1)
  assert.deepEqual(await rows(pool, 'select reason, source, topic, kafka_partition from quarantine order by reason'), [
    { reason: 'invalid_id', source: 'lender', topic: 'lerian.streaming.lender', kafka_partition: 3 },
    { reason: 'missing_tenant', source: 'lender', topic: 'lerian.streaming.lender', kafka_partition: 3 },
  ])
  assert.equal(ingesting.woken, 1)
})

test('a batch that comes again changes nothing, quarantine included', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await insertSubscription(pool)
  const batch = [record(), record({ id: 'nonsense' })]
  await ingest(batch, deps(pool))
  const again = await ingest(batch, deps(pool))
  assert.deepEqual(
    again.map(({ kind }) => kind),
    ['duplicate', 'quarantined'],
  )
  for (const table of ['event_inbox', 'delivery', 'quarantine']) {
    assert.equal((await rows(pool, `select from ${table}`)).length, 1, table)
  }
})

test('a duplicate within a batch is one event; the same id of another tenant is another', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const id = uuid7()
  const results = await ingest(
    [record({ id }), record({ id: id.toUpperCase() }), record({ id, tenantid: 'other' })],
    deps(pool),
  )
  assert.deepEqual(
    results.map(({ kind }) => kind),
    ['accepted', 'duplicate', 'accepted'],
  )
})

test('the arrival sequence follows the order of the batch', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const batch = Array.from({ length: 500 }, () => record())
  await ingest(batch, deps(pool))
  const stored = await rows(pool, 'select kafka_offset from event_inbox order by seq')
  assert.deepEqual(
    stored.map(({ kafka_offset }) => BigInt(kafka_offset as number)),
    batch.map(({ position }) => position?.offset),
  )
})

test('a record that the database refuses is quarantined alone, its neighbours are stored in order', async () => {
  await using database = await testDatabase()
  const { pool } = database
  await pool.query("alter table event_inbox add check (event_key <> 'loan_application.refused')")
  const batch = Array.from({ length: 20 }, (_, at) => record(at === 7 || at === 13 ? { eventtype: 'refused' } : {}))
  const results = await ingest(batch, deps(pool))
  assert.deepEqual(
    results.flatMap((result, at) => (result.kind === 'quarantined' ? [[at, result.reason]] : [])),
    [
      [7, 'storage_rejected'],
      [13, 'storage_rejected'],
    ],
  )
  const stored = await rows(pool, 'select kafka_offset from event_inbox order by seq')
  assert.equal(stored.length, 18)
  const offsets = stored.map(({ kafka_offset }) => kafka_offset as number)
  assert.deepEqual(
    offsets,
    offsets.toSorted((a, b) => a - b),
  )
})

test("a fault of the database's own is no record's fault: the batch is rejected whole and nothing is written", async () => {
  await using database = await testDatabase()
  const { pool } = database
  await pool.query(`alter database ${new URL(database.dsn).pathname.slice(1)} set default_transaction_read_only = on`)
  const readOnly = createPool({
    dsn: database.dsn,
    maxConnections: 1,
    applicationName: 'test',
    onError: () => undefined,
  })
  await assert.rejects(ingest([record(), record({ id: 'nonsense' })], deps(readOnly)), { code: '25006' })
  await readOnly.end()
  for (const table of ['event_inbox', 'quarantine']) assert.equal((await rows(pool, `select from ${table}`)).length, 0)
})

test('bodies are kept byte for byte, and none at all is not the same as an empty one', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const bodies = [null, Buffer.alloc(0), Buffer.from([0, 255, 254, 0xed, 0xa0, 0x80]), Buffer.alloc(1 << 20, 'x')]
  await ingest(
    bodies.map((body) => record({}, body)),
    deps(pool),
  )
  assert.deepEqual(
    (await rows(pool, 'select data from event_inbox order by seq')).map(({ data }) => data),
    bodies,
  )
})
