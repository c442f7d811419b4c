// Claims of idempotency keys, and the answers that they were given. `id` is the hash of tenant, caller and key.
import type { Database } from './pool.ts'

export interface IdempotencyClaim {
  id: string
  token: string
}

/** Whether the key is ours now: nobody has it, or whoever had it has had his time. */
export async function claimIdempotencyKey(
  db: Database,
  claim: IdempotencyClaim & { now: Date; lockedUntil: Date },
): Promise<boolean> {
  const { rowCount } = await db.query(CLAIM, [claim.id, claim.token, claim.lockedUntil, claim.now])
  return rowCount === 1
}

const CLAIM = `
insert into idempotency_claim as c (id, token, locked_until) values ($1, $2, $3)
on conflict (id) do update set token = excluded.token, locked_until = excluded.locked_until where c.locked_until <= $4`

/** Gives the key free without an answer, if it still is ours. */
export async function freeIdempotencyKey(db: Database, { id, token }: IdempotencyClaim): Promise<void> {
  await db.query('delete from idempotency_claim where id = $1 and token = $2', [id, token])
}

/** Keeps the answer and gives the claim back in one; nothing where the claim is no longer ours. */
export async function keepIdempotentAnswer(
  db: Database,
  { id, token, ...answer }: IdempotencyClaim & { tenantId: string; sealed: string; expiresAt: Date },
): Promise<void> {
  await db.query(KEEP, [id, token, answer.tenantId, answer.sealed, answer.expiresAt])
}

const KEEP = `
with ours as (delete from idempotency_claim where id = $1 and token = $2 returning id)
insert into idempotent_answer (id, tenant_id, sealed, expires_at) select id, $3, $4, $5 from ours
on conflict (id) do update set sealed = excluded.sealed, expires_at = excluded.expires_at`

/** The sealed answer of a key that is still remembered. */
export async function findIdempotentAnswer(
  db: Database,
  { id, now }: { id: string; now: Date },
): Promise<string | null> {
  const { rows } = await db.query<{ sealed: string }>(
    'select sealed from idempotent_answer where id = $1 and expires_at > $2',
    [id, now],
  )
  return rows[0]?.sealed ?? null
}

/** Removes answers, and claims of whoever died over them, that were over before `before`; at most `limit` of each. Answers how many. */
export async function removeIdempotencyKeys(db: Database, before: Date, limit: number): Promise<number> {
  const answers = await db.query(REMOVE_ANSWERS, [before, limit])
  const claims = await db.query(REMOVE_CLAIMS, [before, limit])
  return (answers.rowCount ?? 0) + (claims.rowCount ?? 0)
}

const REMOVE_ANSWERS = `
delete from idempotent_answer where id in (
  select id from idempotent_answer where expires_at < $1 order by expires_at limit $2 for update skip locked)`
const REMOVE_CLAIMS = `
delete from idempotency_claim where id in (
  select id from idempotency_claim where locked_until < $1 order by locked_until limit $2 for update skip locked)`
