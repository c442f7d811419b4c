// The catalog: which types of events each tenant has had. Counted from the inbox in the order that readers of it have (see pull.ts), so that
// each event counts once; and read by tenants. Nothing on the way of an event knows of it.
import type { Database } from './pool.ts'
import type { TenantDatabase } from './tenant.ts'

/** Counts the next events of all tenants, at most `limit`; answers how many. Each counts once, whoever calls this at the same time. */
export async function countIntoCatalog(db: Database, limit: number): Promise<number> {
  const { rows } = await db.query<{ counted: number }>({
    name: 'count_into_catalog',
    text: COUNT_INTO_CATALOG,
    values: [limit],
  })
  return rows[0]?.counted ?? 0
}

const COUNT_INTO_CATALOG = `
with position as materialized (
  select xid, seq from catalog_position for update
), next as materialized (
  select xid, seq, tenant_id, ce_id, source, event_key, resource_type, schema_major, received_at from event_inbox
  where (xid, seq) > ((select xid from position), (select seq from position)) and xid < inbox_horizon()
  order by xid, seq limit $1
), seen as (
  select tenant_id, source, event_key, min(resource_type) as resource_type, count(*) as events, min(received_at) as first_at,
    max(received_at) as last_at, array_agg(distinct schema_major order by schema_major) as majors,
    (array_agg(ce_id order by schema_major desc, seq desc))[1] as sample_id
  from next group by tenant_id, source, event_key
), counted as (
  insert into catalog_entry as known (tenant_id, source, event_key, resource_type, events, first_seen_at, last_seen_at, schema_majors, sample_id)
  select tenant_id, source, event_key, resource_type, events, first_at, last_at, majors, sample_id from seen
  order by tenant_id, source, event_key
  on conflict (tenant_id, source, event_key) do update set events = known.events + excluded.events,
    first_seen_at = least(known.first_seen_at, excluded.first_seen_at), last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at),
    schema_majors = array(select distinct major from unnest(known.schema_majors || excluded.schema_majors) major order by major),
    -- A new major has a structure of its own.
    sample_id = case when known.schema_majors @> excluded.schema_majors then known.sample_id else excluded.sample_id end
), moved as (
  update catalog_position p set xid = last.xid, seq = last.seq from (select xid, seq from next order by xid desc, seq desc limit 1) last
)
select count(*)::integer as counted from next`

export interface Sample {
  tenantId: string
  source: string
  eventKey: string
  /** The event that the example is to be made of. */
  id: string
  attributes: Record<string, string>
  data: Buffer | null
}

/** Entries that lack an example, with an event that can be one. Those whose event is gone come without data. */
export async function catalogSamples(db: Database, limit: number): Promise<Sample[]> {
  const { rows } = await db.query<Sample>(SAMPLES, [limit])
  return rows
}

const SAMPLES = `
select c.tenant_id as "tenantId", c.source, c.event_key as "eventKey", c.sample_id as id, coalesce(e.attributes, '{}') as attributes, e.data
from (select * from catalog_entry where sample_id is not null order by tenant_id limit $1) c
left join lateral (
  select attributes, data from event_inbox where tenant_id = c.tenant_id and ce_id = c.sample_id offset 0
) e on true`

/** Keeps the structure that was made of a sample; one that has no structure gets none. */
export async function saveExample(db: Database, sample: Sample, example: unknown): Promise<void> {
  const { tenantId, source, eventKey, id } = sample
  await db.query(SAVE_EXAMPLE, [tenantId, source, eventKey, id, example === undefined ? null : JSON.stringify(example)])
}

const SAVE_EXAMPLE = `
update catalog_entry set example = coalesce($5::json, example), sample_id = null
where tenant_id = $1 and source = $2 and event_key = $3 and sample_id = $4`

export interface CatalogEntry {
  source: string
  eventKey: string
  resourceType: string
  events: number
  /** Null: the tenant has had none. */
  firstSeenAt: Date | null
  lastSeenAt: Date | null
  schemaMajors: number[]
  example: unknown
  /** What its producer's manifest says of it. */
  title: string | null
  description: string | null
  dataSchema: string | null
}

export interface CatalogQuery {
  /** Null: from the beginning. */
  after: { source: string; eventKey: string } | null
  limit: number
  origin: string | null
  /** A pattern as subscriptions have them. */
  eventType: string | null
  /** Whether the tenant has had it; null: either. */
  seen: boolean | null
}

/** The types that the tenant has had, and those that are described, by source and event key. */
export async function listCatalog(db: TenantDatabase, query: CatalogQuery): Promise<CatalogEntry[]> {
  const { after, limit, origin, eventType, seen } = query
  const values = [db.tenantId, after?.source ?? '', after?.eventKey ?? '', limit, origin, eventType, seen]
  const { rows } = await db.query<CatalogEntry>(LIST_CATALOG, values)
  return rows
}

/** Of `t`, which has a source and an event key. */
const ASKED_FOR = `
(t.source, t.event_key) > ($2, $3) and ($5::text is null or t.source = $5)
  and ($6::text is null or $6 = '*' or t.event_key = $6 or split_part(t.event_key, '.', 1) || '.*' = $6)`

const LIST_CATALOG = `
with seen as (
  select t.source, t.event_key from catalog_entry t where t.tenant_id = $1 and $7::boolean is not false and ${ASKED_FOR}
  order by t.source, t.event_key limit $4
), described as (
  select distinct t.source, t.event_key from described_type t where ${ASKED_FOR}
    and ($7::boolean is null or not $7 and not exists (
      select from catalog_entry c where c.tenant_id = $1 and c.source = t.source and c.event_key = t.event_key))
  order by t.source, t.event_key limit $4
), asked as (
  select source, event_key from seen union select source, event_key from described order by source, event_key limit $4
)
select a.source, a.event_key as "eventKey", split_part(a.event_key, '.', 1) as "resourceType", coalesce(c.events, 0) as events,
  c.first_seen_at as "firstSeenAt", c.last_seen_at as "lastSeenAt", coalesce(c.schema_majors, '{}') as "schemaMajors", c.example,
  d.title, d.description, d.data_schema as "dataSchema"
from asked a
left join catalog_entry c on c.tenant_id = $1 and c.source = a.source and c.event_key = a.event_key
left join lateral (
  select t.* from described_type t join manifest m using (url) where t.source = a.source and t.event_key = a.event_key order by m.place limit 1
) d on true
order by a.source, a.event_key`
