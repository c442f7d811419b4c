// /v1/events: one stored event, and why which subscription got it.
import { HubError } from '../../base/errors.ts'
import type { Event } from '../../event/event.ts'
import type { Subscription } from '../../event/subscription.ts'
import { listEventDeliveries, type Delivery } from '../../store/deliveries.ts'
import { findEvent, type StoredEvent } from '../../store/events.ts'
import type { Pool } from '../../store/pool.ts'
import { listSubscriptions, type TenantObject } from '../../store/subscriptions.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, IdParams, Page, isUuid, refer } from '../schemas/common.ts'
import { EventSchema, ExplainQuery, Explanation, type ExplanationJson } from '../schemas/event.ts'
import { viewEvent } from '../views/event.ts'

const LIST = 'explanations'
const MAX_DELIVERIES = 1000
const tags = ['events']

export interface EventRouteDeps {
  pool: Pool
  /** Everything that keeps an event from matching a subscription of its tenant; none: it matches. */
  mismatches: (event: Event, subscription: Subscription) => ExplanationJson['reasons']
}

export function eventRoutes(api: Api, deps: EventRouteDeps): void {
  addRead(api, deps)
  addExplain(api, deps)
}

function addRead(api: Api, { pool }: EventRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/events/:id',
    config: { access: 'events:read', problems: ['not_found'] },
    schema: {
      operationId: 'getEvent',
      summary: 'Read one event with its deliveries',
      tags,
      params: IdParams,
      response: { 200: refer(EventSchema) },
    },
    handler: async (request) => {
      const stored = await getEvent(pool, { tenantId: callerOf(request).tenantId, id: request.params.id })
      return viewEvent(stored, await deliveriesOf(pool, stored))
    },
  })
}

function addExplain(api: Api, { pool, mismatches }: EventRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/events/:id/explain',
    config: { access: 'events:read', problems: ['not_found'] },
    schema: {
      operationId: 'explainEvent',
      summary: 'For every subscription: does this event match, or why not?',
      tags,
      params: IdParams,
      querystring: ExplainQuery,
      response: { 200: Page(Explanation) },
    },
    handler: async (request) => {
      const { tenantId } = callerOf(request)
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const before = decodeCursor(LIST, cursor, isUuid)
      const stored = await getEvent(pool, { tenantId, id: request.params.id })
      const deliveries = await deliveriesOf(pool, stored)
      const any = { enabled: null, verificationState: null, origin: null }
      const found = await listSubscriptions(pool, { tenantId, before, limit: limit + 1, ...any })
      const view = (subscription: Subscription) =>
        viewExplanation(subscription, mismatches(stored.event, subscription), deliveries)
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view })
    },
  })
}

function viewExplanation(
  subscription: Subscription,
  reasons: ExplanationJson['reasons'],
  deliveries: readonly Delivery[],
): ExplanationJson {
  return {
    subscription_id: subscription.id,
    subscription_name: subscription.name,
    matched: reasons.length === 0,
    reasons,
    delivery_ids: deliveries.filter(({ subscriptionId }) => subscriptionId === subscription.id).map(({ id }) => id),
  }
}

async function getEvent(pool: Pool, object: TenantObject): Promise<StoredEvent> {
  const found = await findEvent(pool, object)
  if (!found) throw new HubError('not_found', 'There is no such event.')
  return found
}

async function deliveriesOf(pool: Pool, { event, receivedAt }: StoredEvent): Promise<Delivery[]> {
  return await listEventDeliveries(pool, { tenantId: event.tenantId, id: event.id, receivedAt, limit: MAX_DELIVERIES })
}
