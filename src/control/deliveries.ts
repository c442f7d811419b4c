// The retry by hand: an unfinished delivery is due now; a finished one stays what it is, and its event is queued once more.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { findDelivery, hastenDelivery, replayDelivery, type Delivery } from '../store/deliveries.ts'
import { wakeLanes } from '../store/lanes.ts'
import type { Pool } from '../store/pool.ts'
import type { TenantObject } from '../store/subscriptions.ts'
import { transaction } from '../store/transaction.ts'

export interface DeliveryDeps {
  pool: Pool
  clock: Clock
}

/** Throws `not_found`. */
export async function getDelivery(object: TenantObject, { pool }: Pick<DeliveryDeps, 'pool'>): Promise<Delivery> {
  return (await findDelivery(pool, object)) ?? notFound()
}

/**
 * Answers the delivery that will be tried: the same one, or a new one of kind `replay`. A circuit breaker that is open holds it
 * back all the same. Throws `not_found`; `conflict` when it was just finishing, or can no longer be replayed.
 */
export async function retryDelivery(object: TenantObject, { pool, clock }: DeliveryDeps): Promise<Delivery> {
  const now = new Date(clock.now())
  return await transaction(pool, async (db) => {
    const found = (await findDelivery(db, object)) ?? notFound()
    // Its lane first: that is the order of locks, and what moves a delivery holds the lane.
    await wakeLanes(db, [found.subscriptionId])
    if (found.finishedAt !== null) return (await replayDelivery(db, { ...object, now })) ?? gone()
    if (!(await hastenDelivery(db, { ...object, now }))) finishing()
    return (await findDelivery(db, object)) ?? finishing()
  })
}

function notFound(): never {
  throw new HubError('not_found', 'There is no such delivery.')
}

function gone(): never {
  throw new HubError(
    'conflict',
    'Its subscription is deleted, or its event is no longer kept: it cannot be delivered again.',
  )
}

function finishing(): never {
  throw new HubError('conflict', 'It was finished at this very moment; look at it, and ask again if you still want to.')
}
