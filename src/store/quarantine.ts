// Quarantined records as operators read them: whole, bytes as they arrived.
import type { IncomingRecord } from '../event/record.ts'
import type { Database } from './pool.ts'
import { decodeHeaders, type StoredHeaders } from './raw-record.ts'

export interface Quarantined {
  id: string
  quarantinedAt: Date
  reason: string
  detail: string
  source: string | null
  record: IncomingRecord
}

export interface QuarantineList {
  /** The id of the last one of the page before; null: the first page. */
  before: string | null
  limit: number
  /** A page ends before it holds more bytes of keys, headers and values than this; it holds one record at least. */
  maxBytes: number
  /** Null: any. */
  reason: string | null
  source: string | null
  /** Quarantined at or after, and before; null: no bound. */
  since: Date | null
  until: Date | null
}

export interface QuarantinePage {
  items: Quarantined[]
  /** There is more behind it. */
  more: boolean
}

/** A page of the quarantine, the newest record first. */
export async function listQuarantine(db: Database, list: QuarantineList): Promise<QuarantinePage> {
  const { before, limit, maxBytes, reason, source, since, until } = list
  const values = [before, limit + 1, reason, source, since, until]
  const { rows: sizes } = await db.query<{ id: string; bytes: number }>(SIZE_QUARANTINE, values)
  const ids = fitting(sizes.slice(0, limit), maxBytes)
  const { rows } = await db.query<QuarantineRow>(READ_QUARANTINE, [ids])
  return { items: rows.map(quarantinedOf), more: ids.length < sizes.length }
}

// Sizes first, so that a page of large records is never read whole: the length of bytes is known without fetching them.
const SIZE_QUARANTINE = `
select id, coalesce(octet_length(value), 0) + coalesce(octet_length(record_key), 0) + octet_length(headers::text) as bytes
from quarantine
where ($1::uuid is null or id < $1) and ($3::text is null or reason = $3) and ($4::text is null or source = $4)
  and ($5::timestamptz is null or quarantined_at >= $5) and ($6::timestamptz is null or quarantined_at < $6)
order by id desc limit $2`

const READ_QUARANTINE = 'select * from quarantine where id = any($1::uuid[]) order by id desc'

/** One quarantined record. */
export async function findQuarantined(db: Database, id: string): Promise<Quarantined | null> {
  const { rows } = await db.query<QuarantineRow>(FIND_QUARANTINED, [id])
  return rows[0] ? quarantinedOf(rows[0]) : null
}

const FIND_QUARANTINED = 'select * from quarantine where id = $1'

export const QUARANTINE_GROUPS = ['reason', 'source'] as const

export type QuarantineGroup = (typeof QUARANTINE_GROUPS)[number]

/** How many there are that have these in common; what they were not grouped by is null. */
export interface QuarantineCount {
  bucket: Date | null
  reason: string | null
  source: string | null
  count: number
  last_at: Date
}

/** Counts by `by`, and in time by `bucket` where one is given: the newest bucket first, in it the most frequent first. */
export async function countQuarantine(
  db: Database,
  wanted: Pick<QuarantineList, 'reason' | 'source' | 'since' | 'until'> & {
    by: readonly QuarantineGroup[]
    bucket: 'hour' | 'day' | null
    limit: number
  },
): Promise<QuarantineCount[]> {
  const { reason, source, since, until, by, bucket, limit } = wanted
  const { rows } = await db.query<QuarantineCount>(COUNT_QUARANTINE, [reason, source, since, until, by, bucket, limit])
  return rows
}

const COUNT_QUARANTINE = `
select case when $6::text is not null then date_trunc($6, quarantined_at, 'UTC') end as bucket,
  case when 'reason' = any($5::text[]) then reason end as reason,
  case when 'source' = any($5) then source end as source,
  count(*)::integer as count, max(quarantined_at) as last_at
from quarantine
where ($1::text is null or reason = $1) and ($2::text is null or source = $2)
  and ($3::timestamptz is null or quarantined_at >= $3) and ($4::timestamptz is null or quarantined_at < $4)
group by 1, 2, 3
order by 1 desc, count(*) desc, 2, 3 limit $7`

function fitting(sizes: readonly { id: string; bytes: number }[], maxBytes: number): string[] {
  let total = 0
  const beyond = sizes.findIndex(({ bytes }, nth) => (total += bytes) > maxBytes && nth > 0)
  return sizes.slice(0, beyond === -1 ? sizes.length : beyond).map(({ id }) => id)
}

interface QuarantineRow {
  id: string
  quarantined_at: Date
  reason: string
  detail: string
  source: string | null
  topic: string
  kafka_partition: number | null
  kafka_offset: number | null
  record_time: Date | null
  record_key: Buffer | null
  headers: StoredHeaders
  value: Buffer | null
}

function quarantinedOf(row: QuarantineRow): Quarantined {
  const { kafka_partition: partition, kafka_offset: offset } = row
  return {
    id: row.id,
    quarantinedAt: row.quarantined_at,
    reason: row.reason,
    detail: row.detail,
    source: row.source,
    record: {
      topic: row.topic,
      position: partition === null || offset === null ? null : { partition, offset: BigInt(offset) },
      timestamp: row.record_time?.getTime() ?? null,
      key: row.record_key,
      headers: decodeHeaders(row.headers),
      value: row.value,
    },
  }
}
