// The retry by hand: an unfinished delivery is due now; a finished one stays what it is, and its event is queued once more, unless
// it is on its way again already: asking twice does not double it.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { findDelivery, findUnfinished, hastenDelivery, replayDelivery, type Delivery } from '../store/deliveries.ts'
import { wakeLanes } from '../store/lanes.ts'
import type { TenantDatabase } from '../store/tenant.ts'

/** Throws `not_found`. */
export async function getDelivery(db: TenantDatabase, id: string): Promise<Delivery> {
  return (await findDelivery(db, id)) ?? notFound()
}

/**
 * Answers the delivery that will be tried: the same one, another one of its event that is unfinished, or a new one of kind
 * `replay`. A circuit breaker that is open holds it back all the same. Throws `not_found`; `conflict` when it was just finishing,
 * or can no longer be replayed.
 */
export async function retryDelivery(
  db: TenantDatabase,
  id: string,
  { clock }: { clock: Clock },
): Promise<{ delivery: Delivery; isNew: boolean }> {
  const now = new Date(clock.now())
  const found = await getDelivery(db, id)
  if (found.kind === 'test') throw new HubError('conflict', 'It is a test, which is sent once: send another one.')
  // Its lane first: that is the order of locks, and what moves a delivery holds the lane.
  await wakeLanes(db, [found.subscriptionId])
  const unfinished = found.finishedAt === null ? found : await findUnfinished(db, found)
  if (!unfinished) return { delivery: (await replayDelivery(db, { id, now })) ?? gone(), isNew: true }
  if (!(await hastenDelivery(db, { id: unfinished.id, now }))) finishing()
  return { delivery: (await findDelivery(db, unfinished.id)) ?? finishing(), isNew: false }
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
