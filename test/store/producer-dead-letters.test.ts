// What PostgreSQL does for lists and counts of producers' dead letters, among many of them.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { readDeadLetter } from '../../src/ingest/dead-letter.ts'
import {
  countProducerDeadLetters,
  DEAD_LETTER_GROUPS,
  findProducerDeadLetter,
  listProducerDeadLetters,
  makeDeadLetterDays,
  storeDeadLetters,
  type DeadLetterFilter,
} from '../../src/store/producer-dead-letters.ts'
import { countQuarantine, QUARANTINE_GROUPS } from '../../src/store/quarantine.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'
import { header, recordWith } from '../support/records.ts'

const start = Date.parse('2026-05-14T00:00:00Z')
const HOUR = 3_600_000
const DAYS = 7
const PER_HOUR = 120

let database: TestDatabase
before(async () => {
  database = await testDatabase()
  await makeDeadLetterDays(database.pool, new Date(start), DAYS)
  for (let hour = 0; hour < DAYS * 24; hour++) await fill(hour)
  await database.pool.query('vacuum analyze producer_dead_letter')
})
after(async () => await database.drop())

/** An hour's dead letters, all of one kind but for a rare one at the beginning. */
async function fill(hour: number): Promise<void> {
  const at = start + hour * HOUR
  const found = Array.from({ length: PER_HOUR }, (_, nth) => {
    const kind = hour === 0 && nth === 0 ? 'rare' : 'usual'
    const headers = [header('x-lerian-dlq-cause-kind', kind), header('x-lerian-dlq-error-class', kind)]
    const position = { partition: 0, offset: BigInt(hour * PER_HOUR + nth) }
    const topic = `lerian.streaming.${kind}.dlq`
    const record = recordWith({ tenantid: kind, resourcetype: kind }, { topic, position, headers })
    return { id: uuid7(at + nth), source: kind, fields: readDeadLetter(record.headers), record }
  })
  assert.equal(await storeDeadLetters(database.pool, found, new Date(at)), PER_HOUR)
}

const none: DeadLetterFilter = {
  source: null,
  tenantId: null,
  causeKind: null,
  errorClass: null,
  eventType: null,
  since: null,
  until: null,
}

const filters: [string, Partial<DeadLetterFilter>][] = [
  ['no filter', {}],
  ['a source', { source: 'rare' }],
  ['a tenant', { tenantId: 'rare' }],
  ['a cause', { causeKind: 'rare' }],
  ['an error class', { errorClass: 'rare' }],
  ['an event type', { eventType: 'rare.approved' }],
  ['several', { tenantId: 'rare', causeKind: 'usual', source: 'usual' }],
  ['what is not there', { errorClass: 'none' }],
  ['an hour', { since: new Date(start + 50 * HOUR), until: new Date(start + 51 * HOUR) }],
]

/** Each of some ten partitions is asked, at three pages a descent; reading all of the table takes ten thousands. */
const FEW_BUFFERS = 250

for (const [name, filter] of filters) {
  test(`a list with ${name} reads little, and nothing from end to end`, async () => {
    const list = { ...none, ...filter, before: null, limit: 10 }
    for (const plan of await plansOf(database.pool, async (db) => await listProducerDeadLetters(db, list))) {
      assert.deepEqual(plan.sequentialScans, [], plan.text)
      assert.ok(plan.buffers < FEW_BUFFERS, `${plan.buffers} pages`)
    }
  })

  test(`counts with ${name} read nothing from end to end${name === 'no filter' ? '' : ', and only what is counted'}`, async () => {
    const counts = { ...none, ...filter, by: DEAD_LETTER_GROUPS, bucket: 'day' as const, limit: 10 }
    for (const plan of await plansOf(database.pool, async (db) => await countProducerDeadLetters(db, counts))) {
      assert.deepEqual(plan.sequentialScans, [], plan.text)
      if (name !== 'no filter') assert.ok(plan.buffers < FEW_BUFFERS, `${plan.buffers} pages`)
    }
  })
}

test('a page deep in the list costs what the first one does', async () => {
  const list = { ...none, before: uuid7(start + 2 * HOUR), limit: 10 }
  const [plan] = await plansOf(database.pool, async (db) => await listProducerDeadLetters(db, list))
  assert.ok(plan!.buffers < FEW_BUFFERS, `${plan!.buffers} pages`)
})

test('one is found in its own day, and whether one was kept before is looked up by its position', async () => {
  const { pool } = database
  const [newest] = await listProducerDeadLetters(pool, { ...none, before: null, limit: 1 })
  const { id, source, fields, record } = newest!
  const [found] = await plansOf(pool, async (db) => await findProducerDeadLetter(db, id))
  assert.ok(found!.buffers < 10, `${found!.buffers} pages`)
  const again = [{ id: uuid7(), source, fields, record }]
  const [kept] = await plansOf(pool, async (db) => await storeDeadLetters(db, again, new Date()))
  assert.deepEqual(kept!.sequentialScans, [])
  assert.ok(kept!.buffers < 100, `${kept!.buffers} pages`)
})

test('counts of the quarantine read the index that is made for them', async () => {
  for (const given of [
    {},
    { since: new Date(start), until: new Date() },
    { reason: 'not_utf8' },
    { source: 'lender', since: new Date(start) },
  ]) {
    const counts = { reason: null, source: null, since: null, until: null, by: QUARANTINE_GROUPS, ...given }
    const wanted = { ...counts, bucket: 'hour' as const, limit: 10 }
    for (const plan of await plansOf(database.pool, async (db) => await countQuarantine(db, wanted)))
      assert.deepEqual(plan.sequentialScans, [], plan.text)
  }
})
