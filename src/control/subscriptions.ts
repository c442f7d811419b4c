// What can be done to a subscription. Every change is one transaction: the row is locked, what it becomes is decided by pure
// functions, and the lane is told, so that the change takes effect on what is queued. Locks: subscription, destination, lane, turn.
import { randomUUIDv7 } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import type { Subscription } from '../event/subscription.ts'
import { SIGNING_SECRET, newSigningSecret, type SecretBox } from '../secrets/secrets.ts'
import { wakeLanes } from '../store/lanes.ts'
import type { Database, Pool } from '../store/pool.ts'
import {
  findSubscription,
  insertDestination,
  insertSubscription,
  lockSubscription,
  markDeleted,
  renewLane,
  rotateSecret,
  updateSubscription,
  type TenantObject,
} from '../store/subscriptions.ts'
import { transaction } from '../store/transaction.ts'
import type { SinkRules, SubscriptionDraft } from './subscription-draft.ts'

/** A request carries a signature for each live secret. */
const MAX_OLD_SECRETS = 4

export interface SubscriptionDeps {
  pool: Pool
  clock: Clock
  secrets: Pick<SecretBox, 'seal'>
  sinkRules: SinkRules
}

/** Stores a new subscription, not verified yet. `signingSecret` is nowhere else to be had in the clear. */
export async function createSubscription(
  tenantId: string,
  draft: SubscriptionDraft,
  { pool, clock, secrets }: SubscriptionDeps,
): Promise<{ subscription: Subscription; signingSecret: string }> {
  const now = new Date(clock.now())
  const subscription: Subscription = {
    ...draft,
    id: randomUUIDv7(),
    tenantId,
    verificationState: 'pending',
    disabledReason: null,
    disabledAt: null,
    version: 1,
    createdAt: now,
    updatedAt: now,
  }
  const { text, sealed } = await newSealedSecret(subscription, secrets)
  await insertSubscription(pool, { subscription, secret: { field: SIGNING_SECRET, sealed } })
  return { subscription, signingSecret: text }
}

/** Throws `not_found`. */
export async function getSubscription(
  object: TenantObject,
  { pool }: Pick<SubscriptionDeps, 'pool'>,
): Promise<Subscription> {
  return (await findSubscription(pool, object)) ?? notFound()
}

/** Changes what `draftOf` makes of the stored one. Another address has to be verified again before anything is sent to it. */
export async function editSubscription(
  object: TenantObject,
  draftOf: (current: Subscription) => SubscriptionDraft,
  deps: SubscriptionDeps,
): Promise<Subscription> {
  return await change(object, deps, (current) => edited(current, draftOf(current)))
}

/**
 * Records a probe's outcome, if the sink is still the one that was probed; answers the subscription as it is then. Success
 * activates, and enables again what the hub itself had switched off; a failure never takes back an earlier success.
 */
export async function recordProbe(
  probed: Subscription,
  worked: boolean,
  deps: SubscriptionDeps,
): Promise<{ subscription: Subscription; recorded: boolean }> {
  let recorded = false
  const subscription = await change(probed, deps, (current) => {
    recorded = JSON.stringify(current.sink) === JSON.stringify(probed.sink)
    return recorded ? afterProbe(current, worked) : current
  })
  return { subscription, recorded }
}

/** A new signing secret; those before it go on signing for `overlapMs` at most. */
export async function rotateSigningSecret(
  object: TenantObject,
  overlapMs: number,
  deps: SubscriptionDeps,
): Promise<{ signingSecret: string; oldUntil: Date }> {
  const now = new Date(deps.clock.now())
  const oldUntil = new Date(now.getTime() + overlapMs)
  const { text, sealed } = await newSealedSecret(object, deps.secrets)
  await change(object, deps, async (current, db) => {
    const { id: subscriptionId, tenantId } = current
    await rotateSecret(db, {
      subscriptionId,
      tenantId,
      field: SIGNING_SECRET,
      sealed,
      now,
      oldUntil,
      oldOnes: MAX_OLD_SECRETS,
    })
    return { ...current }
  })
  return { signingSecret: text, oldUntil }
}

/** From here on it matches nothing and is not found; what is queued for it is cancelled by and by. */
export async function deleteSubscription(object: TenantObject, { pool, clock }: SubscriptionDeps): Promise<void> {
  await transaction(pool, async (db) => {
    const current = (await lockSubscription(db, object)) ?? notFound()
    await markDeleted(db, { ...object, now: new Date(clock.now()) })
    await renewLane(db, { subscriptionId: current.id, freshStart: false })
    await wakeLanes(db, [current.id])
  })
}

type Decide = (current: Subscription, db: Database) => Subscription | Promise<Subscription>

/** `decide` answers the very object that it was given when there is nothing to change. */
async function change(object: TenantObject, { pool, clock }: SubscriptionDeps, decide: Decide): Promise<Subscription> {
  return await transaction(pool, async (db) => {
    const current = (await lockSubscription(db, object)) ?? notFound()
    const decided = await decide(current, db)
    if (decided === current) return current
    const next = { ...decided, version: current.version + 1, updatedAt: new Date(clock.now()) }
    await updateSubscription(db, next)
    if (next.destinationKey !== current.destinationKey) await insertDestination(db, next)
    await renewLane(db, { subscriptionId: next.id, freshStart: next.enabled && !current.enabled })
    // Also when nothing can be sent now: the next claim finds that out, and puts the lane where it belongs.
    await wakeLanes(db, [next.id])
    return next
  })
}

function edited(current: Subscription, draft: SubscriptionDraft): Subscription {
  const moved = draft.destinationKey !== current.destinationKey
  return {
    ...current,
    ...draft,
    verificationState: moved ? 'pending' : current.verificationState,
    ...(draft.enabled && { disabledReason: null, disabledAt: null }),
  }
}

function afterProbe(current: Subscription, worked: boolean): Subscription {
  const { verificationState, disabledReason } = current
  if (!worked) return verificationState === 'pending' ? { ...current, verificationState: 'failed' } : current
  if (verificationState === 'active' && disabledReason === null) return current
  const enabled = current.enabled || disabledReason !== null
  return { ...current, verificationState: 'active', enabled, disabledReason: null, disabledAt: null }
}

async function newSealedSecret(
  { tenantId, id }: TenantObject,
  secrets: Pick<SecretBox, 'seal'>,
): Promise<{ text: string; sealed: string }> {
  const { text } = newSigningSecret()
  return { text, sealed: await secrets.seal(text, { tenantId, subscriptionId: id, field: SIGNING_SECRET }) }
}

function notFound(): never {
  throw new HubError('not_found', 'There is no such subscription.')
}
