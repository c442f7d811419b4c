// Nothing of the hub works on a schema that is not its own: the gate waits for the database, and then insists on it.
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { migrate, schemaStatus } from './migrate.ts'
import { isOutage } from './outage.ts'
import type { Pool } from './pool.ts'
import { tenantRoleProblem } from './tenant.ts'

export interface GateDeps {
  clock: Clock
  log: Log
  signal: AbortSignal
  migrateDsn: string | null
  /** What else has to hold: rejects where it does not. Null: nothing. */
  insist: (() => Promise<void>) | null
}

const PAUSE_MS = { first: 200, longest: 5_000 }

/**
 * Resolves when the database answers, has exactly this program's schema, and lets the hub act for tenants; with `migrateDsn` it is
 * brought up to date first. While it cannot be reached that is said once, and tried again with back-off, until `signal` aborts.
 * Rejects when the schema is another, or the database's user may not do what the hub does: what to do is in the message.
 */
export async function schemaReady(pool: Pool, deps: GateDeps): Promise<void> {
  const { clock, log, signal, migrateDsn, insist } = deps
  for (let pause = PAUSE_MS.first; !signal.aborted; pause = Math.min(pause * 2, PAUSE_MS.longest)) {
    try {
      if (migrateDsn !== null) await migrate(migrateDsn)
      await insistOnSchema(pool)
      await insist?.()
      if (pause > PAUSE_MS.first) log.info('the database can be reached')
      return
    } catch (error) {
      if (!isOutage(error)) throw error
      if (pause === PAUSE_MS.first) log.error({ err: messageOf(error) }, 'the database cannot be reached: trying again')
      await clock.sleep(pause, signal)
    }
  }
}

/** Whether the database answers at all. Never rejects. */
export async function isReachable(pool: Pool): Promise<boolean> {
  return await pool.query('select 1').then(
    () => true,
    () => false,
  )
}

async function insistOnSchema(pool: Pool): Promise<void> {
  const { missing, unknown } = await schemaStatus(pool)
  if (unknown.length > 0) {
    throw new Error(`The database's schema is newer than this program (${unknown.join(', ')}): start a newer one.`)
  }
  if (missing.length > 0) {
    throw new Error(`The database's schema lacks ${missing.join(', ')}: run "streaming-hub migrate" first.`)
  }
  const problem = await tenantRoleProblem(pool)
  if (problem !== null) throw new Error(problem)
}
