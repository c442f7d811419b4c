// The audit trail of subscriptions. Rows are only ever added, in the transaction of the change that they tell of.
import type { Actor } from '../event/actor.ts'
import type { TenantDatabase } from './tenant.ts'

export const CHANGE_KINDS = [
  'created',
  'updated',
  'paused',
  'resumed',
  'verified',
  'verification_failed',
  'secret_rotated',
  'auto_disabled',
  'enabled_by_verification',
  'deleted',
] as const
export type ChangeKind = (typeof CHANGE_KINDS)[number]

/** `field`: a JSON pointer into the subscription as the API shows it. Null: it was not there, or is no more. Secrets are masked. */
export interface FieldChange {
  field: string
  old: unknown
  new: unknown
}

export interface SubscriptionChange {
  subscriptionId: string
  /** The version that it made. */
  version: number
  what: ChangeKind
  at: Date
  by: Actor
  changes: readonly FieldChange[]
}

export async function insertChange(db: TenantDatabase, change: SubscriptionChange): Promise<void> {
  const { subscriptionId, version, what, at, by, changes } = change
  const values = [subscriptionId, version, db.tenantId, what, at, by.kind, by.id, by.name, JSON.stringify(changes)]
  await db.query(INSERT_CHANGE, values)
}

const INSERT_CHANGE = `
insert into subscription_change (subscription_id, version, tenant_id, what, at, by_kind, by_id, by_name, changes)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

/** A page of a subscription's changes, the newest first: those before the version `before`, or from the newest on. */
export async function listChanges(
  db: TenantDatabase,
  list: { subscriptionId: string; before: number | null; limit: number },
): Promise<SubscriptionChange[]> {
  const { rows } = await db.query<ChangeRow>(LIST_CHANGES, [db.tenantId, list.subscriptionId, list.before, list.limit])
  return rows.map(({ subscription_id, version, what, at, by_kind, by_id, by_name, changes }) => {
    const by = { kind: by_kind, id: by_id, name: by_name }
    return { subscriptionId: subscription_id, version, what, at, by, changes }
  })
}

const LIST_CHANGES = `
select * from subscription_change
where tenant_id = $1 and subscription_id = $2 and ($3::integer is null or version < $3)
order by version desc limit $4`

interface ChangeRow {
  subscription_id: string
  version: number
  what: ChangeKind
  at: Date
  by_kind: Actor['kind']
  by_id: string
  by_name: string
  changes: FieldChange[]
}

/** Whether the tenant has, or had, such a subscription. */
export async function hasExisted(db: TenantDatabase, subscriptionId: string): Promise<boolean> {
  const { rowCount } = await db.query(HAS_EXISTED, [db.tenantId, subscriptionId])
  return rowCount === 1
}

const HAS_EXISTED = 'select from subscription where tenant_id = $1 and id = $2'
