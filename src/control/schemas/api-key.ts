// API keys, as operators make and see them.
import { Type, type Static } from 'typebox'
import { isTenantId, TENANT_ID_RULE } from '../../event/tenant-id.ts'
import { SCOPES } from '../auth/principal.ts'
import { DurationText, Line, Nullable, Text, Timestamp, Uuid, named, pageQuery, told } from './common.ts'

const closed = { additionalProperties: false }
const TenantId = Type.Refine(
  Type.String({ title: TENANT_ID_RULE, examples: ['acme'] }),
  isTenantId,
  () => `must be ${TENANT_ID_RULE}`,
)
const ScopeSchema = Type.Enum([...SCOPES])

export const CreateApiKey = Type.Object(
  {
    name: told(Line('a name', 200), 'For people: what the key is for.'),
    tenant_id: Type.Optional(
      Nullable(
        TenantId,
        'The tenant that it acts for; null: none, which leaves the scopes `admin` and `events:ingest`.',
      ),
    ),
    scopes: Type.Array(ScopeSchema, {
      minItems: 1,
      maxItems: SCOPES.length,
      title: 'one or more scopes',
      description: 'What it may do; every operation names the one that it needs.',
    }),
    expires_in: Type.Optional(
      Nullable(DurationText('1m', '3650d'), 'How long it works, counted from now; null: until it is revoked.'),
    ),
  },
  {
    ...closed,
    description: 'The key to be made',
    examples: [
      { name: 'core banking', tenant_id: 'acme', scopes: ['subscriptions:read', 'events:read'], expires_in: '90d' },
    ],
  },
)

const shown = {
  id: told(Uuid, "The key's id: not a secret."),
  prefix: Type.String({ description: 'What the key begins with', examples: ['shk_3f9a1c0b7d2e'] }),
  tenant_id: Nullable(Type.String(), 'The tenant that it acts for; null: none.'),
  name: Text('What the key is for, in the words of whoever made it.'),
  scopes: Type.Array(ScopeSchema, { description: 'What it may do.' }),
  state: Type.Enum(['active', 'expired', 'revoked'], {
    description: 'active: it opens what its scopes say; expired, revoked: it opens nothing any more.',
  }),
  created_at: told(Timestamp, 'When it was made.'),
  created_by: Text('The name of the credential that it was made with.'),
  expires_at: Nullable(Timestamp, 'When it ends by itself; null: never.'),
  last_used_at: Nullable(Timestamp, 'When it last let somebody in, written down about once a minute; null: never.'),
  revoked_at: Nullable(Timestamp, 'When it was revoked; null: it was not.'),
}

export const ApiKeySchema = named(
  'ApiKey',
  Type.Object(shown, { description: 'An API key, without the part of it that is secret' }),
)
export const ApiKeyCreated = named(
  'ApiKeyCreated',
  Type.Object({ ...shown, key: Text('The key itself: shown only here.') }, { description: 'An API key as it is made' }),
)
export type ApiKeyJson = Static<typeof ApiKeySchema>

export const ApiKeyQuery = Type.Object(
  { ...pageQuery, tenant_id: Type.Optional(told(TenantId, 'Only the keys of this tenant.')) },
  closed,
)
