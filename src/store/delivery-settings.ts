// What an attempt needs of a subscription beside the event: where to, how, and the sealed secrets.
import type { ContentMode, SinkSettings } from '../event/subscription.ts'
import type { Database } from './pool.ts'

export interface DeliverySettings {
  subscriptionId: string
  tenantId: string
  version: number
  sink: SinkSettings
  contentMode: ContentMode
  timeoutMs: number
  /** The newest first; `expiresAt` in epoch ms, null for one that has no end. */
  secrets: { field: string; sealed: string; expiresAt: number | null }[]
}

/** The newest settings of `subscriptionIds`; a subscription that does not exist is left out. */
export async function loadDeliverySettings(
  db: Database,
  subscriptionIds: readonly string[],
): Promise<DeliverySettings[]> {
  const { rows } = await db.query<DeliverySettings>({
    name: 'load_delivery_settings',
    text: LOAD_DELIVERY_SETTINGS,
    values: [subscriptionIds],
  })
  return rows
}

const LOAD_DELIVERY_SETTINGS = `
select s.id as "subscriptionId", s.tenant_id as "tenantId", s.version, s.sink, s.content_mode as "contentMode", s.timeout_ms as "timeoutMs",
  coalesce(x.secrets, '[]') as secrets
from subscription s
left join lateral (
  select json_agg(json_build_object('field', field, 'sealed', sealed, 'expiresAt', floor(extract(epoch from expires_at) * 1000))
    order by created_at desc, id desc) as secrets
  from subscription_secret where subscription_id = s.id
) x on true
where s.id = any($1::uuid[])`
