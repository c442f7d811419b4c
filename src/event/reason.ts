// Why a record is quarantined: stable codes that operators filter and count by. The readable half, the detail, is free text.

export const REASON_CODES = [
  'not_utf8',
  'conflicting_attribute',
  'missing_attribute',
  'unsupported_specversion',
  'invalid_id',
  'invalid_source',
  'invalid_time',
  'invalid_schemaversion',
  'invalid_resourcetype',
  'invalid_eventtype',
  'attribute_too_long',
  'control_character',
  'source_topic_mismatch',
  'type_mismatch',
  'payload_too_large',
  'missing_tenant',
  'invalid_tenant',
  // Not a verdict: the database itself refused the record, for a fault that is the record's own.
  'storage_rejected',
] as const

export type ReasonCode = (typeof REASON_CODES)[number]
