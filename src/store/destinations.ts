// The breakers' rows. Locked first in every transaction that touches them: destinations, then lanes, then tenants.
import type { Database } from './pool.ts'

/** Identity of a destination: two subscriptions of one tenant to one address share it. */
export interface DestinationKey {
  tenantId: string
  destinationKey: string
}

/** A breaker as it is stored; see dispatch/breaker.ts for what it means. Times in epoch ms. */
export interface BreakerRow extends DestinationKey {
  state: 'closed' | 'open' | 'half_open'
  failures: number
  opened: number
  blockedUntil: number | null
}

/** Those of `keys` whose breaker is not pristine: open, half open, or with failures since the last success. */
export async function troubledBreakers(db: Database, keys: readonly DestinationKey[]): Promise<DestinationKey[]> {
  const { rows } = await db.query<DestinationKey>({
    name: 'troubled_breakers',
    text: TROUBLED_BREAKERS,
    values: [keys.map((k) => k.tenantId), keys.map((k) => k.destinationKey)],
  })
  return rows
}

const TROUBLED_BREAKERS = `
select d.tenant_id as "tenantId", d.destination_key as "destinationKey"
from unnest($1::text[], $2::text[]) k(tenant_id, destination_key) join destination d using (tenant_id, destination_key)
where d.failures > 0 or d.state <> 'closed'`

/** Locks and reads the breakers of `keys`, in their order, until the transaction ends. A key without a row is left out. */
export async function lockBreakers(db: Database, keys: readonly DestinationKey[]): Promise<BreakerRow[]> {
  const { rows } = await db.query<Omit<BreakerRow, 'blockedUntil'> & { blockedUntil: Date | null }>({
    name: 'lock_breakers',
    text: LOCK_BREAKERS,
    values: [keys.map((k) => k.tenantId), keys.map((k) => k.destinationKey)],
  })
  return rows.map((row) => ({ ...row, blockedUntil: row.blockedUntil?.getTime() ?? null }))
}

const LOCK_BREAKERS = `
select tenant_id as "tenantId", destination_key as "destinationKey", state, failures, opened, blocked_until as "blockedUntil"
from destination where (tenant_id, destination_key) in (select * from unnest($1::text[], $2::text[]))
order by tenant_id, destination_key for no key update`

/** Writes back breakers that `lockBreakers` locked. */
export async function saveBreakers(db: Database, breakers: readonly BreakerRow[]): Promise<void> {
  await db.query({
    name: 'save_breakers',
    text: SAVE_BREAKERS,
    values: [
      breakers.map((b) => b.tenantId),
      breakers.map((b) => b.destinationKey),
      breakers.map((b) => b.state),
      breakers.map((b) => b.failures),
      breakers.map((b) => b.opened),
      breakers.map((b) => b.blockedUntil),
    ],
  })
}

const SAVE_BREAKERS = `
update destination d set state = b.state, failures = b.failures, opened = b.opened, blocked_until = to_timestamp(b.blocked_ms / 1000.0)
from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::integer[], $6::bigint[])
  b(tenant_id, destination_key, state, failures, opened, blocked_ms)
where d.tenant_id = b.tenant_id and d.destination_key = b.destination_key`

/** Half-open breakers whose probe will not be made by these leases, as far as they are still held: the next claim may probe at once. */
export async function returnProbes(
  db: Database,
  leases: readonly { subscriptionId: string; token: number }[],
  now: Date,
): Promise<void> {
  await db.query(RETURN_PROBES, [now, leases.map((l) => l.subscriptionId), leases.map((l) => l.token)])
}

const RETURN_PROBES = `
update destination d set blocked_until = least(d.blocked_until, $1)
from unnest($2::uuid[], $3::bigint[]) p(subscription_id, token) join lane l using (subscription_id)
where l.state = 'leased' and l.lease_token = p.token and d.state = 'half_open'
  and d.tenant_id = l.tenant_id and d.destination_key = l.destination_key`

/** The lanes that wait for one of these destinations' breakers: to be woken when it has closed. */
export async function blockedLanes(db: Database, keys: readonly DestinationKey[]): Promise<string[]> {
  const { rows } = await db.query<{ subscription_id: string }>({
    name: 'blocked_lanes',
    text: BLOCKED_LANES,
    values: [keys.map((k) => k.tenantId), keys.map((k) => k.destinationKey)],
  })
  return rows.map((row) => row.subscription_id)
}

const BLOCKED_LANES = `
select l.subscription_id from subscription s join lane l on l.subscription_id = s.id and l.state = 'blocked'
where (s.tenant_id, s.destination_key) in (select * from unnest($1::text[], $2::text[]))`
