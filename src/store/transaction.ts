// One transaction on one connection of the pool.
import type { PoolClient } from 'pg'
import type { Pool } from './pool.ts'

/**
 * Runs `work` between begin and commit. Rolls back and rethrows what it throws. A connection on which the rollback itself
 * fails is closed. When the commit's answer is lost, it throws and the outcome is unknown: `work` must be safe to repeat.
 */
export async function transaction<T>(pool: Pool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch((failure: Error) => (broken = failure))
    throw error
  } finally {
    client.release(broken)
  }
}
