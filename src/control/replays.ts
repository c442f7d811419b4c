// The replay of a range as the control plane makes it: it is counted and written down here, and worked off by upkeep.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import type { Pool } from '../store/pool.ts'
import { cancelReplay, countReplayable, countRunning, findReplay, insertReplay } from '../store/replays.ts'
import type { Replay, ReplayRange, ReplayedState } from '../store/replays.ts'
import { lockSubscription, type TenantObject } from '../store/subscriptions.ts'
import { transaction } from '../store/transaction.ts'
import { getSubscription } from './subscriptions.ts'
import { invalid } from './validation.ts'

/** Of one subscription at a time. They take turns: a second one begins to queue when the first has queued all of its own. */
export const MAX_RUNNING = 3

export interface ReplayRouteDeps {
  pool: Pool
  clock: Clock
}

export interface ReplayWish {
  since: Date
  /** Null: now. */
  until: Date | null
  states: readonly ReplayedState[]
}

/** The range that a wish comes to at this moment, and how many events are in it. Throws `not_found`, `invalid_request`. */
export async function countRange(
  subscription: TenantObject,
  wish: ReplayWish,
  { pool, clock }: ReplayRouteDeps,
): Promise<{ range: ReplayRange; total: number }> {
  const { tenantId, id: subscriptionId } = await getSubscription(subscription, { pool })
  const range = { tenantId, subscriptionId, ...bounded(wish, clock.now()) }
  return { range, total: await countReplayable(pool, range) }
}

/** Begins a replay. Throws `not_found`, `invalid_request`; `conflict` when as many as may are running. */
export async function beginReplay(
  subscription: TenantObject,
  wish: ReplayWish,
  deps: ReplayRouteDeps,
): Promise<Replay> {
  const { range, total } = await countRange(subscription, wish, deps)
  return await transaction(deps.pool, async (db) => {
    const { id } = (await lockSubscription(db, subscription)) ?? notFound()
    if ((await countRunning(db, id)) >= MAX_RUNNING) tooMany()
    return await insertReplay(db, { ...range, total })
  })
}

/** Throws `not_found`. */
export async function getReplay(object: TenantObject, { pool }: Pick<ReplayRouteDeps, 'pool'>): Promise<Replay> {
  return (await findReplay(pool, object)) ?? notFound()
}

/** Ends it, if it is running; answers it as it is then. Throws `not_found`. */
export async function endReplay(object: TenantObject, { pool, clock }: ReplayRouteDeps): Promise<Replay> {
  return (await cancelReplay(pool, { ...object, now: new Date(clock.now()) })) ?? notFound()
}

function bounded({ since, until, states }: ReplayWish, now: number): Omit<ReplayRange, 'tenantId' | 'subscriptionId'> {
  const faults = [
    ...(since.getTime() > now ? [{ path: '/since', message: 'must not be in the future' }] : []),
    ...(until !== null && until < since ? [{ path: '/until', message: 'must not be before since' }] : []),
  ]
  if (faults.length > 0) throw invalid(faults)
  const end = Math.min(until?.getTime() ?? now, now)
  return { since, until: new Date(end), states: [...new Set(states)], createdAt: new Date(now) }
}

function notFound(): never {
  throw new HubError('not_found', 'There is no such replay.')
}

function tooMany(): never {
  throw new HubError(
    'conflict',
    `${MAX_RUNNING} replays of this subscription are running: wait for one to end, or cancel one.`,
  )
}
