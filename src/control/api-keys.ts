// API keys as operators handle them, by the API and on the command line alike.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { insertApiKey, revokeApiKey, type ApiKey } from '../store/api-keys.ts'
import type { Pool } from '../store/pool.ts'
import { newKey } from './auth/api-key.ts'
import { TENANTLESS_SCOPES, type Scope } from './auth/principal.ts'
import { invalid } from './validation.ts'

export interface ApiKeyWish {
  name: string
  /** Null: of no tenant. */
  tenantId: string | null
  scopes: readonly Scope[]
  /** Null: it does not expire. */
  expiresInMs: number | null
  /** As the log names callers. */
  createdBy: string
}

/** `text` is the key itself, and nowhere else to be had. Throws `invalid_request` where a scope needs a tenant. */
export async function createApiKey(
  wish: ApiKeyWish,
  { pool, clock }: { pool: Pool; clock: Clock },
): Promise<{ key: ApiKey; text: string }> {
  const { tenantId, name, expiresInMs, createdBy } = wish
  const scopes = [...new Set(wish.scopes)]
  const needy = tenantId === null ? scopes.filter((scope) => !TENANTLESS_SCOPES.includes(scope)) : []
  if (needy.length > 0) throw invalid([{ path: '/tenant_id', message: `is required for ${needy.join(', ')}` }])
  const { text, prefix, secretSha256 } = newKey()
  const createdAt = new Date(clock.now())
  const expiresAt = expiresInMs === null ? null : new Date(clock.now() + expiresInMs)
  const key = await insertApiKey(pool, {
    prefix,
    secretSha256,
    tenantId,
    name,
    scopes,
    createdAt,
    createdBy,
    expiresAt,
  })
  return { key, text }
}

/** For good; once more, nothing changes. Throws `not_found`. */
export async function endApiKey(
  { id, by }: { id: string; by: string },
  { pool, clock }: { pool: Pool; clock: Clock },
): Promise<ApiKey> {
  const ended = await revokeApiKey(pool, { id, now: new Date(clock.now()), by })
  if (!ended) throw new HubError('not_found', 'There is no such API key.')
  return ended
}

/** What it is good for at `now`, epoch ms. */
export function stateOf({ revokedAt, expiresAt }: ApiKey, now: number): 'active' | 'expired' | 'revoked' {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt.getTime() <= now ? 'expired' : 'active'
}
