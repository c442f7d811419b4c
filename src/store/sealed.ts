// Where sealed texts live: the one list of tables that hold any, for whatever concerns all of them, such as another key-encryption key.
// Each has, beside `sealed`, an `id` (uuid), a `tenant_id`, and `key_id text generated always as (sealed_by(sealed)) stored` with an index
// on it, and the other two parts of what the text belongs to: here by the SQL that gives them. A test finds a table that is missing.
import type { Database } from './pool.ts'

const PLACES = {
  subscription_secret: { owner: 'subscription_id', field: 'field' },
  idempotent_answer: { owner: 'id', field: "'idempotent_answer'" },
} as const

export type SealedPlace = keyof typeof PLACES

export const SEALED_PLACES = Object.keys(PLACES) as readonly SealedPlace[]

export interface SealedText {
  id: string
  tenantId: string
  subscriptionId: string
  field: string
  sealed: string
}

/** A page of what another key than `keyId` has sealed, or nobody can say which, by id from `after` on. */
export async function listSealed(
  db: Database,
  place: SealedPlace,
  page: { notBy: string; after: string | null; limit: number },
): Promise<SealedText[]> {
  const { owner, field } = PLACES[place]
  const { rows } = await db.query<SealedText>(
    `select id, tenant_id as "tenantId", ${owner}::text as "subscriptionId", ${field} as field, sealed from ${place}
     where key_id is distinct from $1 and ($2::uuid is null or id > $2) order by id limit $3`,
    [page.notBy, page.after, page.limit],
  )
  return rows
}

/** Puts new sealed texts in the place of those that are still as they were read; answers how many were. */
export async function replaceSealed(
  db: Database,
  place: SealedPlace,
  texts: readonly { id: string; before: string; sealed: string }[],
): Promise<number> {
  const { rowCount } = await db.query(
    `update ${place} t set sealed = n.sealed from unnest($1::uuid[], $2::text[], $3::text[]) n(id, before, sealed)
     where t.id = n.id and t.sealed = n.before`,
    [texts.map(({ id }) => id), texts.map(({ before }) => before), texts.map(({ sealed }) => sealed)],
  )
  return rowCount ?? 0
}

export interface SealedCount {
  place: SealedPlace
  /** Null: they name no key, and do not open. */
  keyId: string | null
  count: number
}

/** How many texts each key has sealed. */
export async function countSealed(db: Database): Promise<SealedCount[]> {
  const { rows } = await db.query<SealedCount>(COUNT_SEALED)
  return rows
}

const COUNT_SEALED = SEALED_PLACES.map(
  (place) => `select '${place}' as place, key_id as "keyId", count(*)::integer as count from ${place} group by key_id`,
).join('\nunion all ')

/** The ids of the keys that have sealed anything: a probe of an index for each, however many texts there are. */
export async function sealingKeys(db: Database): Promise<string[]> {
  const { rows } = await db.query<{ key_id: string }>(SEALING_KEYS)
  return rows.map(({ key_id }) => key_id)
}

const SEALING_KEYS = SEALED_PLACES.map(
  (place) => `select key_id from (
  with recursive found as (
    (select key_id from ${place} where key_id is not null order by key_id limit 1)
    union all
    select (select key_id from ${place} t where t.key_id > f.key_id order by t.key_id limit 1) from found f where f.key_id is not null
  ) select key_id from found where key_id is not null) ${place}`,
).join('\nunion ')
