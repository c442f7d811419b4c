// Stored events as the control plane reads them.
import type { Event } from '../event/event.ts'
import type { TenantDatabase } from './tenant.ts'

export interface StoredEvent {
  event: Event
  receivedAt: Date
}

/** One event of the tenant by its `ce-id`. */
export async function findEvent(db: TenantDatabase, id: string): Promise<StoredEvent | null> {
  const { rows } = await db.query<EventRow>(FIND_EVENT, [db.tenantId, id])
  return rows[0] ? storedEventOf(rows[0]) : null
}

const FIND_EVENT = `
select tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, attributes, traceparent, tracestate, data
from event_inbox where tenant_id = $1 and ce_id = $2`

export interface EventRow {
  tenant_id: string
  ce_id: string
  received_at: Date
  source: string
  resource_type: string
  event_key: string
  schema_major: number
  attributes: Record<string, string>
  traceparent: string | null
  tracestate: string | null
  data: Buffer | null
}

export function storedEventOf(row: EventRow): StoredEvent {
  return {
    receivedAt: row.received_at,
    event: {
      tenantId: row.tenant_id,
      id: row.ce_id,
      source: row.source,
      key: row.event_key,
      resourceType: row.resource_type,
      schemaMajor: row.schema_major,
      attributes: row.attributes,
      traceparent: row.traceparent,
      tracestate: row.tracestate,
      data: row.data,
    },
  }
}
