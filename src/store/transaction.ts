// One connection of the pool, and one transaction on it.
import type { PoolClient } from 'pg'
import type { Pool } from './pool.ts'

/**
 * Runs `work` on one connection of the pool. What a statement needs is best made in there: whoever waits for a connection then
 * holds no more than it was given. A connection that broke meanwhile, or that `discard` was called for, is closed.
 */
export async function withConnection<T>(
  pool: Pool,
  work: (client: PoolClient, discard: (why: Error) => void) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    return await work(client, (why) => (broken = why))
  } finally {
    client.release(broken)
  }
}

/**
 * Runs `work` between begin and commit. Rolls back and rethrows what it throws. A connection on which the rollback itself
 * fails is closed. When the commit's answer is lost, it throws and the outcome is unknown: `work` must be safe to repeat. `begin`
 * may set more than begin does, for this transaction.
 */
export async function transaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  begin = 'begin',
): Promise<T> {
  return await withConnection(pool, async (client, discard) => {
    try {
      await client.query(begin)
      const result = await work(client)
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback').catch(discard)
      throw error
    }
  })
}
