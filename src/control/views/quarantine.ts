// A quarantined record as operators see it: readable, and every byte as base64 beside it.
import type { Quarantined } from '../../store/quarantine.ts'
import type { QuarantinedJson } from '../schemas/operators.ts'
import { isoTime, isoTimeOrNull, viewHeaders } from './bytes.ts'

export function viewQuarantined({ record, ...kept }: Quarantined): QuarantinedJson {
  return {
    id: kept.id,
    quarantined_at: isoTime(kept.quarantinedAt),
    reason: kept.reason,
    detail: kept.detail,
    source: kept.source,
    topic: record.topic,
    partition: record.position?.partition ?? null,
    offset: record.position ? Number(record.position.offset) : null,
    record_time: isoTimeOrNull(record.timestamp === null ? null : new Date(record.timestamp)),
    key_base64: record.key?.toString('base64') ?? null,
    headers: viewHeaders(record.headers),
    value_base64: record.value?.toString('base64') ?? null,
    value_bytes: record.value?.length ?? 0,
  }
}
