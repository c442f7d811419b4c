// Six writers whose transactions stay open for random times, commit out of order or roll back; readers with pages of random sizes. Each
// reader gets every event that was committed, once, and all in one order. And what a read costs, whatever lies beside.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Pool } from '../../src/store/pool.ts'
import {
  alignInbox,
  BEGINNING,
  findArrivals,
  inboxHorizon,
  isInboxAhead,
  pullEvents,
  type Position,
} from '../../src/store/pull.ts'
import { tenantStore } from '../../src/store/tenant.ts'
import { transaction } from '../../src/store/transaction.ts'
import { testDatabase } from '../support/database.ts'
import { anEvent, arrive, uuid7 } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'
import { seededRandom } from '../support/random.ts'
import { readable } from '../support/readable.ts'
import { tenantDatabase } from '../support/tenant.ts'

const WRITERS = 6
const now = new Date()
const everything = { origin: null, eventTypes: null }

class RollBack extends Error {}

/** Writes batches in transactions that last for some round trips; gives the ids of those that were committed. */
async function write(pool: Pool, seed: number, transactions: number): Promise<string[]> {
  const random = seededRandom(seed)
  const committed: string[] = []
  for (let n = 0; n < transactions; n++) {
    const ids: string[] = []
    const work = transaction(pool, async (db) => {
      for (let batch = 0; batch < 1 + random() * 3; batch++) {
        const events = Array.from({ length: 1 + Math.floor(random() * 5) }, () => anEvent({ data: null }))
        await arrive(db, events, now)
        ids.push(...events.map(({ id }) => id))
        for (let pause = 0; pause < random() * 12; pause++) await db.query('select 1')
      }
      if (random() < 0.2) throw new RollBack()
    })
    try {
      await work
      committed.push(...ids)
    } catch (error) {
      if (!(error instanceof RollBack)) throw error
    }
  }
  return committed
}

type Read = (after: Position, limit: number) => Promise<{ ids: string[]; next: Position; more: boolean }>

/** Reads on until the writers are done and nothing is left. */
async function follow(read: Read, seed: number, over: () => boolean): Promise<string[]> {
  const random = seededRandom(seed)
  const ids: string[] = []
  for (let after = BEGINNING; ;) {
    const wasOver = over()
    const page = await read(after, 1 + Math.floor(random() * 40))
    ids.push(...page.ids)
    after = page.next
    if (wasOver && page.ids.length === 0 && !page.more) return ids
    await setImmediate()
  }
}

async function race(pool: Pool, read: Read, transactions = 80): Promise<{ committed: string[]; readers: string[][] }> {
  let over = false
  const writing = Promise.all(Array.from({ length: WRITERS }, async (_, n) => await write(pool, n + 1, transactions)))
  const reading = Promise.all([11, 12, 13].map(async (seed) => await follow(read, seed, () => over)))
  const committed = (await writing).flat()
  await readable(pool)
  over = true
  return { committed, readers: await reading }
}

const bySequence =
  (pool: Pool): Read =>
  async (after, limit) => {
    const { rows } = await pool.query<{ ce_id: string; seq: string }>(
      "select ce_id, seq::text as at from event_inbox where tenant_id = 'acme' and seq > $1 order by seq limit $2",
      [after.seq, limit],
    )
    const last = (rows.at(-1) as { at?: string } | undefined)?.at
    return {
      ids: rows.map(({ ce_id }) => ce_id),
      next: { xid: '0', seq: last ?? after.seq },
      more: rows.length === limit,
    }
  }

test('six writers: every reader gets every committed event once, and all in the same order', async (t) => {
  await using database = await testDatabase()
  const { pool } = database
  const asTenant = tenantStore(pool)
  const { committed, readers } = await race(pool, async (after, limit) => {
    const page = await asTenant(
      { tenantId: 'acme' },
      async (db) => await pullEvents(db, { after, limit, ...everything }),
    )
    return { ids: page.events.map(({ event }) => event.id), next: page.next, more: page.more }
  })
  assert.ok(committed.length > 1_500, `${committed.length} events`)
  for (const ids of readers) {
    assert.equal(ids.length, committed.length)
    assert.deepEqual(ids, readers[0])
    assert.deepEqual(new Set(ids), new Set(committed))
  }
  t.diagnostic(
    `${WRITERS} writers, ${committed.length} events committed, ${readers.length} readers: none passed over, none twice`,
  )
})

test('the same race by the sequence alone passes over events: the test above can fail', async (t) => {
  await using database = await testDatabase()
  const { committed, readers } = await race(database.pool, bySequence(database.pool), 25)
  const missed = readers.map((ids) => committed.length - new Set(ids).size)
  assert.ok(Math.max(...missed) > 0)
  t.diagnostic(`of ${committed.length} events the readers passed over ${missed.join(', ')}`)
})

