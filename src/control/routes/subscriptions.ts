// /v1/subscriptions: create, list, read, patch, delete.
import { Type } from 'typebox'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, IdParams, Page, isUuid, refer } from '../schemas/common.ts'
import {
  CreateSubscription,
  PatchSubscription,
  SubscriptionCreated,
  SubscriptionQuery,
  SubscriptionSchema,
} from '../schemas/subscription.ts'
import { listSubscriptions } from '../../store/subscriptions.ts'
import { patchDraft, readDraft } from '../subscription-draft.ts'
import {
  createSubscription,
  deleteSubscription,
  editSubscription,
  getSubscription,
  type SubscriptionDeps,
} from '../subscriptions.ts'
import type { Verification } from '../verification.ts'
import { viewSubscription } from '../views/subscription.ts'

const LIST = 'subscriptions'
const tags = ['subscriptions']

export interface SubscriptionRouteDeps extends SubscriptionDeps {
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
      response: { 201: refer(SubscriptionCreated) },
    },
    handler: async (request, reply) => {
      const { tenantId } = callerOf(request)
      const draft = readDraft(request.body, deps.sinkRules)
      const { subscription, signingSecret } = await createSubscription(tenantId, draft, deps)
      deps.verification.begin(subscription)
      reply.code(201).header('location', `/v1/subscriptions/${subscription.id}`)
      return { ...viewSubscription(subscription), signing_secret: signingSecret }
    },
  })
}

function addList(api: Api, { pool }: SubscriptionRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions',
    config: { access: 'subscriptions:read' },
    schema: {
      operationId: 'listSubscriptions',
      summary: 'List subscriptions, the newest first',
      tags,
      querystring: SubscriptionQuery,
      response: { 200: Page(SubscriptionSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, enabled, verification_state, origin } = request.query
      const found = await listSubscriptions(pool, {
        tenantId: callerOf(request).tenantId,
        before: decodeCursor(LIST, cursor, isUuid),
        limit: limit + 1,
        enabled: enabled ?? null,
        verificationState: verification_state ?? null,
        origin: origin ?? null,
      })
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: viewSubscription })
    },
  })
}

function addRead(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions/:id',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'getSubscription',
      summary: 'Read one subscription',
      tags,
      params: IdParams,
      response: { 200: refer(SubscriptionSchema) },
    },
    handler: async (request) => {
      const { tenantId } = callerOf(request)
      return viewSubscription(await getSubscription({ tenantId, id: request.params.id }, deps))
    },
  })
}

function addPatch(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'PATCH',
    url: '/v1/subscriptions/:id',
    config: { access: 'subscriptions:write', problems: ['not_found'] },
    schema: {
      operationId: 'patchSubscription',
      summary: 'Change a subscription (JSON merge patch); it takes effect on what is queued',
      description:
        'Another `sink.url` has to be verified again, which begins at once; until then what is queued is held.',
      tags,
      consumes: ['application/json', 'application/merge-patch+json'],
      params: IdParams,
      body: PatchSubscription,
      response: { 200: refer(SubscriptionSchema) },
    },
    handler: async (request) => {
      const object = { tenantId: callerOf(request).tenantId, id: request.params.id }
      let moved = false
      const subscription = await editSubscription(
        object,
        (current) => {
          const draft = patchDraft(current, request.body, deps.sinkRules)
          moved = draft.destinationKey !== current.destinationKey
          return draft
        },
        deps,
      )
      if (moved) deps.verification.begin(object)
      return viewSubscription(subscription)
    },
  })
}

function addDelete(api: Api, deps: SubscriptionRouteDeps): void {
  api.route({
    method: 'DELETE',
    url: '/v1/subscriptions/:id',
    config: { access: 'subscriptions:write', problems: ['not_found'] },
    schema: {
      operationId: 'deleteSubscription',
      summary: 'Delete a subscription; what is queued for it is cancelled',
      tags,
      params: IdParams,
      response: { 204: Type.Unsafe<undefined>({ type: 'null', description: 'Deleted' }) },
    },
    handler: async (request, reply) => {
      await deleteSubscription({ tenantId: callerOf(request).tenantId, id: request.params.id }, deps)
      return await reply.code(204).send()
    },
  })
}
