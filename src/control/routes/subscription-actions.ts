// What is done with a subscription beside changing its fields: verify it, rotate its secret, look at its deliveries.
import { listDeliveries } from '../../store/deliveries.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, encodeCursor, pageOf } from '../cursor.ts'
import { conditionsOf, entityTag } from '../preconditions.ts'
import { answer } from '../schemas/answers.ts'
import { ConditionalHeaders, DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import { DeliveryQuery, DeliverySchema } from '../schemas/delivery.ts'
import {
  PauseSubscription,
  RotateSecret,
  SecretRotated,
  SubscriptionSchema,
  VerificationSchema,
} from '../schemas/subscription.ts'
import { durationMs } from '../subscription-draft.ts'
import { issueSigningSecret } from '../sealing.ts'
import {
  getSubscription,
  MAX_OLD_SECRETS,
  pauseSubscription,
  resumeSubscription,
  rotateSigningSecret,
} from '../subscriptions.ts'
import { viewDelivery } from '../views/delivery.ts'
import { viewSubscription } from '../views/subscription.ts'
import type { SubscriptionRouteDeps } from './subscriptions.ts'
import { timeBounds } from './time-bounds.ts'

const LIST = 'deliveries'
const DEFAULT_OVERLAP = '24h'

export function subscriptionActionRoutes(api: Api, deps: SubscriptionRouteDeps): void {
  addVerify(api, deps)
  addRotateSecret(api, deps)
  addPause(api, deps)
  addResume(api, deps)
  addListDeliveries(api, deps)
}

function addVerify(api: Api, { verification }: SubscriptionRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/verify',
    config: {
      access: 'subscriptions:write',
      limit: 'aggressive',
      problems: ['not_found', 'conflict', 'precondition_failed'],
    },
    schema: {
      operationId: 'verifySubscription',
      summary: 'Probe the destination now',
      description: 'Success makes it active, and enables again what the hub had switched off. Waits for the receiver.',
      tags: ['subscriptions'],
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      response: { 200: answer(refer(VerificationSchema), { headers: ['etag'] }) },
    },
    handler: async (request, reply) => {
      const by = callerOf(request)
      const conditions = conditionsOf(request.headers)
      const object = { tenantId: by.tenantId, id: request.params.id, conditions, by }
      const { outcome, subscription } = await verification.verify(object)
      reply.header('etag', entityTag(subscription))
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
    config: { access: 'subscriptions:write', limit: 'aggressive', problems: ['not_found', 'precondition_failed'] },
    schema: {
      operationId: 'rotateSecret',
      summary: 'A new signing secret; the old one signs too while the overlap lasts',
      description: `The overlap is 24h when none is given, and 30d at most; with \`0s\` the old ones end at once. No overlap is ever made longer by a later rotation, and no more than ${MAX_OLD_SECRETS} old ones go on: of more, the oldest end at once.`,
      tags: ['subscriptions'],
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      body: RotateSecret,
      response: { 200: answer(refer(SecretRotated), { headers: ['etag'] }) },
    },
    preValidation: async (request) => {
      request.body ??= {}
    },
    handler: async (request, reply) => {
      const by = callerOf(request)
      const { tenantId } = by
      const target = { id: request.params.id, conditions: conditionsOf(request.headers), by }
      const issued = await issueSigningSecret({ tenantId, subscriptionId: target.id }, deps.secrets)
      const rotation = { ...target, issued, overlapMs: durationMs(request.body.overlap ?? DEFAULT_OVERLAP) }
      const { subscription, oldUntil } = await deps.asTenant(by, (db) => rotateSigningSecret(db, rotation, deps))
      reply.header('etag', entityTag(subscription))
      return { signing_secret: issued.text, old_secrets_expire_at: oldUntil.toISOString() }
    },
  })
}

const WHILE_DISABLED = `While it is off it matches nothing: events that arrive then are stored and can be pulled, but no delivery is ever made of
them. What was queued before is held, and goes on when it is on again.`

function addPause(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/pause',
    config: { access: 'subscriptions:write', problems: ['not_found', 'precondition_failed'] },
    schema: {
      operationId: 'pauseSubscription',
      summary: 'Switch a subscription off, as `enabled: false` does, with a reason if you like',
      description: `${WHILE_DISABLED} One that its owner has switched off already stays as it is. One that the hub had switched off is its owner's from
then on: no verification enables it again.`,
      tags: ['subscriptions'],
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      body: PauseSubscription,
      response: { 200: answer(refer(SubscriptionSchema), { headers: ['etag'] }) },
    },
    preValidation: async (request) => {
      request.body ??= {}
    },
    handler: async (request, reply) => {
      const by = callerOf(request)
      const target = { id: request.params.id, conditions: conditionsOf(request.headers), by }
      const pause = { ...target, reason: request.body.reason ?? null }
      const subscription = await deps.asTenant(by, (db) => pauseSubscription(db, pause, deps))
      reply.header('etag', entityTag(subscription))
      return viewSubscription(subscription)
    },
  })
}

function addResume(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/resume',
    config: { access: 'subscriptions:write', problems: ['not_found', 'precondition_failed'] },
    schema: {
      operationId: 'resumeSubscription',
      summary: 'Switch a subscription on again, whoever had switched it off',
      description: `${WHILE_DISABLED} One that is on stays as it is. One that is not verified delivers nothing until it is.`,
      tags: ['subscriptions'],
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      response: { 200: answer(refer(SubscriptionSchema), { headers: ['etag'] }) },
    },
    handler: async (request, reply) => {
      const by = callerOf(request)
      const target = { id: request.params.id, conditions: conditionsOf(request.headers), by }
      const subscription = await deps.asTenant(by, (db) => resumeSubscription(db, target, deps))
      reply.header('etag', entityTag(subscription))
      return viewSubscription(subscription)
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
      description: `Unfinished and finished ones, in the order in which they were made: one that is finished while you page keeps its place, so it is shown
once. A filter that picks out few may answer a page that is not full, even empty, with a \`next_cursor\`: go on until that is null. A test by hand is
listed once it is finished.`,
      tags: ['deliveries'],
      params: idParams('subscription'),
      querystring: DeliveryQuery,
      response: { 200: Page(DeliverySchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, state, event_id, event_type, kind, reason, last_status } = request.query
      const list = {
        subscriptionId: request.params.id,
        before: decodeCursor(LIST, cursor, isUuid),
        limit,
        state: state ?? null,
        eventId: event_id ?? null,
        eventType: event_type ?? null,
        kind: kind ?? null,
        reason: reason ?? null,
        lastStatus: last_status ?? null,
        ...timeBounds(request.query),
      }
      const { found, lookedTo } = await asTenant(callerOf(request), async (db) => {
        await getSubscription(db, list.subscriptionId)
        return await listDeliveries(db, list)
      })
      const page = pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: viewDelivery })
      return lookedTo === null ? page : { ...page, next_cursor: encodeCursor(LIST, lookedTo) }
    },
  })
}
