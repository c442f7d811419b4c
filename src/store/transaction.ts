// One transaction on one connection of the pool.
import type { PoolClient } from 'pg'
import type { Pool } from './pool.ts'

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
  const client = await pool.connect()
  let broken: Error | undefined
  // The pool listens only while a connection is idle. One that is cut between two of our statements would else end the process.
  const onError = (error: Error): void => void (broken = error)
  client.on('error', onError)
  try {
    await client.query(begin)
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(onError)
    throw error
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}
