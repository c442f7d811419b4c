// API keys, as operators make and see them.
import { Type, type Static } from 'typebox'
import { isTenantId, TENANT_ID_RULE } from '../../event/tenant-id.ts'
import { SCOPES } from '../auth/principal.ts'
import { DurationText, Line, Nullable, Timestamp, Uuid, named, pageQuery } from './common.ts'

const closed = { additionalProperties: false }
const TenantId = Type.Refine(
  Type.String({ title: TENANT_ID_RULE, examples: ['acme'] }),
  isTenantId,
  () => `must be ${TENANT_ID_RULE}`,
)
const ScopeSchema = Type.Enum([...SCOPES])

export const CreateApiKey = Type.Object(
  {
    name: Line('a name', 200),
    tenant_id: Type.Optional(Nullable(TenantId)),
    scopes: Type.Array(ScopeSchema, { minItems: 1, maxItems: SCOPES.length, title: 'one or more scopes' }),
    expires_in: Type.Optional(Nullable(DurationText('1m', '3650d'))),
  },
  {
    ...closed,
    examples: [
      { name: 'core banking', tenant_id: 'acme', scopes: ['subscriptions:read', 'events:read'], expires_in: '90d' },
    ],
  },
)

const shown = {
  id: Uuid,
  prefix: Type.String({ description: 'What the key begins with', examples: ['shk_3f9a1c0b7d2e'] }),
  tenant_id: Nullable(Type.String()),
  name: Type.String(),
  scopes: Type.Array(ScopeSchema),
  state: Type.Enum(['active', 'expired', 'revoked']),
  created_at: Timestamp,
  created_by: Type.String(),
  expires_at: Nullable(Timestamp),
  last_used_at: Nullable(Type.String({ ...Timestamp, description: 'Written down about once a minute.' })),
  revoked_at: Nullable(Timestamp),
}

export const ApiKeySchema = named('ApiKey', Type.Object(shown))
export const ApiKeyCreated = named(
  'ApiKeyCreated',
  Type.Object({ ...shown, key: Type.String({ description: 'The key itself: shown only here.' }) }),
)
export type ApiKeyJson = Static<typeof ApiKeySchema>

export const ApiKeyQuery = Type.Object({ ...pageQuery, tenant_id: Type.Optional(TenantId) }, closed)
