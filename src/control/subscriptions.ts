// What can be done to a subscription. Every change is one transaction: the row is locked, what it becomes is decided by pure
// functions, and the lane is told, so that the change takes effect on what is queued. Locks: subscription, destination, lane, turn.
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import type { Subscription } from '../event/subscription.ts'
import { secretPlaces } from '../event/sink-secrets.ts'
import { SIGNING_SECRET } from '../secrets/secrets.ts'
import { wakeLanes } from '../store/lanes.ts'
import {
  findSubscription,
  insertDestination,
  insertSubscription,
  lockSubscription,
  markDeleted,
  renewLane,
  rotateSecret,
  saveSinkSecrets,
  updateSubscription,
} from '../store/subscriptions.ts'
import type { TenantDatabase } from '../store/tenant.ts'
import { insist, NO_CONDITIONS, type Conditions } from './preconditions.ts'
import type { IssuedSecret, Sealing } from './sealing.ts'
import type { NewSecret } from './sink-secrets.ts'
import type { SinkRules, SubscriptionDraft, Wish } from './subscription-draft.ts'

/** A request carries a signature for each live secret: of v1 alone, 5 × 68 bytes. */
export const MAX_OLD_SECRETS = 4

export interface SubscriptionDeps {
  clock: Clock
  secrets: Sealing
  sinkRules: SinkRules
}

/** Stores a new subscription, not verified yet, under the id that its secret was issued for. */
export async function createSubscription(
  db: TenantDatabase,
  { wish, issued }: { wish: Wish; issued: IssuedSecret },
  deps: SubscriptionDeps,
): Promise<Subscription> {
  const now = new Date(deps.clock.now())
  const subscription: Subscription = {
    ...wish.draft,
    id: issued.subscriptionId,
    tenantId: db.tenantId,
    verificationState: 'pending',
    disabledReason: null,
    disabledAt: null,
    disabledByOwner: false,
    version: 1,
    createdAt: now,
    updatedAt: now,
  }
  await insertSubscription(db, { subscription, secret: { field: SIGNING_SECRET, sealed: issued.sealed } })
  if (wish.secrets.length > 0) await keepSinkSecrets(db, { subscription, secrets: wish.secrets }, deps)
  return subscription
}

/** Which one is to be changed, and in which version. */
export interface Target {
  id: string
  conditions: Conditions
}

/** Throws `not_found`. */
export async function getSubscription(db: TenantDatabase, id: string): Promise<Subscription> {
  return (await findSubscription(db, id)) ?? notFound()
}

/**
 * Changes what `wishOf` makes of the stored one. Another address has to be verified again before anything is sent to it; other
 * credentials have not. What comes to the same is no change. Throws `not_found`, `precondition_failed`.
 */
export async function editSubscription(
  db: TenantDatabase,
  { wishOf, ...target }: Target & { wishOf: (current: Subscription) => Wish },
  deps: SubscriptionDeps,
): Promise<Subscription> {
  const decide = async (current: Subscription): Promise<Subscription> => {
    const { draft, secrets } = wishOf(current)
    if (secrets.length === 0 && isAsItWas(current, draft)) return current
    const subscription = edited(current, draft)
    const hadSecrets = secretPlaces(current.sink).length > 0
    if (hadSecrets || secrets.length > 0) await keepSinkSecrets(db, { subscription, secrets }, deps)
    return subscription
  }
  return await change(db, { ...target, decide }, deps)
}

/**
 * Switches it off in its owner's name: it matches nothing, what is queued for it is held, and no verification enables it. One that its
 * owner has switched off stays as it is. Throws `not_found`, `precondition_failed`.
 */
export async function pauseSubscription(
  db: TenantDatabase,
  { reason, ...target }: Target & { reason: string | null },
  deps: SubscriptionDeps,
): Promise<Subscription> {
  const now = new Date(deps.clock.now())
  return await change(db, { ...target, decide: (current) => paused(current, reason, now) }, deps)
}

/** Switches it on, whoever had switched it off, and forgets its failure streak. Throws `not_found`, `precondition_failed`. */
export async function resumeSubscription(
  db: TenantDatabase,
  target: Target,
  deps: SubscriptionDeps,
): Promise<Subscription> {
  return await change(db, { ...target, decide: resumed }, deps)
}

/**
 * Records a probe's outcome, if the sink is still the one that was probed; answers the subscription as it is then. Success
 * activates, and enables again what the hub itself had switched off; a failure never takes back an earlier success.
 */
export async function recordProbe(
  db: TenantDatabase,
  { probed, worked }: { probed: Subscription; worked: boolean },
  deps: SubscriptionDeps,
): Promise<{ subscription: Subscription; recorded: boolean }> {
  let recorded = false
  const decide = (current: Subscription): Subscription => {
    recorded = JSON.stringify(current.sink) === JSON.stringify(probed.sink)
    return recorded ? afterProbe(current, worked) : current
  }
  const subscription = await change(db, { id: probed.id, conditions: NO_CONDITIONS, decide }, deps)
  return { subscription, recorded }
}

