// A batch of records becomes events: one verdict each, and everything that follows from them in one transaction. The stream
// commits its offset only after `ingest` has resolved, so a crash at any moment repeats a batch, and repeating changes nothing:
// events are deduplicated by (tenant, id), quarantined records by their position.
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import type { Tracer } from '../base/tracing.ts'
import type { Event } from '../event/event.ts'
import type { ReasonCode } from '../event/reason.ts'
import type { IncomingRecord } from '../event/record.ts'
import { isSource } from '../event/source.ts'
import { mayBeRecordFault } from '../store/fault.ts'
import { isRefusedForItself, storeEvents, storeQuarantined } from '../store/inbox.ts'
import type { ArrivedEvent, QuarantinedRecord } from '../store/inbox.ts'
import type { Database, Pool } from '../store/pool.ts'
import { transaction, withConnection } from '../store/transaction.ts'
import type { IngestMetrics } from './metrics.ts'
import { recordId } from './record-id.ts'
import { traceIntake } from './trace.ts'
import { verdict } from './verdict.ts'

/** What became of one record. */
export type Ingested =
  | { kind: 'accepted' | 'duplicate'; event: Event }
  | { kind: 'dropped' }
  | { kind: 'quarantined'; reason: ReasonCode; detail: string }

export interface IngestDeps {
  pool: Pool
  clock: Clock
  log: Log
  metrics: IngestMetrics
  /** Where nobody collects traces there is none. */
  tracer?: Tracer | null
  /** Called after a commit that put lanes into the ring. */
  onWoken: () => void
  /** Called after a commit that stored events. */
  onStored?: () => void
}

/**
 * Decides about every record and writes the outcome in one transaction; answers what became of each, in their order. Rejects
 * when the database cannot take it now: then nothing was written, or all of it (the commit's answer was lost), and the same
 * call again is right. A record that the database refuses for a fault of its own is quarantined, its neighbours are stored.
 */
export async function ingest(records: readonly IncomingRecord[], deps: IngestDeps): Promise<Ingested[]> {
  const started = deps.clock.now()
  const decided = records.map(decide)
  const written = await write(decided, deps)
  if (written.woken > 0) deps.onWoken()
  if (decided.some(({ result }) => result.kind === 'accepted')) deps.onStored?.()
  report(decided, written, { deps, startedAt: started })
  return decided.map(({ result }) => result)
}

function report(decided: readonly Decided[], written: Written, batch: { deps: IngestDeps; startedAt: number }): void {
  const { deps, startedAt } = batch
  const { metrics, tracer, log } = deps
  const endedAt = deps.clock.now()
  metrics.writeSeconds.observe((endedAt - startedAt) / 1000)
  metrics.batchRecords.observe(decided.length)
  metrics.deliveries.inc(written.deliveries)
  const counts = { accepted: 0, duplicate: 0, dropped: 0, quarantined: 0 }
  for (const { record, result } of decided) {
    counts[result.kind]++
    if (result.kind === 'quarantined') metrics.quarantined.inc({ reason: result.reason })
    if (tracer && result.kind === 'accepted')
      traceIntake(tracer, { event: result.event, record }, { startedAt, endedAt, size: decided.length })
  }
  for (const [kind, count] of Object.entries(counts)) if (count > 0) metrics.records.inc({ verdict: kind }, count)
  tell(decided, { ...counts, deliveries: written.deliveries, woken: written.woken, ms: endedAt - startedAt }, log)
}

/** The one wide line of a batch: where it came from, and what became of it. What was quarantined is worth a look, the rest is routine. */
function tell(decided: readonly Decided[], counts: Record<string, number>, log: Log): void {
  const level = (counts['quarantined'] ?? 0) > 0 ? 'info' : 'debug'
  if (!log.isLevelEnabled(level)) return
  const [first, last] = [decided[0]?.record, decided.at(-1)?.record]
  log[level](
    {
      topic: first?.position ? first.topic : null,
      partition: first?.position?.partition ?? null,
      first_offset: first?.position ? String(first.position.offset) : null,
      last_offset: last?.position ? String(last.position.offset) : null,
      records: decided.length,
      ...counts,
      reasons: [...new Set(decided.flatMap(({ result }) => (result.kind === 'quarantined' ? [result.reason] : [])))],
    },
    'batch',
  )
}

