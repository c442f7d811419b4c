// Producers' dead letters: kept once, listed and counted for operators, dropped by the day.
import type { DeadLetterFields } from '../event/dead-letter.ts'
import type { IncomingRecord } from '../event/record.ts'
import type { Database } from './pool.ts'
import { decodeHeaders, packed, storedHeaders, timeOf, type StoredHeaders } from './raw-record.ts'

export interface FoundDeadLetter {
  /** A UUIDv7 of when it was seen. */
  id: string
  /** The application whose topic it was found in. */
  source: string
  fields: DeadLetterFields
  record: IncomingRecord
}

export interface KeptDeadLetter extends FoundDeadLetter {
  seenAt: Date
  /** Of the value; null for one that is null. */
  valueBytes: number | null
}

/** Until the transaction's end nobody else keeps records of this partition: a former owner of it may still be writing. */
export async function lockDeadLetters(db: Database, topic: string, partition: number): Promise<void> {
  await db.query({ name: 'lock_dead_letters', text: LOCK, values: [topic, partition] })
}

const LOCK =
  "select pg_advisory_xact_lock(hashtextextended('streaming-hub dead letters ' || $1 || ' ' || $2::integer, 0))"

/**
 * Keeps those of `found`, records of one partition that the caller has locked, which are not there yet; answers how many those were.
 * No content of theirs can make it fail.
 */
export async function storeDeadLetters(db: Database, found: readonly FoundDeadLetter[], now: Date): Promise<number> {
  const keys = packed(found.map(({ record }) => record.key))
  const values = packed(found.map(({ record }) => record.value))
  const { rowCount } = await db.query({
    name: 'store_dead_letters',
    text: STORE,
    values: [
      now,
      JSON.stringify(found.map(columnsOf)),
      keys.blob,
      keys.offsets,
      keys.lengths,
      values.blob,
      values.offsets,
      values.lengths,
    ],
  })
  return rowCount ?? 0
}

// A topic that was deleted and made anew counts its offsets from 0 again: the record's time tells its records from the old ones.
const STORE = `
with found as materialized (
  select * from rows from (
    json_to_recordset($2::json) as (id uuid, source text, topic text, kafka_partition integer, kafka_offset bigint,
      record_time timestamptz, headers json, tenant_id text, event_id text, event_type text, event_source text, source_topic text,
      source_partition integer, source_offset bigint, error_class text, error_message text, cause_kind text, retry_count integer,
      first_failure_at timestamptz, producer_id text, payload_omitted boolean, payload_bytes bigint),
    unnest($4::integer[]), unnest($5::integer[]), unnest($7::integer[]), unnest($8::integer[])
  ) as r(id, source, topic, kafka_partition, kafka_offset, record_time, headers, tenant_id, event_id, event_type, event_source,
    source_topic, source_partition, source_offset, error_class, error_message, cause_kind, retry_count, first_failure_at,
    producer_id, payload_omitted, payload_bytes, key_at, key_bytes, value_at, value_bytes)
)
insert into producer_dead_letter (id, seen_at, source, topic, kafka_partition, kafka_offset, record_time, record_key, headers, value,
  tenant_id, event_id, event_type, event_source, source_topic, source_partition, source_offset, error_class, error_message,
  cause_kind, retry_count, first_failure_at, producer_id, payload_omitted, payload_bytes)
select id, $1, source, topic, kafka_partition, kafka_offset, record_time,
  case when key_bytes >= 0 then substring($3::bytea from key_at for key_bytes) end, headers,
  case when value_bytes >= 0 then substring($6::bytea from value_at for value_bytes) end,
  tenant_id, event_id, event_type, event_source, source_topic, source_partition, source_offset, error_class, error_message,
  cause_kind, retry_count, first_failure_at, producer_id, payload_omitted, payload_bytes
from found f
where not exists (
  select from producer_dead_letter k
  where k.topic = f.topic and k.kafka_partition = f.kafka_partition and k.kafka_offset = f.kafka_offset
    and k.record_time is not distinct from f.record_time)`

