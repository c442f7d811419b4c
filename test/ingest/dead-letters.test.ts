// Producers' dead letters on a real database: whatever they hold they are kept, once, and make nothing.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import * as fc from 'fast-check'
import { createRegistry } from '../../src/base/metrics.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { keepDeadLetters } from '../../src/ingest/dead-letters.ts'
import { deadLetterMetrics } from '../../src/ingest/metrics.ts'
import { createPool, type Pool } from '../../src/store/pool.ts'
import { findProducerDeadLetter, listProducerDeadLetters } from '../../src/store/producer-dead-letters.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'
import { header, recordWith } from '../support/records.ts'

let database: TestDatabase
let pool: Pool
before(async () => void ({ pool } = database = await testDatabase()))
after(async () => await database.drop())

const clock = manualClock()
const metrics = deadLetterMetrics(createRegistry({ processMetrics: false }))
const any = { source: null, tenantId: null, causeKind: null, errorClass: null, eventType: null }
const everything = { ...any, since: null, until: null, before: null, limit: 1000 }

let topics = 0

/** Keeps `records` as partition 0 of a topic, a new one unless it is named; answers how many were new. */
async function keep(
  records: readonly Partial<IncomingRecord>[],
  source = `source-${++topics}`,
): Promise<{ source: string; kept: number }> {
  const topic = `lerian.streaming.${source}.dlq`
  const whole = records.map((record, at) =>
    recordWith({}, { topic, position: { partition: 0, offset: BigInt(at) }, ...record }),
  )
  const kept = await keepDeadLetters({ source, topic, partition: 0, records: whole }, { pool, clock, metrics })
  return { source, kept }
}

const bytes = fc.option(
  fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((array) => Buffer.from(array)),
    fc.string({ unit: 'binary', maxLength: 40 }).map((text) => Buffer.from(text, 'utf16le')),
  ),
  { nil: null },
)
const key = fc.oneof(
  bytes,
  fc
    .constantFrom('ce-tenantid', 'ce-id', 'ce-type', 'x-lerian-dlq-error-class', 'x-lerian-dlq-error-message')
    .map((text) => Buffer.from(text)),
)

test('any bytes are kept, and come back as they were', async () => {
  const record = fc.record({
    timestamp: fc.option(fc.maxSafeInteger(), { nil: null }),
    key: bytes,
    headers: fc.array(fc.tuple(key, bytes), { maxLength: 8 }),
    value: bytes,
  })
  await fc.assert(
    fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 5 }), async (records) => {
      const whole = records.map((given, at) => ({
        ...given,
        topic: '',
        position: { partition: 0, offset: BigInt(at) },
      }))
      const source = `source-${++topics}`
      const topic = `lerian.streaming.${source}.dlq`
      for (const each of whole) each.topic = topic
      const batch = { source, topic, partition: 0, records: whole }
      assert.equal(await keepDeadLetters(batch, { pool, clock, metrics }), records.length)
      const listed = await listProducerDeadLetters(pool, { ...everything, source })
      const found = await Promise.all(listed.map(async ({ id }) => await findProducerDeadLetter(pool, id)))
      for (const [at, { headers, key: recordKey, value }] of whole.entries()) {
        const back = found.at(-1 - at)?.record
        assert.deepEqual([back?.headers, back?.key, back?.value], [headers, recordKey, value])
        assert.deepEqual(back?.position, { partition: 0, offset: BigInt(at) })
      }
    }),
    { numRuns: 100 },
  )
})

test('the largest headers and texts are kept too', async () => {
  const mebibyte = Buffer.alloc(1 << 20, 'ß')
  // Random, so that an index cannot compress it: 512 characters of three bytes each.
  const wide = Array.from({ length: 600 }, (_, n) => String.fromCharCode(0x4e00 + ((n * 7919) % 20_000))).join('')
  const names = [
    'ce-tenantid',
    'ce-resourcetype',
    'ce-eventtype',
    'x-lerian-dlq-error-class',
    'x-lerian-dlq-cause-kind',
  ]
  const { kept } = await keep([
    { headers: names.map((name) => header(name, wide)) },
    { headers: names.map((name) => header(name, mebibyte)), key: mebibyte, value: mebibyte },
    { headers: Array.from({ length: 20_000 }, () => header('x-lerian-dlq-error-class', 'x')) },
  ])
  assert.equal(kept, 3)
})

test('a record that is read twice is kept once, also by two owners at one time', async () => {
  const records = Array.from({ length: 50 }, () => ({}))
  const { source } = await keep(records)
  assert.equal((await keep(records, source)).kept, 0)
  assert.equal((await keep([...records, {}], source)).kept, 1)
  const both = await Promise.all([keep(records, 'two-owners'), keep(records, 'two-owners')])
  assert.deepEqual(
    both.map(({ kept }) => kept).toSorted((a, b) => a - b),
    [0, 50],
  )
})

test('a topic that was made anew counts its offsets from the start, and its records are others', async () => {
  const { source } = await keep([{ timestamp: 1_000 }])
  assert.equal((await keep([{ timestamp: 2_000 }], source)).kept, 1)
  assert.equal((await keep([{ timestamp: null }], source)).kept, 1)
  assert.equal((await keep([{ timestamp: null }], source)).kept, 0)
})

test('what was seen together is listed in its order, the newest first', async () => {
  const { source } = await keep(Array.from({ length: 300 }, () => ({})))
  const listed = await listProducerDeadLetters(pool, { ...everything, source })
  assert.deepEqual(
    listed.map(({ record }) => Number(record.position?.offset)),
    Array.from({ length: 300 }, (_, at) => 299 - at),
  )
})

test('valid events among them are no events: nothing is stored, matched or queued', async () => {
  await insertSubscription(pool, { tenantId: 'acme' })
  const id = uuid7()
  const { headers } = recordWith({ id })
  assert.equal((await keep([{ headers }], 'lender')).kept, 1)
  for (const table of ['event_inbox', 'delivery', 'delivery_history', 'quarantine']) {
    assert.equal((await pool.query(`select from ${table}`)).rowCount, 0, table)
  }
  const { rows } = await pool.query('select wake_gen, state from lane')
  assert.deepEqual(rows, [{ wake_gen: 0, state: 'idle' }])
})

test('a fault of the database is not swallowed: the batch is asked for again, and nothing of it was written', async () => {
  const source = 'refused'
  await pool.query(`
    create function refuse() returns trigger language plpgsql as $$
    begin if new.kafka_offset = 1 then raise exception 'full' using errcode = '53100'; end if; return new; end $$;
    create trigger refuse before insert on producer_dead_letter for each row execute function refuse()`)
  await assert.rejects(keep([{}, {}, {}], source), { code: '53100' })
  await pool.query('drop trigger refuse on producer_dead_letter')
  assert.equal((await keep([{}, {}, {}], source)).kept, 3)
  const away = createPool({
    dsn: 'postgres://127.0.0.1:1/x',
    maxConnections: 1,
    applicationName: 't',
    onError: () => {},
  })
  const batch = { source, topic: 't', partition: 0, records: [recordWith()] }
  await assert.rejects(keepDeadLetters(batch, { pool: away, clock, metrics }), { code: 'ECONNREFUSED' })
  await away.end()
})
