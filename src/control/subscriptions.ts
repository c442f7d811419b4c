// What can be done to a subscription. Every change is one transaction: the row is locked, what it becomes is decided by pure
// functions, and the lane is told, so that the change takes effect on what is queued. Locks: subscription, destination, lane, turn.
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import type { Actor } from '../event/actor.ts'
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
import { insertChange, type ChangeKind } from '../store/subscription-history.ts'
import type { TenantDatabase } from '../store/tenant.ts'
import { insist, NO_CONDITIONS, type Conditions } from './preconditions.ts'
import type { IssuedSecret, Sealing } from './sealing.ts'
import type { NewSecret } from './sink-secrets.ts'
import { fieldChanges } from './subscription-changes.ts'
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
  { wish, issued, by }: { wish: Wish; issued: IssuedSecret; by: Actor },
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
  const changes = fieldChanges(null, subscription)
  await insertChange(db, { subscriptionId: subscription.id, version: 1, what: 'created', at: now, by, changes })
  return subscription
}

/** Which one is to be changed, in which version, and by whom. */
export interface Target {
  id: string
  conditions: Conditions
  by: Actor
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
  const decide = async (current: Subscription): Promise<Decision> => {
    const { draft, secrets } = wishOf(current)
    if (secrets.length === 0 && isAsItWas(current, draft)) return { next: current }
    const subscription = edited(current, draft)
    const hadSecrets = secretPlaces(current.sink).length > 0
    if (hadSecrets || secrets.length > 0) await keepSinkSecrets(db, { subscription, secrets }, deps)
    const brought = secretPlaces(subscription.sink).filter((place) =>
      secrets.some(({ field }) => field === place.field),
    )
    return { next: subscription, replaced: brought.map(({ path }) => `/sink${path}`) }
  }
  return await change(db, { ...target, what: 'updated', decide }, deps)
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
  const decide = (current: Subscription): Decision => ({ next: paused(current, reason, now) })
  return await change(db, { ...target, what: 'paused', decide }, deps)
}

/** Switches it on, whoever had switched it off, and forgets its failure streak. Throws `not_found`, `precondition_failed`. */
export async function resumeSubscription(
  db: TenantDatabase,
  target: Target,
  deps: SubscriptionDeps,
): Promise<Subscription> {
  return await change(db, { ...target, what: 'resumed', decide: (current) => ({ next: resumed(current) }) }, deps)
}

/**
 * Records a probe's outcome, if the sink is still the one that was probed; answers the subscription as it is then. Success
 * activates, and enables again what the hub itself had switched off; a failure never takes back an earlier success.
 */
export async function recordProbe(
  db: TenantDatabase,
  { probed, worked, by }: { probed: Subscription; worked: boolean; by: Actor },
  deps: SubscriptionDeps,
): Promise<{ subscription: Subscription; recorded: boolean }> {
  let recorded = false
  const decide = (current: Subscription): Decision => {
    recorded = JSON.stringify(current.sink) === JSON.stringify(probed.sink)
    return { next: recorded ? afterProbe(current, worked) : current }
  }
  const what = worked ? verificationKind : 'verification_failed'
  const subscription = await change(db, { id: probed.id, conditions: NO_CONDITIONS, by, what, decide }, deps)
  return { subscription, recorded }
}

/**
 * The issued secret signs from here on; those before it go on signing for `overlapMs` at most. Throws `not_found`,
 * `precondition_failed`.
 */
export async function rotateSigningSecret(
  db: TenantDatabase,
  { issued, overlapMs, ...target }: Target & { issued: IssuedSecret; overlapMs: number },
  deps: SubscriptionDeps,
): Promise<{ subscription: Subscription; oldUntil: Date }> {
  const now = new Date(deps.clock.now())
  const oldUntil = new Date(now.getTime() + overlapMs)
  const { id } = target
  const { sealed } = issued
  const rotation = { subscriptionId: id, field: SIGNING_SECRET, sealed, now, oldUntil, oldOnes: MAX_OLD_SECRETS }
  const decide = async (current: Subscription): Promise<Decision> => {
    await rotateSecret(db, rotation)
    return { next: { ...current }, replaced: ['/signing_secret'] }
  }
  const subscription = await change(db, { ...target, what: 'secret_rotated', decide }, deps)
  return { subscription, oldUntil }
}

/** From here on it matches nothing and is not found; what is queued for it is cancelled by and by. Throws `not_found`, `precondition_failed`. */
export async function deleteSubscription(
  db: TenantDatabase,
  { id, conditions, by }: Target,
  { clock }: Pick<SubscriptionDeps, 'clock'>,
): Promise<void> {
  const current = (await lockSubscription(db, id)) ?? notFound()
  insist(current, conditions)
  const now = new Date(clock.now())
  await markDeleted(db, { id: current.id, now })
  const version = current.version + 1
  await insertChange(db, { subscriptionId: current.id, version, what: 'deleted', at: now, by, changes: [] })
  await renewLane(db, { subscriptionId: current.id, freshStart: false })
  await wakeLanes(db, [current.id])
}

interface Decision {
  /** The very object that was given when there is nothing to change. */
  next: Subscription
  /** Where secrets have taken the place of others, by JSON pointers. */
  replaced?: readonly string[]
}

interface Change extends Target {
  what: ChangeKind | ((before: Subscription, after: Subscription) => ChangeKind)
  decide: (current: Subscription) => Decision | Promise<Decision>
}

async function change(
  db: TenantDatabase,
  { id, conditions, by, what, decide }: Change,
  { clock }: Pick<SubscriptionDeps, 'clock'>,
): Promise<Subscription> {
  const current = (await lockSubscription(db, id)) ?? notFound()
  insist(current, conditions)
  const decided = await decide(current)
  if (decided.next === current) return current
  const at = new Date(clock.now())
  const next = { ...decided.next, version: current.version + 1, updatedAt: at }
  await updateSubscription(db, next)
  const kind = typeof what === 'string' ? what : what(current, next)
  const changes = fieldChanges(current, next, decided.replaced)
  await insertChange(db, { subscriptionId: next.id, version: next.version, what: kind, at, by, changes })
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

function verificationKind(before: Subscription, after: Subscription): ChangeKind {
  return after.enabled && !before.enabled ? 'enabled_by_verification' : 'verified'
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
