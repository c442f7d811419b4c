// A producer's dead letter as operators see it: what its headers say, and every byte of it.
import type { KeptDeadLetter } from '../../store/producer-dead-letters.ts'
import type { ProducerDeadLetterDetailJson, ProducerDeadLetterJson } from '../schemas/producer-dead-letter.ts'
import { isoTime, isoTimeOrNull, viewBytes, viewHeaders } from './bytes.ts'

export function viewProducerDeadLetter({ record, fields, ...kept }: KeptDeadLetter): ProducerDeadLetterJson {
  return {
    id: kept.id,
    seen_at: isoTime(kept.seenAt),
    source: kept.source,
    topic: record.topic,
    partition: record.position?.partition ?? 0,
    offset: Number(record.position?.offset ?? 0),
    record_time: isoTimeOrNull(record.timestamp === null ? null : new Date(record.timestamp)),
    tenant_id: fields.tenantId,
    event_id: fields.eventId,
    event_type: fields.eventType,
    event_source: fields.eventSource,
    source_topic: fields.sourceTopic,
    source_partition: fields.sourcePartition,
    source_offset: fields.sourceOffset,
    error_class: fields.errorClass,
    error_message: fields.errorMessage,
    cause_kind: fields.causeKind,
    retry_count: fields.retryCount,
    first_failure_at: isoTimeOrNull(fields.firstFailureAt),
    producer_id: fields.producerId,
    payload_omitted: fields.payloadOmitted,
    payload_bytes: fields.payloadBytes,
    body_bytes: kept.valueBytes,
  }
}

export function viewProducerDeadLetterDetail(kept: KeptDeadLetter): ProducerDeadLetterDetailJson {
  const { key, headers, value } = kept.record
  const { text, encoding } = viewBytes(value)
  return {
    ...viewProducerDeadLetter(kept),
    key_base64: key?.toString('base64') ?? null,
    headers: viewHeaders(headers),
    body: encoding === 'utf-8' ? text : null,
    body_base64: value?.toString('base64') ?? null,
  }
}
