// /v1/subscriptions: create, list, read, patch, delete.
import { Type } from 'typebox'
import type { Subscription } from '../../event/subscription.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { conditionsOf, entityTag, isUnchanged } from '../preconditions.ts'
import { answer } from '../schemas/answers.ts'
import { ConditionalHeaders, DEFAULT_LIMIT, idParams, NotModified, Page, isUuid, refer } from '../schemas/common.ts'
import {
  CreateSubscription,
  PatchSubscription,
  SubscriptionCreated,
  SubscriptionQuery,
  SubscriptionSchema,
} from '../schemas/subscription.ts'
import { listSubscriptions } from '../../store/subscriptions.ts'
import { patchWish, readWish, type Wish } from '../subscription-draft.ts'
import { issueSigningSecret, sealAhead, type Sealing } from '../sealing.ts'
import {
  createSubscription,
  deleteSubscription,
  editSubscription,
  getSubscription,
  type SubscriptionDeps,
} from '../subscriptions.ts'
import type { AsTenant } from '../../store/tenant.ts'
import type { Verification } from '../verification.ts'
import { viewSubscription } from '../views/subscription.ts'
import { timeBounds } from './time-bounds.ts'

const LIST = 'subscriptions'
const tags = ['subscriptions']

export interface SubscriptionRouteDeps extends SubscriptionDeps {
  asTenant: AsTenant
  verification: Verification
}

export function subscriptionRoutes(api: Api, deps: SubscriptionRouteDeps): void {
  addCreate(api, deps)
  addList(api, deps)
  addRead(api, deps)
  addPatch(api, deps)
  addDelete(api, deps)
}

function addCreate(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions',
    config: { access: 'subscriptions:write' },
    schema: {
      operationId: 'createSubscription',
      summary: 'Create a subscription; the answer alone shows its signing secret',
      description: 'Its verification begins at once; until it is `active`, nothing matches.',
      tags,
      body: CreateSubscription,
      response: { 201: answer(refer(SubscriptionCreated), { headers: ['location', 'etag'] }) },
    },
    handler: async (request, reply) => {
      const by = callerOf(request)
      const wish = readWish(request.body, deps.sinkRules)
      const { tenantId } = by
      const issued = await issueSigningSecret({ tenantId }, deps.secrets)
      const secrets = await sealAhead({ tenantId, ...issued }, wish.secrets, deps.secrets)
      const subscription = await deps.asTenant(by, (db) =>
        createSubscription(db, { wish, issued, by }, { ...deps, secrets }),
      )
      deps.verification.begin({ tenantId: by.tenantId, id: subscription.id, by })
      reply.code(201).headers({ location: `/v1/subscriptions/${subscription.id}`, etag: entityTag(subscription) })
      return { ...viewSubscription(subscription), signing_secret: issued.text }
    },
  })
}

function addList(api: Api, { asTenant, sinkRules }: SubscriptionRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions',
    config: { access: 'subscriptions:read' },
    schema: {
      operationId: 'listSubscriptions',
      summary: 'List subscriptions, the newest first',
      description: 'All filters together have to fit. Deleted ones are not listed.',
      tags,
      querystring: SubscriptionQuery,
      response: { 200: Page(SubscriptionSchema) },
    },
    handler: async (request) => {
      const {
        limit = DEFAULT_LIMIT,
        cursor,
        enabled,
        verification_state,
        origin,
        event_type,
        sink_url,
        name,
      } = request.query
      const sink = { kind: 'webhook', url: sink_url ?? '', headers: {} } as const
      const list = {
        before: decodeCursor(LIST, cursor, isUuid),
        limit: limit + 1,
        enabled: enabled ?? null,
        verificationState: verification_state ?? null,
        origin: origin ?? null,
        eventType: event_type ?? null,
        destinationKey: sink_url === undefined ? null : sinkRules.destinationKey(sink),
        name: name ?? null,
        ...timeBounds(request.query),
      }
      const found = await asTenant(callerOf(request), (db) => listSubscriptions(db, list))
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: viewSubscription })
    },
  })
}

