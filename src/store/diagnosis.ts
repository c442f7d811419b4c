// What `streaming-hub doctor` asks the database: its settings, how full it is, and samples of what the hub has stored there. It only reads.
import { Client } from 'pg'
import type { Database } from './pool.ts'
import { sessionOptions } from './pool.ts'

export interface DatabaseSession extends AsyncDisposable {
  db: Database
}

/** One connection, as the hub's own are set up. Rejects when the database does not let us in within `timeoutMs`. */
export async function openDiagnosis(dsn: string, timeoutMs: number): Promise<DatabaseSession> {
  const client = new Client({
    connectionString: dsn,
    application_name: 'streaming-hub doctor',
    options: sessionOptions(),
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  })
  client.on('error', () => undefined)
  await client.connect()
  return { db: client, [Symbol.asyncDispose]: async () => await client.end().catch(() => undefined) }
}

export interface ServerState {
  /** 180004 is 18.4. */
  version: number
  isStandby: boolean
  encrypted: boolean
  /** Milliseconds since the Unix epoch, by the server's clock. */
  now: number
  maxConnections: number
  /** Of them those that only superusers get. */
  reservedConnections: number
  openConnections: number
  /** Replicas of the hub that are connected. */
  replicas: number
  synchronousCommit: string
  fsync: string
  fullPageWrites: string
  autovacuum: string
  isolation: string
  encoding: string
}

export async function serverState(db: Database): Promise<ServerState> {
  const { rows } = await db.query<ServerState>(SERVER_STATE)
  return rows[0]!
}

// A replica's connections name themselves `streaming-hub <part> <host>/<pid>`.
const SERVER_STATE = `
select current_setting('server_version_num')::integer as version, pg_is_in_recovery() as "isStandby",
  coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
  extract(epoch from clock_timestamp())::float8 * 1000 as now,
  current_setting('max_connections')::integer as "maxConnections",
  current_setting('superuser_reserved_connections')::integer as "reservedConnections",
  (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer as "openConnections",
  (select count(distinct split_part(application_name, ' ', 3)) from pg_stat_activity
    where datname = current_database() and application_name like 'streaming-hub upkeep %')::integer as replicas,
  current_setting('synchronous_commit') as "synchronousCommit", current_setting('fsync') as fsync,
  current_setting('full_page_writes') as "fullPageWrites", current_setting('autovacuum') as autovacuum,
  current_setting('default_transaction_isolation') as isolation, current_setting('server_encoding') as encoding`

export interface StoredSecret {
  tenantId: string
  subscriptionId: string
  field: string
  sealed: string
}

/** The oldest and the newest stored secrets, `each` of them. */
export async function sampleSecrets(db: Database, each: number): Promise<StoredSecret[]> {
  const { rows } = await db.query<StoredSecret>(SAMPLE_SECRETS, [each])
  return rows
}

const SAMPLE_SECRETS = `
select tenant_id as "tenantId", subscription_id as "subscriptionId", field, sealed from (
  (select * from subscription_secret order by id limit $1) union (select * from subscription_secret order by id desc limit $1)) sample`

/** URLs of enabled webhooks, one for each destination, the newest first. */
export async function sampleUrls(db: Database, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ url: string }>(SAMPLE_URLS, [limit])
  return rows.map(({ url }) => url)
}

const SAMPLE_URLS = `
select url from (
  select distinct on (destination_key) id, sink->>'url' as url from subscription
  where enabled and deleted_at is null and sink->>'kind' = 'webhook' and sink->>'url' is not null order by destination_key, id desc
) each order by id desc limit $1`
