// How a batch enters: accepted events, their matches and the wake-ups of the lanes in one statement; quarantined records in another.
import type { Event } from '../event/event.ts'
import type { IncomingRecord } from '../event/record.ts'
import { mayBeRecordFault } from './fault.ts'
import type { Database, Pool } from './pool.ts'
import { encodeHeaders, packed, timeOf } from './raw-record.ts'
import { transaction } from './transaction.ts'

export interface ArrivedEvent {
  event: Event
  record: Pick<IncomingRecord, 'topic' | 'position' | 'timestamp'>
}

export interface Stored {
  /** Which of the batch were new, by their place in it; the others were in the inbox already. */
  stored: number[]
  deliveries: number
  /** Lanes that had nothing to do before. */
  woken: number
}

/**
 * Stores what is new of `arrived` in its order, makes a delivery for each match with an enabled and verified subscription, and
 * wakes the lanes. A duplicate writes nothing, also within the batch. One statement: all of it or nothing.
 */
export async function storeEvents(db: Database, arrived: readonly ArrivedEvent[], now: Date): Promise<Stored> {
  const { rows } = await db.query<Stored>({
    name: 'store_events',
    text: STORE_EVENTS,
    values: valuesOf(arrived, now),
  })
  return rows[0]!
}

/**
 * Whether the database refuses the row of `arrived` for what it holds: one of the same id and place, but of plain content, would be
 * taken, and this one, without its matches and deliveries, would not. Keeps neither. Rejects when the database cannot say.
 */
export async function isRefusedForItself(pool: Pool, arrived: ArrivedEvent, now: Date): Promise<boolean> {
  const plain = { ...arrived, event: { ...arrived.event, ...PLAIN } }
  return (await wouldTake(pool, plain, now)) && !(await wouldTake(pool, arrived, now))
}

async function wouldTake(pool: Pool, arrived: ArrivedEvent, now: Date): Promise<boolean> {
  try {
    await transaction(pool, async (client) => {
      await client.query(`${INSERT_EVENTS} select count(*) from stored`, valuesOf([arrived], now))
      await client.query('rollback')
    })
    return true
  } catch (error) {
    if (mayBeRecordFault(error)) return false
    throw error
  }
}

const PLAIN = {
  tenantId: 'plain',
  source: 'plain',
  resourceType: 'plain',
  key: 'plain.plain',
  schemaMajor: 1,
  attributes: {},
  traceparent: null,
  tracestate: null,
  data: null,
}

function valuesOf(arrived: readonly ArrivedEvent[], now: Date): unknown[] {
  const data = packed(arrived.map(({ event }) => event.data))
  return [
    now,
    arrived.map(({ event }) => event.tenantId),
    arrived.map(({ event }) => event.id),
    arrived.map(({ event }) => event.source),
    arrived.map(({ event }) => event.resourceType),
    arrived.map(({ event }) => event.key),
    arrived.map(({ event }) => event.schemaMajor),
    arrived.map(({ event }) => JSON.stringify(event.attributes)),
    arrived.map(({ event }) => event.traceparent),
    arrived.map(({ event }) => event.tracestate),
    data.blob,
    data.offsets,
    data.lengths,
    arrived.map(({ record }) => record.topic),
    arrived.map(({ record }) => record.position?.partition ?? null),
    arrived.map(({ record }) => record.position?.offset ?? null),
    arrived.map(({ record }) => timeOf(record.timestamp)),
  ]
}

const INSERT_EVENTS = `
with incoming as materialized (
  select * from unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[],
    $12::integer[], $13::integer[], $14::text[], $15::integer[], $16::bigint[], $17::timestamptz[])
  with ordinality i(tenant_id, ce_id, source, resource_type, event_key, schema_major, attributes, traceparent, tracestate,
    data_at, data_bytes, topic, kafka_partition, kafka_offset, record_time, place)
), stored as (
  insert into event_inbox (tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, attributes, traceparent,
    tracestate, data, data_bytes, topic, kafka_partition, kafka_offset, record_time)
  select tenant_id, ce_id, $1, source, resource_type, event_key, schema_major, attributes::json, traceparent, tracestate,
    case when data_bytes >= 0 then substring($11::bytea from data_at for data_bytes) end, greatest(data_bytes, 0),
    topic, kafka_partition, kafka_offset, record_time
  from incoming order by place
  on conflict (tenant_id, ce_id) do nothing
  returning tenant_id, ce_id, seq, source, resource_type, event_key, schema_major
)`

