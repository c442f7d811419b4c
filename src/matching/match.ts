// Which subscriptions an event goes to: the rule itself, as a pure function that also says every reason why not. Ingest applies the
// same rule in the database, written as SQL; a test holds the two together. A deleted subscription is none, and never asked about.
import { isKeySegment } from '../event/event-key.ts'
import type { Event } from '../event/event.ts'
import type { Subscription } from '../event/subscription.ts'

/** In the order in which they are told. */
export type MismatchReason = 'tenant' | 'disabled' | 'unverified' | 'origin' | 'event_type' | 'schema_major'

export type Match = { matched: true } | { matched: false; reasons: MismatchReason[] }

/** What of an event decides. */
export type MatchableEvent = Pick<Event, 'tenantId' | 'source' | 'key' | 'resourceType' | 'schemaMajor'>

/** What of a subscription decides; an origin or a schema major of null takes any. */
export type MatchableSubscription = Pick<
  Subscription,
  'tenantId' | 'origin' | 'eventTypes' | 'schemaMajor' | 'enabled' | 'verificationState'
>

/** Whether the event goes to the subscription, or everything that stands against it. */
export function match(event: MatchableEvent, subscription: MatchableSubscription): Match {
  const { tenantId, origin, eventTypes, schemaMajor, enabled, verificationState } = subscription
  const reasons: MismatchReason[] = []
  if (tenantId !== event.tenantId) reasons.push('tenant')
  if (!enabled) reasons.push('disabled')
  if (verificationState !== 'active') reasons.push('unverified')
  if (origin !== null && origin !== event.source) reasons.push('origin')
  if (!eventTypes.some((pattern) => covers(pattern, event))) reasons.push('event_type')
  if (schemaMajor !== null && schemaMajor !== event.schemaMajor) reasons.push('schema_major')
  return reasons.length === 0 ? { matched: true } : { matched: false, reasons }
}

function covers(pattern: string, { key, resourceType }: MatchableEvent): boolean {
  return pattern === '*' || pattern === key || pattern === `${resourceType}.*`
}

/** Whether a subscription may ask for `text`: an exact key `<resource>.<event>`, `<resource>.*` or `*`. */
export function isEventTypePattern(text: string): boolean {
  if (text === '*') return true
  const [resource, event, ...more] = text.split('.')
  if (resource === undefined || event === undefined || more.length > 0) return false
  return isKeySegment(resource) && (event === '*' || isKeySegment(event))
}
