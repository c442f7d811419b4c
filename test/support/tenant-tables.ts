// Every table with a tenant, from the catalogue, and a row in each of them that has nothing but the right types: what the rows mean is
// not what such a test is about.
import type { Pool } from '../../src/store/pool.ts'
import { transaction } from '../../src/store/transaction.ts'

export interface TenantTable {
  oid: number
  name: string
  columns: string[]
  partitions: string[]
  /** What a row must have. */
  required: { name: string; type: string }[]
}

export async function tenantTables(pool: Pool): Promise<TenantTable[]> {
  const { rows } = await pool.query<TenantTable>(TENANT_TABLES)
  return rows
}

const TENANT_TABLES = `
select c.oid::integer as oid, c.relname as name,
  (select json_agg(a.attname order by a.attnum) from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
  (select coalesce(json_agg(p.relname), '[]') from pg_inherits i join pg_class p on p.oid = i.inhrelid where i.inhparent = c.oid) as partitions,
  (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, null))) from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attnotnull and not a.atthasdef and a.attidentity = '') as required
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = current_schema() and c.relkind in ('r', 'p') and not c.relispartition
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
order by c.relname`

const OF_TYPE: Record<string, string> = {
  text: 'gen_random_uuid()::text',
  uuid: 'uuid7(now())',
  integer: '0',
  bigint: '0',
  json: "'{}'",
  jsonb: "'{}'",
  boolean: 'false',
  bytea: 'uuid_send(gen_random_uuid())',
  'timestamp with time zone': 'now()',
  'text[]': "'{}'",
  'integer[]': "'{}'",
  'uuid[]': "'{}'",
}

/** Takes the tables' checks away, and puts a row of each tenant into each of them. */
export async function fillTenantTables(
  pool: Pool,
  tables: readonly TenantTable[],
  tenantIds: readonly string[],
): Promise<void> {
  await pool.query(DROP_CHECKS)
  await transaction(pool, async (db) => {
    // Without looking at references.
    await db.query("set local session_replication_role = 'replica'")
    for (const { name, required } of tables) {
      const columns = required.filter((column) => column.name !== 'tenant_id')
      const names = ['tenant_id', ...columns.map((column) => column.name)]
      const values = ['$1', ...columns.map(({ type }) => OF_TYPE[type] ?? `no value of type ${type} is known`)]
      const text = `insert into ${name} (${names.join(', ')}) values (${values.join(', ')})`
      for (const tenantId of tenantIds) await db.query(text, [tenantId])
    }
  })
}

const DROP_CHECKS = `
do $$ declare dropped text;
begin
  for dropped in
    select format('alter table %s drop constraint %I', conrelid::regclass, conname) from pg_constraint
    where contype = 'c' and conislocal and connamespace = current_schema()::regnamespace
  loop
    execute dropped;
  end loop;
end $$`
