// The second wall alone: statements that do not compare the tenant, run as a tenant. The tables are those of the catalogue, so that a
// new one is tested without anybody thinking of it.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { Client } from 'pg'
import { migrate } from '../../src/store/migrate.ts'
import { createPool, type Pool } from '../../src/store/pool.ts'
import { makeDeadLetterDays } from '../../src/store/producer-dead-letters.ts'
import { makePartitions } from '../../src/store/partitions.ts'
import { tenantRoleProblem, tenantStore, type TenantDatabase } from '../../src/store/tenant.ts'
import { transaction } from '../../src/store/transaction.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { insertSubscription } from '../support/fixtures.ts'
import { fillTenantTables, tenantTables, type TenantTable } from '../support/tenant-tables.ts'

const OWNER = 'owner'
const STRANGER = "stran'ger \\"

/** What producers say of their types of events is the same for all tenants, and shown to each. */
const EVERYBODYS = new Set(['described_type'])

let database: TestDatabase
let pool: Pool
let tables: TenantTable[]
const asTenant: ReturnType<typeof tenantStore> = async (tenant, work) => await tenantStore(pool)(tenant, work)
const as = async <T>(tenantId: string, work: (db: TenantDatabase) => Promise<T>): Promise<T> =>
  await asTenant({ tenantId }, work)

before(async () => {
  database = await testDatabase()
  pool = database.pool
  await makePartitions(pool, new Date(), 1)
  await makeDeadLetterDays(pool, new Date(), 2)
  tables = await tenantTables(pool)
  await fillTenantTables(pool, tables, [OWNER, STRANGER])
})
after(async () => await database.drop())

/** What a statement comes to for a tenant: how many rows it saw or changed, or that it was refused. */
async function outcome(tenantId: string, text: string): Promise<number | 'refused'> {
  return await as(tenantId, async (db) => (await db.query(text)).rowCount ?? 0).catch(
    (error: Error & { code?: string }) => {
      assert.equal(error.code, '42501', `${text}: ${error.message}`)
      return 'refused' as const
    },
  )
}

describe('row security', () => {
  test('is on for every table with a tenant, and for every partition', async (t) => {
    const { rows } = await pool.query<{ name: string; on: boolean; policies: number }>(
      `select c.relname as name, c.relrowsecurity as on,
         (select count(*) from pg_policy p where p.polrelid = c.oid)::integer as policies
       from pg_class c where c.oid = any($1::oid[]) or c.relispartition and c.relkind = 'r'`,
      [tables.map(({ oid }) => oid)],
    )
    for (const { name, on } of rows) assert.ok(on, `${name} has no row security: its migration calls wall_off`)
    for (const { name } of tables) assert.equal(rows.find((row) => row.name === name)?.policies, 1, name)
    t.diagnostic(`${tables.length} tables with a tenant, ${rows.length - tables.length} partitions`)
  })

  test('shows a tenant no row of another, whatever is asked', async (t) => {
    let statements = 0
    for (const { name, partitions } of tables) {
      const { rows } = await pool.query<{ owners: number }>(
        `select count(*)::int as owners from ${name} where tenant_id = $1`,
        [OWNER],
      )
      assert.ok(rows[0]!.owners > 0, `the test has no row in ${name}`)
      for (const relation of [name, ...partitions]) {
        for (const text of [
          `select * from ${relation} where tenant_id = '${OWNER}'`,
          `select * from ${relation} where tenant_id is distinct from current_setting('streaming_hub.tenant_id')`,
          `delete from ${relation} where tenant_id = '${OWNER}'`,
          `update ${relation} set tenant_id = tenant_id where tenant_id = '${OWNER}'`,
        ]) {
          statements++
          const seen = await outcome(STRANGER, text)
          assert.ok(seen === 0 || seen === 'refused', `${text}: ${seen} rows`)
        }
      }
    }
    t.diagnostic(`${statements} statements`)
  })

  test('lets a tenant see its own rows, where tenants may see the table at all', async () => {
    let seen = 0
    for (const { name } of tables) {
      const own = await outcome(STRANGER, `select * from ${name}`)
      if (own === 'refused') continue
      seen++
      assert.equal(own, (await pool.query(`select from ${name} where tenant_id = $1`, [STRANGER])).rowCount, name)
    }
    assert.ok(seen >= 10, `${seen} tables`)
  })

  test('lets a tenant neither add rows of another, nor give its own away', async () => {
    for (const { name, columns } of tables) {
      const copied = columns.map((column) => (column === 'tenant_id' ? `'${OWNER}'` : column)).join(', ')
      for (const text of [
        `insert into ${name} (${columns.join(', ')}) select ${copied} from ${name}`,
        `update ${name} set tenant_id = '${OWNER}'`,
      ]) {
        assert.equal(await outcome(STRANGER, text), 'refused', text)
      }
    }
  })

  test('keeps tables without a tenant from tenants altogether', async () => {
    const { rows } = await pool.query<{ name: string }>(
      `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = current_schema() and c.relkind in ('r', 'p') and not c.relispartition and not exists (
         select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')`,
    )
    assert.ok(rows.some(({ name }) => name === 'quarantine'))
    for (const { name } of rows) {
      const seen = await outcome(STRANGER, `select * from ${name}`)
      assert.equal(seen, EVERYBODYS.has(name) ? 0 : 'refused', name)
      assert.equal(await outcome(STRANGER, `delete from ${name}`), 'refused', name)
    }
  })

  test('does not count for the hub’s own work', async () => {
    const { rows } = await pool.query('select distinct tenant_id from subscription order by 1')
    assert.deepEqual(rows, [{ tenant_id: OWNER }, { tenant_id: STRANGER }])
  })
})