// What matches is looked up event by event (`offset 0` keeps the planner from turning it round): the work grows with the batch, and
// not with how many subscriptions there are, even before the tables' statistics have been gathered.
//
// The lanes' rows are locked in their order before anything of them is read, so that two batches never deadlock, and a release
// that happens at the same time is either seen here or sees the new wake_gen. See take_turns for the order of all locks. A lane
// that waited for its lock is first updated as the snapshot has it, and its constraints are checked on that, before PostgreSQL
// takes the newest row: so a lane that is woken gets all of its constrained columns set.
const STORE_EVENTS = `${INSERT_EVENTS}, matched as (
  select e.seq, e.tenant_id, e.ce_id, s.id as subscription_id
  from stored e cross join lateral (
    select distinct s.id
    from subscription_pattern p
    join subscription s on s.id = p.subscription_id and s.enabled and s.verification_state = 'active' and s.deleted_at is null
      and (s.origin is null or s.origin = e.source) and (s.schema_major is null or s.schema_major = e.schema_major)
    where p.tenant_id = e.tenant_id and p.pattern = any(array[e.event_key, e.resource_type || '.*', '*'])
    offset 0
  ) s
), queued as (
  insert into delivery (id, tenant_id, subscription_id, ce_id, due_at, created_at)
  select uuid7($1), tenant_id, subscription_id, ce_id, $1, $1 from matched order by seq, subscription_id
  returning subscription_id
), locked as materialized (
  select subscription_id, tenant_id, state from lane
  where subscription_id in (select subscription_id from queued) order by subscription_id for no key update
), waking as materialized (
  select subscription_id, tenant_id, row_number() over (partition by tenant_id order by subscription_id) - 1 as nth
  from locked where state in ('idle', 'waiting')
), turns as materialized (
  select * from take_turns(array(select tenant_id from waking))
), woken as (
  update lane set wake_gen = lane.wake_gen + 1,
    state = case when w.subscription_id is null then lane.state else 'ready' end,
    due_at = case when w.subscription_id is null then lane.due_at end,
    lease_until = case when w.subscription_id is null then lane.lease_until end,
    in_air = case when w.subscription_id is null then lane.in_air else '{}' end,
    in_air_attempts = case when w.subscription_id is null then lane.in_air_attempts else '{}' end,
    turn = coalesce(t.first_turn + w.nth, lane.turn)
  from locked k left join waking w using (subscription_id) left join turns t on t.tenant_id = w.tenant_id
  where lane.subscription_id = k.subscription_id
)
select array(select (min(i.place) - 1)::integer from incoming i join stored e using (tenant_id, ce_id) group by e.seq) as stored,
  (select count(*) from queued)::integer as deliveries, (select count(*) from waking)::integer as woken`

export interface QuarantinedRecord {
  /** A UUIDv7 made from the record's position and time, so that a record read twice is kept once. */
  id: string
  reason: string
  detail: string
  /** The topic's segment, where the topic has one. */
  source: string | null
  record: IncomingRecord
}

/** Keeps records for forensics. No content of theirs can make it fail. Answers how many were not there yet. */
export async function storeQuarantined(
  db: Database,
  records: readonly QuarantinedRecord[],
  now: Date,
): Promise<number> {
  const values = packed(records.map(({ record }) => record.value))
  const keys = packed(records.map(({ record }) => record.key))
  const { rowCount } = await db.query({
    name: 'store_quarantined',
    text: STORE_QUARANTINED,
    values: [
      now,
      records.map(({ id }) => id),
      records.map(({ reason }) => reason),
      records.map(({ detail }) => detail),
      records.map(({ source }) => source),
      records.map(({ record }) => record.topic),
      records.map(({ record }) => record.position?.partition ?? null),
      records.map(({ record }) => record.position?.offset ?? null),
      records.map(({ record }) => timeOf(record.timestamp)),
      records.map(({ record }) => encodeHeaders(record.headers)),
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

const STORE_QUARANTINED = `
insert into quarantine (id, quarantined_at, reason, detail, source, topic, kafka_partition, kafka_offset, record_time, headers, record_key, value)
select id, $1, reason, detail, source, topic, kafka_partition, kafka_offset, record_time, headers::json,
  case when key_bytes >= 0 then substring($11::bytea from key_at for key_bytes) end,
  case when value_bytes >= 0 then substring($14::bytea from value_at for value_bytes) end
from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::bigint[], $9::timestamptz[], $10::text[],
  $12::integer[], $13::integer[], $15::integer[], $16::integer[])
  r(id, reason, detail, source, topic, kafka_partition, kafka_offset, record_time, headers, key_at, key_bytes, value_at, value_bytes)
on conflict (id) do nothing`
