// An event as the pull hands it out: a JSON text, because data that is JSON stands in it byte for byte.
import { hasJsonData } from '../../event/json-data.ts'
import type { StoredEvent } from '../../store/events.ts'
import type { PulledEventJson } from '../schemas/event.ts'
import { isoTime } from './bytes.ts'

export function writePulledEvent({ event, receivedAt }: StoredEvent): string {
  const shown: Omit<PulledEventJson, 'data' | 'data_base64'> = {
    id: event.id,
    source: event.source,
    event_type: event.key,
    resource_type: event.resourceType,
    schema_major: event.schemaMajor,
    attributes: event.attributes,
    traceparent: event.traceparent,
    tracestate: event.tracestate,
    received_at: isoTime(receivedAt),
    data_bytes: event.data?.length ?? 0,
  }
  return `${JSON.stringify(shown).slice(0, -1)}${writeData(event)}}`
}

function writeData(event: StoredEvent['event']): string {
  if (event.data === null) return ''
  return hasJsonData(event) ? `,"data":${event.data.toString()}` : `,"data_base64":"${event.data.toString('base64')}"`
}