/**
 * The issued secret signs from here on; those before it go on signing for `overlapMs` at most. Throws `not_found`,
 * `precondition_failed`.
 */
export async function rotateSigningSecret(
  db: TenantDatabase,
  { id, conditions, issued, overlapMs }: Target & { issued: IssuedSecret; overlapMs: number },
  deps: SubscriptionDeps,
): Promise<{ subscription: Subscription; oldUntil: Date }> {
  const now = new Date(deps.clock.now())
  const oldUntil = new Date(now.getTime() + overlapMs)
  const { sealed } = issued
  const rotation = { subscriptionId: id, field: SIGNING_SECRET, sealed, now, oldUntil, oldOnes: MAX_OLD_SECRETS }
  const decide = async (current: Subscription): Promise<Subscription> => {
    await rotateSecret(db, rotation)
    return { ...current }
  }
  const subscription = await change(db, { id, conditions, decide }, deps)
  return { subscription, oldUntil }
}

/** From here on it matches nothing and is not found; what is queued for it is cancelled by and by. Throws `not_found`, `precondition_failed`. */
export async function deleteSubscription(
  db: TenantDatabase,
  { id, conditions }: Target,
  { clock }: Pick<SubscriptionDeps, 'clock'>,
): Promise<void> {
  const current = (await lockSubscription(db, id)) ?? notFound()
  insist(current, conditions)
  await markDeleted(db, { id: current.id, now: new Date(clock.now()) })
  await renewLane(db, { subscriptionId: current.id, freshStart: false })
  await wakeLanes(db, [current.id])
}

interface Change extends Target {
  /** Answers the very object that it was given when there is nothing to change. */
  decide: (current: Subscription) => Subscription | Promise<Subscription>
}

async function change(
  db: TenantDatabase,
  { id, conditions, decide }: Change,
  { clock }: Pick<SubscriptionDeps, 'clock'>,
): Promise<Subscription> {
  const current = (await lockSubscription(db, id)) ?? notFound()
  insist(current, conditions)
  const decided = await decide(current)
  if (decided === current) return current
  const next = { ...decided, version: current.version + 1, updatedAt: new Date(clock.now()) }
  await updateSubscription(db, next)
  if (next.destinationKey !== current.destinationKey) await insertDestination(db, next.destinationKey)
  await renewLane(db, { subscriptionId: next.id, freshStart: next.enabled && !current.enabled })
  // Also when nothing can be sent now: the next claim finds that out, and puts the lane where it belongs.
  await wakeLanes(db, [next.id])
  return next
}

const NOT_DISABLED = { disabledReason: null, disabledAt: null, disabledByOwner: false }

/** Compared as it is stored. */
function isAsItWas(current: Subscription, draft: SubscriptionDraft): boolean {
  return Object.entries(draft).every(([name, value]) =>
    isDeepStrictEqual(value, new Map(Object.entries(current)).get(name)),
  )
}

function edited(current: Subscription, draft: SubscriptionDraft): Subscription {
  const moved = draft.destinationKey !== current.destinationKey
  return {
    ...current,
    ...draft,
    verificationState: moved ? 'pending' : current.verificationState,
    ...(draft.enabled && NOT_DISABLED),
  }
}

function paused(current: Subscription, reason: string | null, now: Date): Subscription {
  const isItsOwners = current.disabledReason === null || current.disabledByOwner
  if (!current.enabled && isItsOwners) return current
  const why = reason === null ? NOT_DISABLED : { disabledReason: reason, disabledAt: now, disabledByOwner: true }
  return { ...current, enabled: false, ...why }
}

function resumed(current: Subscription): Subscription {
  return current.enabled ? current : { ...current, enabled: true, ...NOT_DISABLED }
}

function afterProbe(current: Subscription, worked: boolean): Subscription {
  const { verificationState, disabledReason, disabledByOwner } = current
  if (!worked) return verificationState === 'pending' ? { ...current, verificationState: 'failed' } : current
  const isDisabledByHub = disabledReason !== null && !disabledByOwner
  if (verificationState === 'active' && !isDisabledByHub) return current
  return { ...current, verificationState: 'active', ...(isDisabledByHub && { enabled: true, ...NOT_DISABLED }) }
}

/** Of a sink without secrets none stay. */
async function keepSinkSecrets(
  db: TenantDatabase,
  { subscription, secrets }: { subscription: Subscription; secrets: readonly NewSecret[] },
  deps: SubscriptionDeps,
): Promise<void> {
  const { id: subscriptionId, tenantId } = subscription
  const sealed = await Promise.all(
    secrets.map(async ({ field, text }) => {
      return { field, sealed: await deps.secrets.seal(text, { tenantId, subscriptionId, field }) }
    }),
  )
  const fields = secretPlaces(subscription.sink).map(({ field }) => field)
  await saveSinkSecrets(db, { subscriptionId, fields, sealed, now: new Date(deps.clock.now()) })
}

function notFound(): never {
  throw new HubError('not_found', 'There is no such subscription.')
}
