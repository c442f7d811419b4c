// The breakers as operators list them.
import type { BreakerRow } from './destinations.ts'
import type { Database } from './pool.ts'

export interface BreakerList {
  /** The last one of the page before; null: the first page. */
  after: { tenantId: string; destinationKey: string } | null
  limit: number
  /** Null: any. */
  state: BreakerRow['state'] | null
}

/** A page of all tenants' breakers, by tenant and destination. */
export async function listBreakers(db: Database, { after, limit, state }: BreakerList): Promise<BreakerRow[]> {
  const values = [after?.tenantId ?? null, after?.destinationKey ?? null, limit, state]
  const { rows } = await db.query<Omit<BreakerRow, 'blockedUntil'> & { blockedUntil: Date | null }>(
    LIST_BREAKERS,
    values,
  )
  return rows.map((row) => ({ ...row, blockedUntil: row.blockedUntil?.getTime() ?? null }))
}

const LIST_BREAKERS = `
select tenant_id as "tenantId", destination_key as "destinationKey", state, failures, opened, blocked_until as "blockedUntil"
from destination
where ($1::text is null or (tenant_id, destination_key) > ($1, $2)) and ($4::text is null or state = $4)
order by tenant_id, destination_key limit $3`
