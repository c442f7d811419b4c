// `streaming-hub keys create | list | revoke`: API keys by whoever may reach the database, for the first key above all, which nobody
// could ask the API for. What is printed on stdout is the key alone, so that it can go into a file or a secret store.
import { parseDuration } from '../base/duration.ts'
import { systemClock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import type { Config } from '../config.ts'
import { createApiKey, endApiKey, stateOf } from '../control/api-keys.ts'
import { shownPrefix } from '../control/auth/api-key.ts'
import { isScope, SCOPES, type Scope } from '../control/auth/principal.ts'
import { isUuid } from '../control/schemas/common.ts'
import { isTenantId, TENANT_ID_RULE } from '../event/tenant-id.ts'
import { findApiKeyByPrefix, listApiKeys, type ApiKey } from '../store/api-keys.ts'
import type { Pool } from '../store/pool.ts'
import { withPool } from './database.ts'

/** As the audit trail names it. */
const COMMAND_LINE = 'command line'
const LONGEST_MS = 3_650 * 86_400_000
const PAGE = 1_000

export interface CreateOptions {
  name: string
  tenant?: string
  scope: string[]
  /** A duration; without it the key does not expire. */
  expires?: string
}

/** Answers the key, and what there is to say of it. */
export async function createKey(config: Config, options: CreateOptions): Promise<{ key: string; about: string }> {
  const wish = readWish(options)
  return await withPool(config, async (pool) => {
    const { key, text } = await createApiKey({ ...wish, createdBy: COMMAND_LINE }, { pool, clock: systemClock })
    return { key: text, about: `This key is shown only now. ${describe(key)}` }
  })
}

/** Answers a table of all keys, the newest first. */
export async function listKeys(config: Config, options: { tenant?: string }): Promise<string> {
  return await withPool(config, async (pool) => {
    const keys: ApiKey[] = []
    for (let before: string | null = null, page: ApiKey[] = []; ; before = page.at(-1)?.id ?? null) {
      page = await listApiKeys(pool, { before, limit: PAGE, tenantId: options.tenant ?? null })
      keys.push(...page)
      if (page.length < PAGE) return keys.length === 0 ? 'There is no API key.' : keys.map(describe).join('\n')
    }
  })
}

/** `which`: a key's id, or what it begins with (`shk_…`). */
export async function revokeKey(config: Config, which: string): Promise<string> {
  if (!which.startsWith('shk_') && !isUuid(which)) throw new Error(`"${which}" is no API key: expected an id or shk_….`)
  return await withPool(config, async (pool) => {
    const id = which.startsWith('shk_') ? (await findByPrefix(pool, which)).id : which
    const key = await endApiKey({ id, by: COMMAND_LINE }, { pool, clock: systemClock })
    return `Every replica refuses it within five seconds. ${describe(key)}`
  })
}

function readWish({ name, tenant, scope, expires }: CreateOptions) {
  const unknown = scope.find((text) => !isScope(text))
  if (unknown !== undefined) throw new Error(`"${unknown}" is no scope: expected ${SCOPES.join(', ')}.`)
  if (tenant !== undefined && !isTenantId(tenant)) throw new Error(`The tenant must be ${TENANT_ID_RULE}.`)
  if (!/^\P{Cc}{1,200}$/u.test(name)) throw new Error('The name must be 1 to 200 characters on one line.')
  const expiresInMs = expires === undefined ? null : parseDuration(expires)
  if (expires !== undefined && (expiresInMs === null || expiresInMs < 60_000 || expiresInMs > LONGEST_MS))
    throw new Error(`"${expires}" is no time to expire after: expected a duration such as 90d, from 1m to 3650d.`)
  return { name, tenantId: tenant ?? null, scopes: scope as Scope[], expiresInMs }
}

async function findByPrefix(pool: Pool, shown: string): Promise<ApiKey> {
  const prefix = shown.split('_')[1] ?? ''
  const found = await findApiKeyByPrefix(pool, prefix)
  if (!found) throw new HubError('not_found', 'There is no such API key.')
  return found
}

function describe(key: ApiKey): string {
  const { id, prefix, tenantId, name, scopes, expiresAt, lastUsedAt } = key
  return [
    shownPrefix(prefix),
    stateOf(key, systemClock.now()),
    tenantId === null ? 'no tenant' : `tenant ${tenantId}`,
    scopes.join(' '),
    JSON.stringify(name),
    expiresAt === null ? 'never expires' : `expires ${expiresAt.toISOString()}`,
    lastUsedAt === null ? 'not used yet' : `last used ${lastUsedAt.toISOString()}`,
    id,
  ].join('  ')
}
