// Work that one replica at a time may do: whoever holds an advisory lock, on a connection that does that work and nothing else. When
// the connection is lost, PostgreSQL ends what it was doing and frees the lock in one go, so there are never two at work.
// (A pooler between hub and database that shares sessions, such as PgBouncer in transaction mode, would break that.)
import { Client } from 'pg'
import type { Database } from './pool.ts'
import { sessionOptions } from './pool.ts'

/** A server that hears nothing of this client for so long takes it for gone, and frees its lock: about half a minute. */
const KEEPALIVES = ['tcp_keepalives_idle=10', 'tcp_keepalives_interval=5', 'tcp_keepalives_count=4']
const CONNECT_MS = 5_000
/** Beyond what any statement may take, so what has no answer by then is lost. */
const ANSWER_MS = 35_000

export interface LockSession extends AsyncDisposable {
  db: Database
  /** Aborts when the connection is gone, and the lock with it. */
  lost: AbortSignal
  /** Whether the lock is ours now. Rejects when the connection is lost. */
  tryLock(name: string): Promise<boolean>
  /** Runs `work` between begin and commit, or rolls it back. */
  transaction<T>(work: (db: Database) => Promise<T>): Promise<T>
  /** Resolves when the connection has answered. */
  answers(): Promise<void>
  /** Lets the connection go at once, whatever is under way on it. */
  cut(): void
}

/** Connects. Rejects when the database cannot be reached. */
export async function openLockSession(dsn: string, applicationName: string): Promise<LockSession> {
  const client = new Client({
    connectionString: dsn,
    application_name: applicationName,
    options: sessionOptions(KEEPALIVES),
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: ANSWER_MS,
    keepAlive: true,
  })
  const lost = new AbortController()
  const lose = (): void => lost.abort()
  client.on('error', lose).on('end', lose)
  await client.connect()
  // Not to be had on every server's system: then a statement under way ends by its own time-out.
  await client.query(NOTICE_CUTS).catch(() => undefined)
  const cut = (): void => {
    lose()
    void client.end().catch(() => undefined)
    destroy(client)
  }
  return {
    db: client,
    lost: lost.signal,
    tryLock: async (name) => {
      const { rows } = await client.query<{ locked: boolean }>(LOCK, [name])
      return rows[0]?.locked ?? false
    },
    transaction: async (work) => await transactionOn(client, work),
    answers: async () => void (await client.query('select 1')),
    cut,
    [Symbol.asyncDispose]: async () => cut(),
  }
}

/** A statement under way for a client that has gone would keep the lock until its end. */
const NOTICE_CUTS = "set client_connection_check_interval = '1s'"

/** `end` waits for what is under way, and for the other side: this does not. */
function destroy(client: Client): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}

async function transactionOn<T>(client: Client, work: (db: Database) => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => undefined)
    throw error
  }
}

// Once for each session: a second call would count as a second hold.
const LOCK = `
select case when exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted
    and (classid::bigint << 32) + objid::bigint = hashtextextended('streaming-hub ' || $1, 0))
  then true else pg_try_advisory_lock(hashtextextended('streaming-hub ' || $1, 0)) end as locked`

export interface Holder {
  /** As its connection names itself: the part, the host and the process. */
  holder: string
  /** When that connection was made: it may have waited for the lock since then. */
  connectedAt: Date
}

/** Who holds the lock of `name`; null: nobody. */
export async function findHolder(db: Database, name: string): Promise<Holder | null> {
  const { rows } = await db.query<Holder>(FIND_HOLDER, [name])
  return rows[0] ?? null
}

const FIND_HOLDER = `
select a.application_name as holder, a.backend_start as "connectedAt"
from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.classid::bigint << 32) + l.objid::bigint = hashtextextended('streaming-hub ' || $1, 0)`

/** The last time that a chore was done, by whichever replica. */
export interface ChoreRun {
  name: string
  everyMs: number
  holder: string
  startedAt: Date
  finishedAt: Date
  done: Record<string, unknown> | null
  error: string | null
}

export async function saveRun(db: Database, run: ChoreRun): Promise<void> {
  const { name, everyMs, holder, startedAt, finishedAt, done, error } = run
  await db.query(SAVE_RUN, [name, everyMs, holder, startedAt, finishedAt, done && JSON.stringify(done), error])
}

const SAVE_RUN = `
insert into upkeep_chore (name, every_ms, holder, started_at, finished_at, done, error) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (name) do update set every_ms = excluded.every_ms, holder = excluded.holder, started_at = excluded.started_at,
  finished_at = excluded.finished_at, done = excluded.done, error = excluded.error`

/** The chores that have ever been done here, by name. */
export async function listRuns(db: Database): Promise<ChoreRun[]> {
  const { rows } = await db.query<ChoreRun>(LIST_RUNS)
  return rows
}

const LIST_RUNS = `
select name, every_ms::float8 as "everyMs", holder, started_at as "startedAt", finished_at as "finishedAt", done, error
from upkeep_chore order by name`