describe('a tenant’s transaction', () => {
  test('leaves the connection as it was, whether it ends well or not', async () => {
    const whoami = 'select current_user::text as role, current_setting($1, true) as tenant'
    await transaction(pool, async (client) => {
      const { rows } = await client.query<{ role: string }>(whoami, ['streaming_hub.tenant_id'])
      assert.notEqual(rows[0]!.role, 'streaming_hub_tenant')
    })
    const failing = as(OWNER, async (db) => await db.query('select 1 / 0'))
    await assert.rejects(failing, /division by zero/)
    assert.deepEqual((await as(STRANGER, async (db) => await db.query(whoami, ['streaming_hub.tenant_id']))).rows, [
      { role: 'streaming_hub_tenant', tenant: STRANGER },
    ])
    for (let n = 0; n < 12; n++) {
      const { rows } = await pool.query<{ role: string; tenant: string | null }>(whoami, ['streaming_hub.tenant_id'])
      assert.notEqual(rows[0]!.role, 'streaming_hub_tenant')
      assert.ok(!rows[0]!.tenant)
    }
  })

  test('cannot be used after its end', async () => {
    const leaked = await as(OWNER, async (db) => db)
    await assert.rejects(async () => await leaked.query('select 1'), /after its end/)
  })

  test('takes no tenant without a name', async () => {
    for (const tenantId of ['', 'a\0b']) await assert.rejects(as(tenantId, async (db) => await db.query('select 1')))
  })

  test('runs statements of any name, quoted as they are', async () => {
    for (const tenantId of ["'; reset role; --", '\\', '$1', 'ünïcode 🏦', '"'.repeat(256)]) {
      const { rows } = await as(
        tenantId,
        async (db) => await db.query("select current_setting('streaming_hub.tenant_id') as tenant"),
      )
      assert.deepEqual(rows, [{ tenant: tenantId }])
    }
  })

  test('sees a statement that was prepared outside of it with its own eyes', async () => {
    const statement = { name: 'shared', text: 'select distinct tenant_id from subscription order by 1' }
    const client = await pool.connect()
    try {
      for (let round = 0; round < 7; round++) {
        assert.equal((await client.query(statement)).rows.length, 2)
        await client.query(`begin; set local role streaming_hub_tenant; set local streaming_hub.tenant_id = '${OWNER}'`)
        assert.deepEqual((await client.query(statement)).rows, [{ tenant_id: OWNER }])
        await client.query('commit')
      }
    } finally {
      client.release()
    }
  })
})

