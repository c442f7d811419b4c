// /admin/api-keys: make keys, see them, end them.
import { Type } from 'typebox'
import type { Clock } from '../../base/clock.ts'
import { HubError } from '../../base/errors.ts'
import { findApiKey, listApiKeys } from '../../store/api-keys.ts'
import type { Pool } from '../../store/pool.ts'
import type { Api } from '../api.ts'
import { createApiKey, endApiKey } from '../api-keys.ts'
import type { ApiKeys } from '../auth/api-keys.ts'
import { principalOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { answer } from '../schemas/answers.ts'
import { ApiKeyCreated, ApiKeyQuery, ApiKeySchema, CreateApiKey } from '../schemas/api-key.ts'
import { DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import { durationMs } from '../subscription-draft.ts'
import { viewApiKey } from '../views/api-key.ts'

const LIST = 'api-keys'
const tags = ['operators']

const CREATE = `The answer alone shows the key. It authenticates as \`Authorization: Bearer shk_…\` or as \`x-api-key\`. A key of a tenant acts
for that tenant, and brings in its events only. A key without one may have the scopes \`admin\`, for the operators' routes, and
\`events:ingest\`, for producers that write for all tenants: it sees no tenant's objects.`

export interface ApiKeyRouteDeps {
  pool: Pool
  clock: Clock
  apiKeys: Pick<ApiKeys, 'forget'>
}

export function apiKeyRoutes(api: Api, deps: ApiKeyRouteDeps): void {
  addCreate(api, deps)
  addList(api, deps)
  addRead(api, deps)
  addRevoke(api, deps)
}

function addCreate(api: Api, deps: ApiKeyRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/admin/api-keys',
    config: { access: 'admin' },
    schema: {
      operationId: 'createApiKey',
      summary: 'Make an API key',
      description: CREATE,
      tags,
      body: CreateApiKey,
      response: { 201: answer(refer(ApiKeyCreated), { headers: ['location'] }) },
    },
    handler: async (request, reply) => {
      const { name, tenant_id = null, scopes, expires_in = null } = request.body
      const expiresInMs = expires_in === null ? null : durationMs(expires_in)
      const wish = { name, tenantId: tenant_id, scopes, expiresInMs, createdBy: principalOf(request).name }
      const { key, text } = await createApiKey(wish, deps)
      reply.code(201).header('location', `/admin/api-keys/${key.id}`)
      return { ...viewApiKey(key, deps.clock.now()), key: text }
    },
  })
}

function addList(api: Api, { pool, clock }: ApiKeyRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/api-keys',
    config: { access: 'admin' },
    schema: {
      operationId: 'listApiKeys',
      summary: 'List API keys, the newest first: also those that are revoked or have expired',
      description: 'With `tenant_id` those of one tenant. The keys themselves are never shown again.',
      tags,
      querystring: ApiKeyQuery,
      response: { 200: Page(ApiKeySchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, tenant_id } = request.query
      const before = decodeCursor(LIST, cursor, isUuid)
      const found = await listApiKeys(pool, { before, limit: limit + 1, tenantId: tenant_id ?? null })
      const now = clock.now()
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: (key) => viewApiKey(key, now) })
    },
  })
}

function addRead(api: Api, { pool, clock }: ApiKeyRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/api-keys/:id',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'getApiKey',
      summary: 'Read one API key',
      description: 'Whose it is, what it may do, and whether it still does.',
      tags,
      params: idParams('API key'),
      response: { 200: refer(ApiKeySchema) },
    },
    handler: async (request) => {
      const key = await findApiKey(pool, request.params.id)
      if (!key) throw new HubError('not_found', 'There is no such API key.')
      return viewApiKey(key, clock.now())
    },
  })
}

function addRevoke(api: Api, deps: ApiKeyRouteDeps): void {
  api.route({
    method: 'DELETE',
    url: '/admin/api-keys/:id',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'revokeApiKey',
      summary: 'Revoke an API key, for good',
      description: 'It stops at once on the replica that is asked, and within five seconds on all others.',
      tags,
      params: idParams('API key'),
      response: { 204: Type.Unsafe<undefined>({ type: 'null', description: 'Revoked' }) },
    },
    handler: async (request, reply) => {
      const { prefix } = await endApiKey({ id: request.params.id, by: principalOf(request).name }, deps)
      deps.apiKeys.forget(prefix)
      return await reply.code(204).send()
    },
  })
}
