// The connection pool, and how PostgreSQL values become ours: bigint is a number (sequences here stay far below 2⁵³),
// timestamptz a Date, json parsed, bytea a Buffer.
import { Pool as PgPool, types } from 'pg'

export type Pool = PgPool
/** What a statement runs on: the pool for a statement of its own, a client inside `transaction`. */
export type Database = Pick<PgPool, 'query'>

export interface PoolOptions {
  dsn: string
  maxConnections: number
  /** Shown in pg_stat_activity. */
  applicationName: string
  /** Told of errors on idle connections; the pool replaces them by itself. */
  onError: (error: Error) => void
}

// Plans: no sequential scan and no JIT, because statements prepared on tables that are still empty would otherwise keep a plan
// that reads all of a table that has grown since; no bitmap scan, because it would sort the whole ring to take its first lanes.
// Time-outs: no statement of the hub is that long; a transaction left open
// anywhere holds back the pull cursor and vacuum, so an idle one is ended.
const SESSION = [
  'jit=off',
  'enable_seqscan=off',
  'enable_bitmapscan=off',
  'statement_timeout=30000',
  'idle_in_transaction_session_timeout=15000',
  'timezone=UTC',
]

/** A pool that has opened no connection yet. */
export function createPool({ dsn, maxConnections, applicationName, onError }: PoolOptions): Pool {
  const pool = new PgPool({
    connectionString: dsn,
    max: maxConnections,
    application_name: applicationName,
    options: sessionOptions(),
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    types: { getTypeParser },
  })
  pool.on('error', onError)
  // The pool itself listens only while a connection is idle. One that is cut while it is ours, or in the very moment in which it is
  // handed to us, would else end the process; the statement that comes next fails, and the pool closes the connection.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** What every session of the hub is set to, and `more`, as a connection's `options`. */
export function sessionOptions(more: readonly string[] = []): string {
  return [...SESSION, ...more].map((setting) => `-c ${setting}`).join(' ')
}

const INT8 = 20

function getTypeParser(oid: number, format: 'text' | 'binary' = 'text'): (value: string) => unknown {
  return oid === INT8 ? Number : types.getTypeParser(oid, format)
}