test('the database’s user can be told from one that may not act for tenants, and from one for whom the wall counts', async () => {
  assert.equal(await tenantRoleProblem(pool), null)
  await transaction(pool, async (db) => {
    await db.query(
      'create role outsider nologin; grant select on subscription to outsider; set local session authorization outsider',
    )
    assert.match((await tenantRoleProblem(db)) ?? '', /grant streaming_hub_tenant to outsider/)
    await db.query(
      'reset session authorization; grant streaming_hub_tenant to outsider; set local session authorization outsider',
    )
    assert.match((await tenantRoleProblem(db)) ?? '', /does not own/)
    await db.query('reset session authorization; drop owned by outsider; drop role outsider')
  })
})

describe('a database user who is no superuser', () => {
  const suffix = randomUUID().slice(0, 8)
  const [owner, member, name] = [`hub_owner_${suffix}`, `hub_member_${suffix}`, `test_owned_${suffix}`]
  let admin: Client
  const dsnOf = (user: string): string =>
    Object.assign(new URL(database.dsn), { username: user, password: 'x', pathname: name }).href
  const problemOf = async (user: string): Promise<string | null> =>
    await withPool(dsnOf(user), async (db) => await tenantRoleProblem(db))

  before(async () => {
    admin = new Client({ connectionString: database.dsn })
    await admin.connect()
    for (const user of [owner, member]) await admin.query(`create role ${user} login password 'x'`)
    await admin.query(`create database ${name} owner ${owner}`)
  })
  after(async () => {
    await admin.query(`drop database ${name} with (force)`)
    for (const user of [member, owner]) await admin.query(`drop role ${user}`)
    await admin.end()
  })

  test('is told what has to be run for it, and migrates and works once that was done', async () => {
    await assert.rejects(migrate(dsnOf(owner)), new RegExp(`grant streaming_hub_tenant to ${owner}`))
    await admin.query(`grant streaming_hub_tenant to ${owner}`)
    await migrate(dsnOf(owner))
    assert.equal(await problemOf(owner), null)
    await withPool(dsnOf(owner), async (db) => {
      await makePartitions(db, new Date(), 1)
      await insertSubscription(db, { tenantId: OWNER })
      const count = async (tenantId: string) =>
        (await tenantStore(db)({ tenantId }, async (own) => await own.query('select from subscription'))).rowCount
      assert.deepEqual([await count(OWNER), await count(STRANGER)], [1, 0])
    })
  })

  test('and is another than the migration’s needs both roles, and says which is missing', async () => {
    assert.match((await problemOf(member)) ?? '', new RegExp(`grant streaming_hub_tenant to ${member}`))
    await admin.query(`grant streaming_hub_tenant to ${member}`)
    assert.match((await problemOf(member)) ?? '', /does not own/)
    await admin.query(`grant ${owner} to ${member}`)
    assert.equal(await problemOf(member), null)
    await withPool(dsnOf(member), async (db) => {
      assert.ok((await makePartitions(db, new Date(Date.now() + 90 * 86_400_000), 0)) > 0)
      const foreign = tenantStore(db)(
        { tenantId: STRANGER },
        async (own) => await own.query('select from subscription'),
      )
      assert.equal((await foreign).rowCount, 0)
      assert.equal((await db.query('select from subscription')).rowCount, 1)
    })
  })
})

async function withPool<T>(dsn: string, work: (pool: Pool) => Promise<T>): Promise<T> {
  const own = createPool({ dsn, maxConnections: 2, applicationName: 'test', onError: () => undefined })
  try {
    return await work(own)
  } finally {
    await own.end()
  }
}
