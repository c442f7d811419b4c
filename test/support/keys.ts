// API keys of a test's hub, as headers of its requests.
import { createApiKey } from '../../src/control/api-keys.ts'
import { SCOPES, type Scope } from '../../src/control/auth/principal.ts'
import type { ApiKey } from '../../src/store/api-keys.ts'
import type { TestControl } from './control.ts'

export interface KeyInHand {
  key: ApiKey
  text: string
  headers: { authorization: string }
}

/** A new key of `tenant` (null: of none) with all scopes, or with those that are given. */
export async function keyOf(
  control: Pick<TestControl, 'database' | 'clock'>,
  tenant: string | null,
  given: { scopes?: readonly Scope[]; expiresInMs?: number } = {},
): Promise<KeyInHand> {
  const { scopes = tenant === null ? (['admin'] as const) : SCOPES, expiresInMs = null } = given
  const wish = { name: 'test', tenantId: tenant, scopes, expiresInMs, createdBy: 'test' }
  const { key, text } = await createApiKey(wish, { pool: control.database.pool, clock: control.clock })
  return { key, text, headers: { authorization: `Bearer ${text}` } }
}
