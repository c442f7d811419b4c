// The pull shows what lies below the oldest transaction of the whole server, and tests share one: what has been stored can be read once
// those of all others that were under way have ended.
import type { Pool } from '../../src/store/pool.ts'

/** Resolves when everything that is committed now can be read. */
export async function readable(pool: Pool): Promise<void> {
  const limit = AbortSignal.timeout(60_000)
  const { rows } = await pool.query<{ end: string }>(
    'select inbox_xid(pg_snapshot_xmax(pg_current_snapshot()))::text as end',
  )
  while ((await pool.query('select where inbox_horizon() >= $1::xid8', [rows[0]?.end])).rowCount === 0)
    limit.throwIfAborted()
}
