// A stored event as the API shows it.
import type { Delivery } from '../../store/deliveries.ts'
import type { StoredEvent } from '../../store/events.ts'
import type { EventJson } from '../schemas/event.ts'
import { isoTime, viewBytes } from './bytes.ts'
import { viewDelivery } from './delivery.ts'

export function viewEvent({ event, receivedAt }: StoredEvent, deliveries: readonly Delivery[]): EventJson {
  const data = viewBytes(event.data)
  return {
    id: event.id,
    source: event.source,
    event_type: event.key,
    resource_type: event.resourceType,
    schema_major: event.schemaMajor,
    attributes: event.attributes,
    traceparent: event.traceparent,
    tracestate: event.tracestate,
    data: data.text,
    data_encoding: data.encoding,
    data_bytes: event.data?.length ?? 0,
    received_at: isoTime(receivedAt),
    deliveries: deliveries.map(viewDelivery),
  }
}
