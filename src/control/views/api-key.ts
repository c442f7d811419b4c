// An API key as operators see it: never the secret, nor its digest.
import type { ApiKey } from '../../store/api-keys.ts'
import { stateOf } from '../api-keys.ts'
import { shownPrefix } from '../auth/api-key.ts'
import { isScope } from '../auth/principal.ts'
import type { ApiKeyJson } from '../schemas/api-key.ts'
import { isoTimeOrNull } from './bytes.ts'

/** As it is at `now`, epoch ms. */
export function viewApiKey(key: ApiKey, now: number): ApiKeyJson {
  return {
    id: key.id,
    prefix: shownPrefix(key.prefix),
    tenant_id: key.tenantId,
    name: key.name,
    scopes: key.scopes.filter(isScope),
    state: stateOf(key, now),
    created_at: key.createdAt.toISOString(),
    created_by: key.createdBy,
    expires_at: isoTimeOrNull(key.expiresAt),
    last_used_at: isoTimeOrNull(key.lastUsedAt),
    revoked_at: isoTimeOrNull(key.revokedAt),
  }
}
