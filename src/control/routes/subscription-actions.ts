// What is done with a subscription beside changing its fields: verify it, rotate its secret, look at its deliveries.
import { listDeliveries } from '../../store/deliveries.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, IdParams, Page, isUuid, refer } from '../schemas/common.ts'
import { DeliveryQuery, DeliverySchema } from '../schemas/delivery.ts'
import { RotateSecret, SecretRotated, VerificationSchema } from '../schemas/subscription.ts'
import { durationMs } from '../subscription-draft.ts'
import { getSubscription, rotateSigningSecret } from '../subscriptions.ts'
import { viewDelivery } from '../views/delivery.ts'
import { viewSubscription } from '../views/subscription.ts'
import type { SubscriptionRouteDeps } from './subscriptions.ts'
import { timeBounds } from './time-bounds.ts'

const LIST = 'deliveries'
const DEFAULT_OVERLAP = '24h'

export function subscriptionActionRoutes(api: Api, deps: SubscriptionRouteDeps): void {
  addVerify(api, deps)
  addRotateSecret(api, deps)
  addListDeliveries(api, deps)
}

function addVerify(api: Api, { verification }: SubscriptionRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/verify',
    config: { access: 'subscriptions:write', limit: 'aggressive', problems: ['not_found', 'conflict'] },
    schema: {
      operationId: 'verifySubscription',
      summary: 'Probe the destination now',
      description: 'Success makes it active, and enables again what the hub had switched off. Waits for the receiver.',
      tags: ['subscriptions'],
      params: IdParams,
      response: { 200: refer(VerificationSchema) },
    },
    handler: async (request) => {
      const object = { tenantId: callerOf(request).tenantId, id: request.params.id }
      const { outcome, subscription } = await verification.verify(object)
      const failure = outcome.kind === 'failed' ? outcome : null
      return {
        verified: failure === null,
        outcome: outcome.kind,
        status: outcome.status,
        error_class: failure?.errorClass ?? null,
        error_detail: failure?.detail ?? null,
        subscription: viewSubscription(subscription),
      }
    },
  })
}

function addRotateSecret(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/rotate-secret',
    config: { access: 'subscriptions:write', limit: 'aggressive', problems: ['not_found'] },
    schema: {
      operationId: 'rotateSecret',
      summary: 'A new signing secret; the old one signs too while the overlap lasts',
      description: 'The overlap is 24h when none is given, and 30d at most; with `0s` the old ones end at once.',
      tags: ['subscriptions'],
      params: IdParams,
      body: RotateSecret,
      response: { 200: refer(SecretRotated) },
    },
    preValidation: async (request) => {
      request.body ??= {}
    },
    handler: async (request) => {
      const rotation = { id: request.params.id, overlapMs: durationMs(request.body.overlap ?? DEFAULT_OVERLAP) }
      const { signingSecret, oldUntil } = await deps.asTenant(callerOf(request), (db) =>
        rotateSigningSecret(db, rotation, deps),
      )
      return { signing_secret: signingSecret, old_secrets_expire_at: oldUntil.toISOString() }
    },
  })
}

function addListDeliveries(api: Api, { asTenant }: SubscriptionRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions/:id/deliveries',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'listDeliveries',
      summary: "List a subscription's deliveries, the newest first",
      tags: ['deliveries'],
      params: IdParams,
      querystring: DeliveryQuery,
      response: { 200: Page(DeliverySchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, state } = request.query
      const list = {
        subscriptionId: request.params.id,
        before: decodeCursor(LIST, cursor, isUuid),
        limit: limit + 1,
        state: state ?? null,
        ...timeBounds(request.query),
      }
      const found = await asTenant(callerOf(request), async (db) => {
        await getSubscription(db, list.subscriptionId)
        return await listDeliveries(db, list)
      })
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: viewDelivery })
    },
  })
}