/** Null: any. */
export interface DeadLetterFilter {
  source: string | null
  tenantId: string | null
  causeKind: string | null
  errorClass: string | null
  eventType: string | null
  /** Seen at or after, and before. */
  since: Date | null
  until: Date | null
}

/** A page, the newest first, without keys, headers and values (null and empty here). `before`: the last id of the page before. */
export async function listProducerDeadLetters(
  db: Database,
  list: DeadLetterFilter & { before: string | null; limit: number },
): Promise<KeptDeadLetter[]> {
  const { rows } = await db.query<Row>(LIST, [...filterValues(list), list.before, list.limit])
  return rows.map(keptOf)
}

// Ids are in the order in which records were seen, so bounds of time are bounds of ids: they choose the partitions too.
const LIST = `
select id, seen_at, source, topic, kafka_partition, kafka_offset, record_time, octet_length(value) as value_bytes, tenant_id, event_id,
  event_type, event_source, source_topic, source_partition, source_offset, error_class, error_message, cause_kind, retry_count,
  first_failure_at, producer_id, payload_omitted, payload_bytes
from producer_dead_letter
where ($1::text is null or source = $1) and ($2::text is null or tenant_id = $2) and ($3::text is null or cause_kind = $3)
  and ($4::text is null or error_class = $4) and ($5::text is null or event_type = $5)
  and ($6::timestamptz is null or id >= uuid7_floor($6)) and ($7::timestamptz is null or id < uuid7_floor($7))
  and ($8::uuid is null or id < $8)
order by id desc limit $9`

/** One dead letter, whole. */
export async function findProducerDeadLetter(db: Database, id: string): Promise<KeptDeadLetter | null> {
  const { rows } = await db.query<Row>(FIND, [id])
  return rows[0] ? keptOf(rows[0]) : null
}

const FIND = 'select *, octet_length(value) as value_bytes from producer_dead_letter where id = $1'

export const DEAD_LETTER_GROUPS = ['source', 'cause_kind', 'error_class', 'tenant_id', 'event_type'] as const

export type DeadLetterGroup = (typeof DEAD_LETTER_GROUPS)[number]

/** How many there are that have these in common; what they were not grouped by is null. */
export interface DeadLetterCount {
  bucket: Date | null
  source: string | null
  cause_kind: string | null
  error_class: string | null
  tenant_id: string | null
  event_type: string | null
  count: number
  last_at: Date
}

/** Counts by `by`, and in time by `bucket` where one is given: the newest bucket first, in it the most frequent first. */
export async function countProducerDeadLetters(
  db: Database,
  wanted: DeadLetterFilter & { by: readonly DeadLetterGroup[]; bucket: 'hour' | 'day' | null; limit: number },
): Promise<DeadLetterCount[]> {
  const { by, bucket, limit } = wanted
  const { rows } = await db.query<DeadLetterCount>(COUNT, [...filterValues(wanted), by, bucket, limit])
  return rows
}

const COUNT = `
select case when $9::text is not null then date_trunc($9, seen_at, 'UTC') end as bucket,
  case when 'source' = any($8::text[]) then source end as source,
  case when 'cause_kind' = any($8) then cause_kind end as cause_kind,
  case when 'error_class' = any($8) then error_class end as error_class,
  case when 'tenant_id' = any($8) then tenant_id end as tenant_id,
  case when 'event_type' = any($8) then event_type end as event_type,
  count(*)::integer as count, max(seen_at) as last_at
from producer_dead_letter
where ($1::text is null or source = $1) and ($2::text is null or tenant_id = $2) and ($3::text is null or cause_kind = $3)
  and ($4::text is null or error_class = $4) and ($5::text is null or event_type = $5)
  and ($6::timestamptz is null or id >= uuid7_floor($6)) and ($7::timestamptz is null or id < uuid7_floor($7))
group by 1, 2, 3, 4, 5, 6
order by 1 desc, count(*) desc, 2, 3, 4, 5, 6 limit $10`

/** Makes what is missing of the partitions of the day of `from` and of `days` days behind it; answers how many it made. */
export async function makeDeadLetterDays(db: Database, from: Date, days: number): Promise<number> {
  const { rows } = await db.query<{ made: number }>(MAKE_DAYS, [from, days])
  return rows[0]?.made ?? 0
}

