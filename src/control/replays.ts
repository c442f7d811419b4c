// The replay of a range as the control plane makes it: it is counted and written down here, and worked off by upkeep.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { cancelReplay, countReplayable, countRunning, findReplay, insertReplay } from '../store/replays.ts'
import type { Replay, ReplayRange, ReplayedState } from '../store/replays.ts'
import { lockSubscription } from '../store/subscriptions.ts'
import type { TenantDatabase } from '../store/tenant.ts'
import { getSubscription } from './subscriptions.ts'
import { invalid } from './validation.ts'

/** Of one subscription at a time. They take turns: a second one begins to queue when the first has queued all of its own. */
export const MAX_RUNNING = 3

export interface ReplayWish {
  subscriptionId: string
  since: Date
  /** Null: now. */
  until: Date | null
  states: readonly ReplayedState[]
}

/** The range that a wish comes to at this moment, and how many events are in it. Throws `not_found`, `invalid_request`. */
export async function countRange(
  db: TenantDatabase,
  wish: ReplayWish,
  { clock }: { clock: Clock },
): Promise<{ range: ReplayRange; total: number }> {
  const { tenantId, id: subscriptionId } = await getSubscription(db, wish.subscriptionId)
  const range = { tenantId, subscriptionId, ...bounded(wish, clock.now()) }
  return { range, total: await countReplayable(db, range) }
}

/** Begins a replay. Throws `not_found`, `invalid_request`; `conflict` when as many as may are running. */
export async function beginReplay(db: TenantDatabase, wish: ReplayWish, deps: { clock: Clock }): Promise<Replay> {
  const { range, total } = await countRange(db, wish, deps)
  const { id } = (await lockSubscription(db, range.subscriptionId)) ?? notFound()
  if ((await countRunning(db, id)) >= MAX_RUNNING) tooMany()
  return await insertReplay(db, { ...range, total })
}

/** Throws `not_found`. */
export async function getReplay(db: TenantDatabase, id: string): Promise<Replay> {
  return (await findReplay(db, id)) ?? notFound()
}

/** Ends it, if it is running; answers it as it is then. Throws `not_found`. */
export async function endReplay(db: TenantDatabase, id: string, { clock }: { clock: Clock }): Promise<Replay> {
  return (await cancelReplay(db, { id, now: new Date(clock.now()) })) ?? notFound()
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
