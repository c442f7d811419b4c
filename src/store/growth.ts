// What tells whether the database can keep up with what is stored: who holds back vacuum, how much of the hot tables is dead, how many
// partitions there are, and what lies in no partition of its own.
import type { Database } from './pool.ts'
import { WEEKLY_TABLES } from './partitions.ts'

/** Who keeps old row versions alive, here or on another database of the cluster. */
export interface XminHolder {
  /** In words: a session, a replication slot or a prepared transaction, and which. */
  culprit: string
  /** Seconds since when; null where PostgreSQL does not say. */
  seconds: number | null
  /** Transactions that have begun since. */
  transactions: number
}

/** The oldest ones, at most ten. Of other users' sessions PostgreSQL tells only members of pg_read_all_stats. */
export async function xminHolders(db: Database): Promise<XminHolder[]> {
  const { rows } = await db.query<XminHolder>(XMIN_HOLDERS)
  return rows
}

const XMIN_HOLDERS = `
select culprit, seconds, transactions from (
  select format('the session %s of user %s (%s, %s)', pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), 'no name'),
      coalesce(state, backend_type)) as culprit,
    extract(epoch from clock_timestamp() - xact_start)::float8 as seconds,
    greatest(age(backend_xmin), age(backend_xid))::float8 as transactions
  from pg_stat_activity
  where pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender') and (backend_xmin is not null or backend_xid is not null)
  union all
  select format('the replication slot %s (%s)', slot_name, case when active then 'active' else 'nobody reads it' end), null,
    greatest(age(xmin), age(catalog_xmin))::float8
  from pg_replication_slots where xmin is not null or catalog_xmin is not null
  union all
  select format('the prepared transaction %s of user %s in database %s', gid, owner, database),
    extract(epoch from clock_timestamp() - prepared)::float8, age(transaction)::float8
  from pg_prepared_xacts
) holder order by transactions desc, seconds desc nulls last limit 10`

export interface TableState {
  table: string
  /** By PostgreSQL's own estimate. */
  liveRows: number
  deadRows: number
  /** Without its indexes. */
  bytes: number
}

/** The tables that are changed all the time. */
export async function hotTables(db: Database): Promise<TableState[]> {
  const { rows } = await db.query<TableState>(HOT_TABLES)
  return rows
}

const HOT_TABLES = `
select relname as table, n_live_tup::float8 as "liveRows", n_dead_tup::float8 as "deadRows", pg_relation_size(relid)::float8 as bytes
from pg_stat_user_tables where relid in ('lane'::regclass, 'delivery'::regclass, 'destination'::regclass, 'tenant_turn'::regclass)
order by relname`

export interface PartitionState {
  table: string
  /** The default one not counted. */
  partitions: number
  /** There is one for the time a week from now. */
  isAhead: boolean
  /** Counted up to `countUpTo`. */
  defaultRows: number
}

export async function partitionStates(db: Database, now: Date, countUpTo: number): Promise<PartitionState[]> {
  const { rows } = await db.query<PartitionState>(PARTITION_STATES, [now, countUpTo])
  return rows
}

const PARTITION_STATES = WEEKLY_TABLES.map(
  (table) => `
select '${table}' as table, count(*)::integer as partitions,
  coalesce(bool_or($1::timestamptz + interval '7 days' >= week and $1 < week), false) as "isAhead",
  (select count(*) from (select from ${table}_default limit $2) d)::integer as "defaultRows"
from weeks_of('${table}')`,
).join(' union all ')