const weekOf = (n: number): number => Date.UTC(2026, 0, 5) + n * 7 * 86_400_000

test('a page costs the same beside other tenants, behind many weeks, and wherever it begins', async () => {
  await using database = await testDatabase()
  const { pool } = database
  for (let week = 0; week < 60; week++)
    await pool.query('select make_week($1, $2)', ['event_inbox', new Date(weekOf(week))])
  for (let week = 0; week < 60; week++) {
    const of = (tenantId: string, count: number) =>
      Array.from({ length: count }, () =>
        anEvent({ tenantId, id: uuid7(weekOf(week)), source: week === 59 ? 'rare' : 'lender' }),
      )
    await arrive(pool, [...of('acme', 50), ...of('other', 100)], now)
  }
  await pool.query('analyze event_inbox')
  await readable(pool)
  const db = tenantDatabase(pool, 'acme')
  const middle = (await pullEvents(db, { after: BEGINNING, limit: 1_000, ...everything })).next
  const query = { limit: 100, ...everything }
  for (const [name, work, most] of [
    ['first', { ...query, after: BEGINNING }, 1_500],
    ['middle', { ...query, after: middle }, 1_500],
    ['sparse', { ...query, after: BEGINNING, origin: 'rare' }, 9_000],
    ['sparse types', { ...query, after: BEGINNING, eventTypes: ['a.b', 'c.*'] }, 9_000],
  ] as const) {
    for (const plan of await plansOf(pool, async (tenant) => await pullEvents(tenant, work), 'acme')) {
      assert.deepEqual(plan.sequentialScans, [], name)
      assert.ok(plan.buffers < most, `${name}: ${plan.buffers} buffers`)
    }
  }
  const horizon = await inboxHorizon(pool)
  for (const plan of await plansOf(pool, async (hub) => await findArrivals(hub, horizon))) {
    assert.deepEqual(plan.sequentialScans, [])
    assert.ok(plan.buffers < 400, `arrivals: ${plan.buffers} buffers`)
  }
})

test('arrivals name the tenants that have something new, and all of them when there are too many', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const start = await inboxHorizon(pool)
  await arrive(
    pool,
    ['a', 'b', 'a'].map((tenantId) => anEvent({ tenantId })),
    now,
  )
  await readable(pool)
  const first = await findArrivals(pool, start)
  assert.deepEqual(first.tenants?.sort(), ['a', 'b'])
  assert.deepEqual((await findArrivals(pool, first.horizon)).tenants, [])
  await arrive(
    pool,
    Array.from({ length: 1_000 }, () => anEvent({ data: null })),
    now,
  )
  await readable(pool)
  assert.equal((await findArrivals(pool, first.horizon)).tenants, null)
})

test('a database that was restored from a busier server is found out, and aligned without a reader missing anything', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const db = tenantDatabase(pool, 'acme')
  const read = async (after: Position) => await pullEvents(db, { after, limit: 100, ...everything })
  const [restored, fresh] = [anEvent(), anEvent()]
  await arrive(pool, [restored], now)
  assert.deepEqual([await isInboxAhead(pool), await alignInbox(pool)], [false, false])
  await pool.query("update event_inbox set xid = '5000000000'")
  assert.equal(await isInboxAhead(pool), true)
  const cursor: Position = { xid: '5000000007', seq: '9' }
  assert.equal((await read(cursor)).isAhead, true)
  assert.deepEqual([await alignInbox(pool), await isInboxAhead(pool), await alignInbox(pool)], [true, false, false])
  await arrive(pool, [fresh], now)
  await readable(pool)
  assert.deepEqual(
    (await read(BEGINNING)).events.map(({ event }) => event.id),
    [restored.id, fresh.id],
  )
  assert.deepEqual(
    (await read(cursor)).events.map(({ event }) => event.id),
    [fresh.id],
  )
})

test('a statement that was prepared before the inbox was aligned writes as one that was not', async () => {
  await using database = await testDatabase()
  await using client = await leased(database.pool)
  for (let n = 0; n < 8; n++) await arrive(client.db, [anEvent()], now)
  await database.pool.query('select align_inbox(true)')
  const { id } = anEvent()
  await arrive(client.db, [anEvent({ id })], now)
  const { rows } = await database.pool.query('select ce_id as id from event_inbox order by xid desc limit 1')
  assert.deepEqual(rows, [{ id }])
  assert.equal(await isInboxAhead(database.pool), false)
})

async function leased(pool: Pool) {
  const db = await pool.connect()
  return { db, [Symbol.asyncDispose]: async () => db.release() }
}