const MAKE_DAYS = `
select count(*) filter (where make_day('producer_dead_letter', $1::timestamptz + nth * interval '1 day'))::integer as made
from generate_series(0, $2::integer) as nth`

/** Drops the days that were over at `before`; answers how many. Rejects, with nothing done, when it would have to wait for long. */
export async function dropDeadLetterDays(db: Database, before: Date): Promise<number> {
  await db.query(SHORT_WAIT)
  const { rows } = await db.query<{ dropped: number }>(DROP_DAYS, [before])
  return rows[0]?.dropped ?? 0
}

const SHORT_WAIT = "set local lock_timeout = '1s'"
const DROP_DAYS = "select drop_days('producer_dead_letter', $1) as dropped"

/** Whether some were seen on a day that had no partition of its own, and whether all of those were seen before `before`. */
export async function findStrayDeadLetters(db: Database, before: Date): Promise<{ any: boolean; allOver: boolean }> {
  const { rows } = await db.query<{ any: boolean; allOver: boolean }>(FIND_STRAYS, [before])
  return rows[0]!
}

const FIND_STRAYS = `
select exists (select from producer_dead_letter_default) as any,
  not exists (select from producer_dead_letter_default where id >= uuid7_floor($1)) as "allOver"`

/** Empties the partition of those that have no day. */
export async function dropStrayDeadLetters(db: Database): Promise<void> {
  await db.query(SHORT_WAIT)
  await db.query('truncate producer_dead_letter_default')
}

interface Row {
  id: string
  seen_at: Date
  source: string
  topic: string
  kafka_partition: number
  kafka_offset: number
  record_time: Date | null
  record_key?: Buffer | null
  headers?: StoredHeaders
  value?: Buffer | null
  value_bytes: number | null
  tenant_id: string | null
  event_id: string | null
  event_type: string | null
  event_source: string | null
  source_topic: string | null
  source_partition: number | null
  source_offset: number | null
  error_class: string | null
  error_message: string | null
  cause_kind: string | null
  retry_count: number | null
  first_failure_at: Date | null
  producer_id: string | null
  payload_omitted: boolean | null
  payload_bytes: number | null
}

function columnsOf({ id, source, fields, record }: FoundDeadLetter): Record<string, unknown> {
  return {
    id,
    source,
    topic: record.topic,
    kafka_partition: record.position?.partition,
    kafka_offset: record.position?.offset.toString(),
    record_time: timeOf(record.timestamp),
    headers: storedHeaders(record.headers),
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
    first_failure_at: fields.firstFailureAt,
    producer_id: fields.producerId,
    payload_omitted: fields.payloadOmitted,
    payload_bytes: fields.payloadBytes,
  }
}

function keptOf(row: Row): KeptDeadLetter {
  return {
    id: row.id,
    seenAt: row.seen_at,
    source: row.source,
    valueBytes: row.value_bytes,
    fields: fieldsOf(row),
    record: {
      topic: row.topic,
      position: { partition: row.kafka_partition, offset: BigInt(row.kafka_offset) },
      timestamp: row.record_time?.getTime() ?? null,
      key: row.record_key ?? null,
      headers: decodeHeaders(row.headers ?? []),
      value: row.value ?? null,
    },
  }
}

function fieldsOf(row: Row): DeadLetterFields {
  return {
    tenantId: row.tenant_id,
    eventId: row.event_id,
    eventType: row.event_type,
    eventSource: row.event_source,
    sourceTopic: row.source_topic,
    sourcePartition: row.source_partition,
    sourceOffset: row.source_offset,
    errorClass: row.error_class,
    errorMessage: row.error_message,
    causeKind: row.cause_kind,
    retryCount: row.retry_count,
    firstFailureAt: row.first_failure_at,
    producerId: row.producer_id,
    payloadOmitted: row.payload_omitted,
    payloadBytes: row.payload_bytes,
  }
}

function filterValues(filter: DeadLetterFilter): unknown[] {
  const { source, tenantId, causeKind, errorClass, eventType, since, until } = filter
  return [source, tenantId, causeKind, errorClass, eventType, since, until]
}
