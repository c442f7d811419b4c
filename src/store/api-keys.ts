// API keys: of a secret there is the digest alone. Operators' and the hub's own: no tenant's call leads here.
import type { Database } from './pool.ts'

export interface ApiKey {
  id: string
  prefix: string
  /** Null: of no tenant. */
  tenantId: string | null
  name: string
  scopes: string[]
  createdAt: Date
  createdBy: string
  /** Null: never. */
  expiresAt: Date | null
  /** The last use that was written down: it may lag behind by some minutes. */
  lastUsedAt: Date | null
  revokedAt: Date | null
}

// What is shown of a key, in the columns of `ApiKey`.
const SHOWN = `id, prefix, tenant_id as "tenantId", name, scopes, created_at as "createdAt", created_by as "createdBy",
  expires_at as "expiresAt", last_used_at as "lastUsedAt", revoked_at as "revokedAt"`

export type NewApiKey = Pick<
  ApiKey,
  'prefix' | 'tenantId' | 'name' | 'scopes' | 'createdAt' | 'createdBy' | 'expiresAt'
> & {
  secretSha256: Buffer
}

export async function insertApiKey(db: Database, key: NewApiKey): Promise<ApiKey> {
  const { prefix, secretSha256, tenantId, name, scopes, createdAt, createdBy, expiresAt } = key
  const values = [createdAt, prefix, secretSha256, tenantId, name, scopes, createdBy, expiresAt]
  const { rows } = await db.query<ApiKey>(INSERT_API_KEY, values)
  return rows[0]!
}

const INSERT_API_KEY = `
insert into api_key (id, prefix, secret_sha256, tenant_id, name, scopes, created_at, created_by, expires_at)
values (uuid7($1), $2, $3, $4, $5, $6, $1, $7, $8)
returning ${SHOWN}`

/** What a request's key is compared with. */
export interface StoredApiKey extends ApiKey {
  secretSha256: Buffer
}

/** Also one that is revoked or has expired. */
export async function findApiKeyByPrefix(db: Database, prefix: string): Promise<StoredApiKey | null> {
  const { rows } = await db.query<StoredApiKey>({ name: 'find_api_key', text: FIND_BY_PREFIX, values: [prefix] })
  return rows[0] ?? null
}

const FIND_BY_PREFIX = `select ${SHOWN}, secret_sha256 as "secretSha256" from api_key where prefix = $1`

export async function findApiKey(db: Database, id: string): Promise<ApiKey | null> {
  const { rows } = await db.query<ApiKey>(FIND_API_KEY, [id])
  return rows[0] ?? null
}

const FIND_API_KEY = `select ${SHOWN} from api_key where id = $1`

export interface ApiKeyList {
  /** The id of the last one of the page before; null: the first page. */
  before: string | null
  limit: number
  /** Null: any. */
  tenantId: string | null
}

/** A page of all keys, the newest first. */
export async function listApiKeys(db: Database, { before, limit, tenantId }: ApiKeyList): Promise<ApiKey[]> {
  const { rows } = await db.query<ApiKey>(LIST_API_KEYS, [before, limit, tenantId])
  return rows
}

const LIST_API_KEYS = `
select ${SHOWN} from api_key
where ($1::uuid is null or id < $1) and ($3::text is null or tenant_id = $3)
order by id desc limit $2`

/** Ends a key, for good; one that was ended stays as it is. Answers it as it is then, or null when there is none. */
export async function revokeApiKey(
  db: Database,
  { id, now, by }: { id: string; now: Date; by: string },
): Promise<ApiKey | null> {
  const { rows } = await db.query<ApiKey>(REVOKE_API_KEY, [id, now, by])
  return rows[0] ?? null
}

const REVOKE_API_KEY = `
update api_key set revoked_at = coalesce(revoked_at, $2), revoked_by = coalesce(revoked_by, $3) where id = $1
returning ${SHOWN}`

/** Whether anybody could get in by a key now. */
export async function hasActiveApiKey(db: Database, now: Date): Promise<boolean> {
  const { rows } = await db.query(HAS_ACTIVE_API_KEY, [now])
  return rows.length > 0
}

const HAS_ACTIVE_API_KEY = `
select from api_key where revoked_at is null and (expires_at is null or expires_at > $1) limit 1`

/** Writes down when keys were last used, in one statement; an older time than the stored one changes nothing. */
export async function recordApiKeyUses(db: Database, uses: readonly { id: string; at: Date }[]): Promise<void> {
  await db.query(RECORD_USES, [uses.map(({ id }) => id), uses.map(({ at }) => at)])
}

// Locked in the order of their ids: other replicas write down uses of the same keys.
const RECORD_USES = `
with locked as materialized (
  select k.id, u.at from unnest($1::uuid[], $2::timestamptz[]) u(id, at) join api_key k on k.id = u.id
  order by k.id for no key update of k
)
update api_key set last_used_at = locked.at from locked
where api_key.id = locked.id and (api_key.last_used_at is null or api_key.last_used_at < locked.at)`
