// Spoilt records through the whole of ingest, into a real PostgreSQL: each gets one verdict, and whatever is quarantined is stored.
import type { Pool } from '../../src/store/pool.ts'
import { silentLog } from '../../src/base/log.ts'
import { systemClock } from '../../src/base/clock.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { ingest, type Ingested } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { recordId } from '../../src/ingest/record-id.ts'
import { verdict } from '../../src/ingest/verdict.ts'
import { storedHeaders } from '../../src/store/raw-record.ts'
import { seededRandom } from '../support/random.ts'
import { plainAttributes, spoiltRecord, type Header } from '../support/records.ts'

export interface MutationsOptions {
  pool: Pool
  records: number
  seed: number
}

export interface MutationsResult {
  /** By kind, quarantined ones by their reason. */
  outcomes: Record<string, number>
  /** What was to be in the quarantine or the inbox and is not there, or not as it came. */
  missing: number
  verdictUs: number
  ingestUs: number
}

const BATCH = 500

export async function runMutations({ pool, records, seed }: MutationsOptions): Promise<MutationsResult> {
  const random = seededRandom(seed)
  const deps = {
    pool,
    clock: systemClock,
    log: silentLog,
    metrics: ingestMetrics(createRegistry({ processMetrics: false })),
    onWoken: () => undefined,
  }
  const result: MutationsResult = { outcomes: {}, missing: 0, verdictUs: 0, ingestUs: 0 }
  const spent = { verdict: 0, ingest: 0 }
  for (let at = 0; at < records; at += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, records - at) }, (_, n) => placed(spoiltRecord(random), at + n))
    spent.verdict += timed(() => batch.map(verdict))
    const began = performance.now()
    const ingested = await ingest(batch, deps)
    spent.ingest += performance.now() - began
    for (const each of ingested) {
      const outcome = each.kind === 'quarantined' ? each.reason : each.kind
      result.outcomes[outcome] = (result.outcomes[outcome] ?? 0) + 1
    }
    result.missing += Math.abs(batch.length - ingested.length) + (await missingOf(pool, batch, ingested))
  }
  return { ...result, verdictUs: (spent.verdict * 1000) / records, ingestUs: (spent.ingest * 1000) / records }
}

/** At a place of its own, and with an id of its own where it still has the plain one. */
function placed(record: IncomingRecord, n: number): IncomingRecord {
  const id = Buffer.from(`${PLAIN_ID.slice(0, -12)}${n.toString(16).padStart(12, '0')}`)
  const headers = record.headers.map(([key, value]): Header => [
    key,
    value?.toString('latin1') === PLAIN_ID ? id : value,
  ])
  return { ...record, headers, position: { partition: 0, offset: BigInt(n) } }
}

const PLAIN_ID = plainAttributes.id

function timed(work: () => unknown): number {
  const began = performance.now()
  work()
  return performance.now() - began
}

interface Found {
  id: string
  headers: unknown
  bytes: number | null
}

async function missingOf(pool: Pool, batch: IncomingRecord[], ingested: Ingested[]): Promise<number> {
  const { rows } = await pool.query<Found>(QUARANTINED, [batch.map(idOf)])
  const quarantined = new Map(rows.map((row) => [row.id, row]))
  const events = ingested.flatMap((each) => ('event' in each ? [each.event] : []))
  const ids = [events.map(({ tenantId }) => tenantId), events.map(({ id }) => id)]
  const inInbox = new Set((await pool.query<{ key: string }>(STORED, ids)).rows.map(({ key }) => key))
  const isKept = (record: IncomingRecord, became: Ingested | undefined): boolean => {
    const row = quarantined.get(idOf(record))
    if (became?.kind === 'quarantined') return row !== undefined && isSame(row, record)
    const isStored = became && 'event' in became && inInbox.has(`${became.event.tenantId} ${became.event.id}`)
    return row === undefined && (became?.kind === 'dropped' || isStored === true)
  }
  return batch.filter((record, n) => !isKept(record, ingested[n])).length
}

function idOf(record: IncomingRecord): string {
  return recordId(record, new Date())
}

function isSame({ headers, bytes }: Found, record: IncomingRecord): boolean {
  const length = record.value?.length ?? null
  return JSON.stringify(headers) === JSON.stringify(storedHeaders(record.headers)) && bytes === length
}

const QUARANTINED = 'select id, headers, octet_length(value) as bytes from quarantine where id = any($1::uuid[])'
const STORED = `
select e.tenant_id || ' ' || e.ce_id as key
from unnest($1::text[], $2::uuid[]) wanted(tenant_id, ce_id) join event_inbox e using (tenant_id, ce_id)`
