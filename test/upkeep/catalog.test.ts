// The catalog counts each event once, shows no value of anybody's, and nothing on the way of an event knows of it.
import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { structureOf } from '../../src/event/structure.ts'
import { countIntoCatalog } from '../../src/store/catalog.ts'
import type { Pool } from '../../src/store/pool.ts'
import { transaction } from '../../src/store/transaction.ts'
import { catalogChore } from '../../src/upkeep/catalog.ts'
import { deliver, publish, subscribe, walk } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { testDatabase } from '../support/database.ts'
import { anEvent, arrive } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'
import { assertProblem } from '../support/problems.ts'
import { readable } from '../support/readable.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

async function count(pool: Pool): Promise<void> {
  await readable(pool)
  const client = await pool.connect()
  try {
    await catalogChore().run(client, new Date(), new AbortController().signal)
  } finally {
    client.release()
  }
}

const catalog = async (tenant: string, query = ''): Promise<Record<string, unknown>[]> =>
  await walk(control, { url: `/v1/catalog${query}`, tenant, limit: 2 })

test('types are shown with how often and when they were seen, their majors, and an example without values', async () => {
  const data = Buffer.from(
    '{"id":"secret-1","amount":12.5,"ok":true,"none":null,"lines":[{"sku":"secret-2"},{"sku":"x"}],"by":{"jane@bank.example":7}}',
  )
  await publish(control, 'acme', { data })
  control.clock.advance(60_000)
  await count(control.database.pool)
  await publish(control, 'acme', { data: null, schemaMajor: 3 })
  await publish(control, 'acme', {
    source: 'ledger',
    resourceType: 'account',
    key: 'account.opened',
    data: Buffer.from('x'),
  })
  await publish(control, 'other')
  await count(control.database.pool)
  const [ledger, lender, ...more] = await catalog('acme')
  assert.deepEqual(more, [])
  assert.deepEqual(lender, {
    source: 'lender',
    event_type: 'loan.approved',
    resource_type: 'loan',
    title: null,
    description: null,
    data_schema: null,
    events: 2,
    first_seen_at: '2026-05-14T13:00:00.000Z',
    last_seen_at: '2026-05-14T13:01:00.000Z',
    schema_majors: [1, 3],
    example: { id: 'string', amount: 0, ok: false, none: null, lines: [{ sku: 'string' }], by: { string: 0 } },
  })
  assert.deepEqual([ledger?.['event_type'], ledger?.['example']], ['account.opened', null])
  assert.equal((await catalog('nobody')).length, 0)
  const of = async (query: string) => (await catalog('acme', query)).map(({ event_type }) => event_type)
  assert.deepEqual(await of('?origin=ledger'), ['account.opened'])
  assert.deepEqual(await of('?event_type=loan.*'), ['loan.approved'])
  assert.deepEqual(await of('?event_type=*'), ['account.opened', 'loan.approved'])
  assertProblem(await control.call({ url: '/v1/catalog?cursor=x', tenant: 'acme' }), 400, 'invalid_request')
})

const shapeOf = (data: unknown): unknown => structureOf({ attributes: {}, data: Buffer.from(JSON.stringify(data)) })

test('a structure is bounded, and holds no value and no name that may be one', () => {
  assert.deepEqual(shapeOf({ '4711': 'x', 'a b': 1, account_id: 'x', address1: 'x' }), {
    string: 0,
    account_id: 'string',
    address1: 'string',
  })
  const wide = shapeOf(
    Object.fromEntries(
      Array.from({ length: 26 ** 2 }, (_, n) => [
        `k_${String.fromCharCode(97 + (n % 26), 97 + Math.floor(n / 26))}`,
        n,
      ]),
    ),
  )
  assert.equal(Object.keys(wide as object).length, 100)
  const deep = Buffer.from('['.repeat(100_000) + ']'.repeat(100_000))
  assert.equal(JSON.stringify(structureOf({ attributes: {}, data: deep })), '['.repeat(13) + ']'.repeat(13))
  assert.equal(structureOf({ attributes: { datacontenttype: 'text/plain' }, data: Buffer.from('{}') }), undefined)
  assert.equal(structureOf({ attributes: {}, data: null }), undefined)
})

test('each event counts once: beside writers that commit out of order, with several that count at the same time', async (t) => {
  await using database = await testDatabase()
  const { pool } = database
  let stored = 0
  const write = async (writer: number): Promise<void> => {
    for (let n = 0; n < 25; n++) {
      await transaction(pool, async (db) => {
        const events = Array.from({ length: 1 + (n % 4) }, () => anEvent({ data: null, tenantId: `tenant-${n % 3}` }))
        await arrive(db, events, new Date())
        for (let pause = 0; pause < (writer * n) % 5; pause++) await db.query('select 1')
        stored += events.length
      })
    }
  }
  const counting = async (): Promise<void> => {
    for (let n = 0; n < 30; n++) await countIntoCatalog(pool, 7)
  }
  await Promise.all([write(1), write(2), write(3), counting(), counting()])
  await count(pool)
  const { rows } = await pool.query(
    'select sum(events)::integer as events, count(*)::integer as entries from catalog_entry',
  )
  assert.deepEqual(rows, [{ events: stored, entries: 3 }])
  t.diagnostic(`${stored} events counted once each`)
  const plans = await plansOf(pool, async (db) => await countIntoCatalog(db, 100))
  for (const { sequentialScans } of plans)
    assert.deepEqual(
      sequentialScans.filter((table) => table.startsWith('event_inbox')),
      [],
    )
})

test('matching and delivery are the same with a catalog that is poisoned, locked, or gone', async () => {
  const { pool } = control.database
  await subscribe(control, 'proof', { event_types: ['loan.*'] })
  const delivered = async (): Promise<number> => {
    await publish(control, 'proof')
    await publish(control, 'proof', { resourceType: 'account', key: 'account.opened' })
    return await deliver(control)
  }
  assert.equal(await delivered(), 1)
  await pool.query(
    "update catalog_entry set event_key = 'poison.' || event_key, source = 'poison', resource_type = 'poison'",
  )
  await pool.query(`
    insert into manifest (url, place, fetched_at) values ('https://poison/', 0, now());
    insert into described_type (source, event_key, url) values ('lender', 'account.opened', 'https://poison/'), ('poison', 'loan.approved', 'https://poison/')`)
  assert.equal(await delivered(), 1)
  await transaction(pool, async (db) => {
    await db.query('lock table catalog_entry, catalog_position, manifest, described_type in access exclusive mode')
    assert.equal(await delivered(), 1)
  })
  await pool.query('drop table catalog_entry, catalog_position, described_type, manifest')
  assert.equal(await delivered(), 1)
})

test('no stage that an event passes names the catalog', async () => {
  const naming: string[] = []
  for await (const file of glob('src/**/*.ts'))
    if (/catalog_(?:entry|position)|described_type|(?:catalog|manifests?)\.ts'/.test(await readFile(file, 'utf8')))
      naming.push(file)
  assert.deepEqual(naming.sort(), [
    'src/app.ts',
    'src/control/openapi.ts',
    'src/control/routes/catalog.ts',
    'src/control/routes/manifests.ts',
    'src/control/server.ts',
    'src/store/catalog.ts',
    'src/store/manifests.ts',
    'src/upkeep/catalog.ts',
    'src/upkeep/manifest.ts',
    'src/upkeep/manifests.ts',
  ])
})