interface Decided {
  record: IncomingRecord
  result: Ingested
}

interface Written {
  deliveries: number
  woken: number
}

function decide(record: IncomingRecord): Decided {
  const decision = verdict(record)
  switch (decision.kind) {
    case 'accept':
      return { record, result: { kind: 'accepted', event: decision.event } }
    case 'drop':
      return { record, result: { kind: 'dropped' } }
    case 'quarantine':
      return { record, result: { kind: 'quarantined', reason: decision.reason, detail: decision.detail } }
    default:
      return decision satisfies never
  }
}

/** All in one transaction; where a record's own fault forbids that, halves of it, down to the culprit, in order. */
async function write(decided: Decided[], deps: IngestDeps): Promise<Written> {
  try {
    return await writeTogether(decided, deps)
  } catch (error) {
    if (!mayBeRecordFault(error)) throw error
    const [only] = decided
    if (decided.length === 1 && only) return await reject(only, error, deps)
    const middle = Math.ceil(decided.length / 2)
    const before = await write(decided.slice(0, middle), deps)
    const after = await write(decided.slice(middle), deps)
    return { deliveries: before.deliveries + after.deliveries, woken: before.woken + after.woken }
  }
}

async function reject(refused: Decided, error: unknown, deps: IngestDeps): Promise<Written> {
  await assertOwnFault(refused, error, deps)
  const { position, topic } = refused.record
  deps.log.warn({ topic, ...position, err: messageOf(error) }, 'record refused by the database')
  const detail = `the database refused it: ${messageOf(error)}`.replaceAll('\0', '').slice(0, 300)
  refused.result = { kind: 'quarantined', reason: 'storage_rejected', detail }
  return await writeTogether([refused], deps)
}

/** Where something else is wrong than what the record holds, stalling is better than quarantining whatever comes. */
async function assertOwnFault({ record, result }: Decided, error: unknown, { pool, clock }: IngestDeps): Promise<void> {
  if (!('event' in result)) throw new Error('the quarantine refused a record', { cause: error })
  const arrived = { event: result.event, record }
  if (!(await isRefusedForItself(pool, arrived, new Date(clock.now())))) throw error
}

async function writeTogether(decided: Decided[], { pool, clock }: IngestDeps): Promise<Written> {
  const now = new Date(clock.now())
  const quarantined = decided.flatMap((each) => toQuarantine(each, now))
  const accepted = decided.filter(({ result }) => result.kind === 'accepted' || result.kind === 'duplicate')
  if (quarantined.length === 0)
    return await withConnection(pool, async (client) => await writeEvents(client, accepted, now))
  return await transaction(pool, async (client) => {
    await storeQuarantined(client, quarantined, now)
    return await writeEvents(client, accepted, now)
  })
}

async function writeEvents(db: Database, accepted: Decided[], now: Date): Promise<Written> {
  if (accepted.length === 0) return { deliveries: 0, woken: 0 }
  const arrived = accepted.flatMap(toArrived)
  const { stored, deliveries, woken } = await storeEvents(db, arrived, now)
  const fresh = new Set(stored)
  for (const [place, decided] of accepted.entries()) {
    if (decided.result.kind === 'accepted' && !fresh.has(place)) decided.result.kind = 'duplicate'
  }
  return { deliveries, woken }
}

function toArrived({ record, result }: Decided): ArrivedEvent[] {
  return 'event' in result ? [{ event: result.event, record }] : []
}

function toQuarantine({ record, result }: Decided, now: Date): QuarantinedRecord[] {
  if (result.kind !== 'quarantined') return []
  const { reason, detail } = result
  const source = record.topic.split('.')[2] ?? ''
  // Over HTTP the topic is made from an attribute that may hold anything; the raw headers keep what was sent.
  const known = isSource(source)
  const kept = { ...record, topic: record.position || known ? record.topic.replaceAll('\0', '') : '' }
  return [{ id: recordId(record, now), reason, detail, source: known ? source : null, record: kept }]
}
