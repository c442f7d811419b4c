// Resetting a breaker by hand: it is closed as after a success, and what waited for it goes back into the ring. Locks: the
// destination, then its lanes, then the tenant's turn.
import { HubError } from '../base/errors.ts'
import { CLOSED } from '../dispatch/breaker.ts'
import {
  blockedLanes,
  lockBreakers,
  saveBreakers,
  type BreakerRow,
  type DestinationKey,
} from '../store/destinations.ts'
import { wakeLanes } from '../store/lanes.ts'
import type { Pool } from '../store/pool.ts'
import { transaction } from '../store/transaction.ts'

/** Answers the closed breaker. Throws `not_found`. */
export async function resetBreaker(pool: Pool, key: DestinationKey): Promise<BreakerRow> {
  return await transaction(pool, async (db) => {
    const [found] = await lockBreakers(db, [key])
    if (!found) throw new HubError('not_found', 'There is no such breaker.')
    const reset = { ...found, ...CLOSED }
    await saveBreakers(db, [reset])
    await wakeLanes(db, await blockedLanes(db, [key]))
    return reset
  })
}
