// Work that one replica at a time may do.
import type { PoolClient } from 'pg'
import type { Pool } from './pool.ts'
import { transaction } from './transaction.ts'

/** Runs `work` in a transaction under the advisory lock of `name`; answers null, without running it, while another holds that lock. */
export async function onlyOne<T>(
  pool: Pool,
  name: string,
  work: (client: PoolClient) => Promise<T>,
): Promise<T | null> {
  return await transaction(pool, async (client) => {
    const { rows } = await client.query<{ locked: boolean }>(LOCK, [name])
    return rows[0]?.locked ? await work(client) : null
  })
}

const LOCK = "select pg_try_advisory_xact_lock(hashtextextended('streaming-hub ' || $1, 0)) as locked"