function addRead(api: Api, { asTenant }: SubscriptionRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions/:id',
    config: { access: 'subscriptions:read', problems: ['not_found', 'precondition_failed'] },
    schema: {
      operationId: 'getSubscription',
      summary: 'Read one subscription',
      description: 'With `if-none-match` a 304 where it is as the caller knows it. Secrets read back as `***`.',
      tags,
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      response: {
        200: answer(refer(SubscriptionSchema), { headers: ['etag'] }),
        304: answer(NotModified, { headers: ['etag'] }),
      },
    },
    handler: async (request, reply) => {
      const { id } = request.params
      const subscription = await asTenant(callerOf(request), (db) => getSubscription(db, id))
      reply.header('etag', entityTag(subscription))
      if (isUnchanged(subscription, conditionsOf(request.headers))) return await reply.code(304).send()
      return viewSubscription(subscription)
    },
  })
}

function addPatch(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'PATCH',
    url: '/v1/subscriptions/:id',
    config: { access: 'subscriptions:write', problems: ['not_found', 'precondition_failed'] },
    schema: {
      operationId: 'patchSubscription',
      summary: 'Change a subscription (JSON merge patch); it takes effect on what is queued',
      description:
        'Another `sink.url` has to be verified again, which begins at once; until then what is queued is held. A secret that is sent back ' +
        'as `***` stays as it is, unless `sink.url` leads to another host; one that is sent takes its place with the next attempt. ' +
        '`"auth": null` removes the authentication; another `auth.kind` needs all of its fields.',
      tags,
      consumes: ['application/json', 'application/merge-patch+json'],
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      body: PatchSubscription,
      response: { 200: answer(refer(SubscriptionSchema), { headers: ['etag'] }) },
    },
    handler: async (request, reply) => {
      let moved = false
      const wishOf = (current: Subscription): Wish => {
        const wish = patchWish(current, request.body, deps.sinkRules)
        moved = wish.draft.destinationKey !== current.destinationKey
        return wish
      }
      const by = callerOf(request)
      const edit = { id: request.params.id, conditions: conditionsOf(request.headers), by, wishOf }
      const secrets = await sealEdit(by, { ...edit, touches: request.body.sink !== undefined }, deps)
      const subscription = await deps.asTenant(by, (db) => editSubscription(db, edit, { ...deps, secrets }))
      if (moved) deps.verification.begin({ tenantId: by.tenantId, id: subscription.id, by })
      reply.header('etag', entityTag(subscription))
      return viewSubscription(subscription)
    },
  })
}

/** What the edit will probably have to seal: as the subscription is now, which another edit may still change. */
async function sealEdit(
  { tenantId }: { tenantId: string },
  { id, wishOf, touches }: { id: string; wishOf: (current: Subscription) => Wish; touches: boolean },
  { asTenant, secrets }: SubscriptionRouteDeps,
): Promise<Sealing> {
  if (!touches) return secrets
  const current = await asTenant({ tenantId }, (db) => getSubscription(db, id))
  return await sealAhead({ tenantId, subscriptionId: id }, wishOf(current).secrets, secrets)
}

function addDelete(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'DELETE',
    url: '/v1/subscriptions/:id',
    config: { access: 'subscriptions:write', problems: ['not_found', 'precondition_failed'] },
    schema: {
      operationId: 'deleteSubscription',
      summary: 'Delete a subscription; what is queued for it is cancelled',
      description:
        'For good. Its history stays readable by its id, and so do its finished deliveries while they are kept.',
      tags,
      params: idParams('subscription'),
      headers: ConditionalHeaders,
      response: { 204: Type.Unsafe<undefined>({ type: 'null', description: 'Deleted' }) },
    },
    handler: async (request, reply) => {
      const by = callerOf(request)
      const target = { id: request.params.id, conditions: conditionsOf(request.headers), by }
      await deps.asTenant(by, (db) => deleteSubscription(db, target, deps))
      return await reply.code(204).send()
    },
  })
}
