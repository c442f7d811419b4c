// Fills a database as months of traffic would: deliveries and attempts over five weeks, one tenant with a fifth of them, four
// subscriptions a tenant, a hundredth (at most 100,000) unfinished. Indexes but the keys are made when the rows are there.
import { makePartitions } from '../../../src/store/partitions.ts'
import type { Pool } from '../../../src/store/pool.ts'

export interface Filled {
  rows: number
  tenants: number
  seconds: number
  /** Of the tenant with a fifth of it all, and of one of the others. */
  big: { tenant: string; subscription: string }
  small: { tenant: string; subscription: string }
}

const WEEK_MS = 7 * 86_400_000
const WEEKS = 5
const CHUNK = 250_000

export async function fill(pool: Pool, size: { rows: number; tenants: number }): Promise<Filled> {
  const started = performance.now()
  const now = new Date()
  for (let week = 0; week <= WEEKS; week++) await makePartitions(pool, new Date(now.getTime() - week * WEEK_MS), 0)
  await pool.query(SUBSCRIPTIONS, [size.tenants, new Date(now.getTime() - (WEEKS + 1) * WEEK_MS)])
  const { rows: indexes } = await pool.query<{ name: string; made: string }>(INDEXES)
  for (const { name } of indexes) await pool.query(`drop index ${name}`)
  for (let from = 1; from <= size.rows; from += CHUNK) {
    const values = [from, Math.min(size.rows, from + CHUNK - 1), size.rows, size.tenants, now, WEEKS * 7 * 86_400]
    await pool.query(DELIVERIES, values)
    console.error(`${values[1] as number} rows`)
  }
  await pool.query(HOURS, [now])
  const patient = await pool.connect()
  await patient.query("set statement_timeout = 0; set maintenance_work_mem = '1GB'")
  for (const { made } of indexes) await patient.query(made)
  await patient.query('vacuum analyze')
  patient.release(true)
  const of = async (tenant: string) => {
    const { rows } = await pool.query<{ id: string }>(
      'select id from subscription where tenant_id = $1 order by id limit 1',
      [tenant],
    )
    return { tenant, subscription: rows[0]!.id }
  }
  const seconds = (performance.now() - started) / 1000
  return { ...size, seconds, big: await of('tenant-0'), small: await of('tenant-1') }
}

const SUBSCRIPTIONS = `
with made as materialized (
  select uuid7($2) as id, 'tenant-' || t as tenant_id, 'destination-' || t || '-' || s as destination_key
  from generate_series(0, $1::integer - 1) t, generate_series(0, 3) s
), subscriptions as (
  insert into subscription (id, tenant_id, name, verification_state, event_types, sink, destination_key, content_mode, ordering, timeout_ms,
    metadata, created_at, updated_at)
  select id, tenant_id, destination_key, 'active', '{loan.approved}', '{"kind":"webhook","url":"https://example.com/","headers":{}}', destination_key,
    'binary', 'fifo', 30000, '{}', $2, $2 from made
), turns as (insert into tenant_turn (tenant_id) select distinct tenant_id from made
), destinations as (insert into destination (tenant_id, destination_key) select tenant_id, destination_key from made)
insert into lane (subscription_id, tenant_id, destination_key) select id, tenant_id, destination_key from made`

const INDEXES = `
-- Of the partitions too.
select i.indexrelid::regclass::text as name, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') as made from pg_index i
where i.indrelid in ('delivery_history'::regclass, 'attempt'::regclass, 'event_inbox'::regclass, 'delivery'::regclass) and not i.indisprimary`

// The last hundredth is unfinished; what is in it also has its event in the inbox.
const DELIVERIES = `
with place as materialized (
  select t.id as tenant_id, array_agg(s.id order by s.id) as subscriptions
  from (select 'tenant-' || n as id from generate_series(0, $4::integer - 1) n) t join subscription s on s.tenant_id = t.id group by t.id
), numbered as materialized (
  select n, 'tenant-' || case when n % 5 = 0 then 0 else 1 + (n::bigint * 7919) % ($4::integer - 1) end as tenant_id,
    $5::timestamptz - interval '1 second' * (($3::integer - n) * $6::float8 / $3) as at, n > $3 - least(100000, $3 / 100) as open
  from generate_series($1::integer, $2::integer) n
), d as materialized (
  select n, uuid7(at) as id, uuid7(at) as ce_id, uuid7(at) as attempt_id, n.tenant_id, p.subscriptions[1 + n / 5 % 4] as subscription_id, at, open,
    n % 200 = 7 as dead
  from numbered n join place p using (tenant_id)
), events as (
  insert into event_inbox (tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, attributes, data, data_bytes, topic)
  select tenant_id, ce_id, at, 'lender', 'loan', 'loan.approved', 1, '{}', '{}', 2, 'lerian.streaming.lender' from d where open
), attempts as (
  insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, duration_ms, outcome, status, error_class, error_detail, response)
  select attempt_id, id, tenant_id, subscription_id, 1, at, n % 300, case when dead then 'failed' else 'delivered' end,
    case when dead then 500 else 200 end, case when dead then 'http_status' end, case when dead then 'answered 500' end, 'ok'
  from d
), unfinished as (
  insert into delivery (id, tenant_id, subscription_id, ce_id, attempts, failures, aside, due_at, created_at, last_status)
  select id, tenant_id, subscription_id, ce_id, (n % 10 = 3)::integer, (n % 10 = 3)::integer, n % 10 = 3, at, at, case when n % 10 = 3 then 500 end
  from d where open
)
insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at, finished_at,
  last_status, last_error)
select id, n, tenant_id, subscription_id, ce_id, 'event', case when dead then 'dead_lettered' else 'delivered' end,
  case when dead then 'exhausted' end, 1, dead::integer, 0, at, at, case when dead then 500 else 200 end, case when dead then 'answered 500' end
from d where not open`

// Every hour of a month, of the big tenant's subscriptions and of a few others.
const HOURS = `
insert into outcome_hour (hour, subscription_id, tenant_id, began_at, delivered, failed, deliveries_delivered, ms_60)
select uuid7_floor(at), s.id, s.tenant_id, at, 100, 1, 100, 101
from subscription s, generate_series(0, 719) h, lateral (select date_trunc('hour', $1::timestamptz, 'UTC') - h * interval '1 hour' as at) t
where s.tenant_id in (select 'tenant-' || n from generate_series(0, 99) n)`
