// /v1/events: one stored event, and why which subscription got it.
import { HubError } from '../../base/errors.ts'
import type { Event } from '../../event/event.ts'
import type { Subscription } from '../../event/subscription.ts'
import { listEventDeliveries, type Delivery } from '../../store/deliveries.ts'
import { findEvent, type StoredEvent } from '../../store/events.ts'
import { listPastSubscriptions, type PastSubscription } from '../../store/subscriptions.ts'
import type { AsTenant, TenantDatabase } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import { EventSchema, ExplainQuery, Explanation, type ExplanationJson } from '../schemas/event.ts'
import { viewEvent } from '../views/event.ts'

const LIST = 'explanations'
const MAX_DELIVERIES = 1000
const tags = ['events']

export interface EventRouteDeps {
  asTenant: AsTenant
  /** Everything that keeps an event from matching a subscription of its tenant; none: it matches. */
  mismatches: (event: Event, subscription: Subscription) => ExplanationJson['reasons']
}

export function eventRoutes(api: Api, deps: EventRouteDeps): void {
  addRead(api, deps)
  addExplain(api, deps)
}

function addRead(api: Api, { asTenant }: EventRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/events/:id',
    config: { access: 'events:read', problems: ['not_found'] },
    schema: {
      operationId: 'getEvent',
      summary: 'Read one event with its deliveries',
      description: 'As it was stored, with every delivery that was made of it.',
      tags,
      params: idParams('event'),
      response: { 200: refer(EventSchema) },
    },
    handler: async (request) => {
      return await asTenant(callerOf(request), async (db) => {
        const stored = await getEvent(db, request.params.id)
        return viewEvent(stored, await deliveriesOf(db, stored))
      })
    },
  })
}

function addExplain(api: Api, { asTenant, mismatches }: EventRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/events/:id/explain',
    config: { access: 'events:read', problems: ['not_found'] },
    schema: {
      operationId: 'explainEvent',
      summary: 'For every subscription: does this event match, or why not?',
      description:
        'Also subscriptions that were made later, or are deleted by now, the newest first. By what they are now, beside the deliveries that were made then.',
      tags,
      params: idParams('event'),
      querystring: ExplainQuery,
      response: { 200: Page(Explanation) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const before = decodeCursor(LIST, cursor, isUuid)
      const { stored, deliveries, found } = await asTenant(callerOf(request), async (db) => {
        const event = await getEvent(db, request.params.id)
        const page = await listPastSubscriptions(db, { before, limit: limit + 1, at: event.receivedAt })
        return { stored: event, deliveries: await deliveriesOf(db, event), found: page }
      })
      const view = (past: PastSubscription) => {
        const reasons = [...absence(past, stored), ...mismatches(stored.event, past.subscription)]
        return viewExplanation(past.subscription, reasons, deliveries)
      }
      return pageOf(found, { list: LIST, limit, key: ({ subscription }) => subscription.id, view })
    },
  })
}

function absence(
  { subscription, deletedAt }: PastSubscription,
  { receivedAt }: StoredEvent,
): ExplanationJson['reasons'] {
  return [
    ...(deletedAt === null ? [] : (['deleted'] as const)),
    ...(subscription.createdAt > receivedAt ? (['created_later'] as const) : []),
  ]
}

function viewExplanation(
  subscription: Subscription,
  reasons: ExplanationJson['reasons'],
  deliveries: readonly Delivery[],
): ExplanationJson {
  const own = deliveries.filter(({ subscriptionId }) => subscriptionId === subscription.id)
  return {
    subscription_id: subscription.id,
    subscription_name: subscription.name,
    matched: reasons.length === 0,
    reasons,
    delivery_ids: own.map(({ id }) => id),
    deliveries: own.map(({ id, kind, state }) => ({ id, kind, state })),
  }
}

async function getEvent(db: TenantDatabase, id: string): Promise<StoredEvent> {
  const found = await findEvent(db, id)
  if (!found) throw new HubError('not_found', 'There is no such event.')
  return found
}

async function deliveriesOf(db: TenantDatabase, { event, receivedAt }: StoredEvent): Promise<Delivery[]> {
  return await listEventDeliveries(db, { id: event.id, receivedAt, limit: MAX_DELIVERIES })
}
