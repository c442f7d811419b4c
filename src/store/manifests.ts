// What was fetched of producers' manifests. It belongs to the platform, and is the same for all tenants; the catalog shows it to them.
import type { Fault } from '../base/errors.ts'
import type { Database, Pool } from './pool.ts'

export interface DescribedType {
  source: string
  eventKey: string
  title: string | null
  description: string | null
  dataSchema: string | null
}

/** A fetch: of the manifest at a place of the configuration, which worked or did not. */
export interface ManifestFetch {
  url: string
  place: number
  at: Date
  /** What takes the place of all that was kept of it; or why there is nothing new, and what was kept stays. */
  result: { types: readonly DescribedType[]; leftOut: readonly Fault[] } | { problem: string }
}

/** Keeps a fetch, in one statement: readers see all that a manifest says, or all that it said before. */
export async function saveManifest(db: Database, { url, place, at, result }: ManifestFetch): Promise<void> {
  if ('problem' in result) return void (await db.query(SAVE_PROBLEM, [url, place, at, result.problem]))
  await db.query(SAVE_MANIFEST, [url, place, at, JSON.stringify(result.leftOut), JSON.stringify(result.types)])
}

const SAVE_PROBLEM = `
insert into manifest (url, place, fetched_at, problem) values ($1, $2, $3, $4)
on conflict (url) do update set place = excluded.place, fetched_at = excluded.fetched_at, problem = excluded.problem`

const SAVE_MANIFEST = `
with fetched as (
  insert into manifest (url, place, fetched_at, succeeded_at, left_out) values ($1, $2, $3, $3, $4)
  on conflict (url) do update set place = excluded.place, fetched_at = excluded.fetched_at, succeeded_at = excluded.succeeded_at,
    problem = null, left_out = excluded.left_out
), said as (
  select source, "eventKey" as event_key, title, description, "dataSchema" as data_schema
  from json_to_recordset($5) as t (source text, "eventKey" text, title text, description text, "dataSchema" text)
), gone as (
  delete from described_type d where url = $1 and not exists (select from said s where (s.source, s.event_key) = (d.source, d.event_key))
)
insert into described_type as known (source, event_key, url, title, description, data_schema)
select source, event_key, $1, title, description, data_schema from said
on conflict (source, event_key, url) do update
set title = excluded.title, description = excluded.description, data_schema = excluded.data_schema
where (known.title, known.description, known.data_schema) is distinct from (excluded.title, excluded.description, excluded.data_schema)`

/** Forgets the manifests that are not among `urls`, with all that they said; answers how many. */
export async function forgetOtherManifests(db: Database, urls: readonly string[]): Promise<number> {
  const { rowCount } = await db.query('delete from manifest where url <> all($1::text[])', [urls])
  return rowCount ?? 0
}

export interface ManifestState {
  url: string
  fetchedAt: Date
  succeededAt: Date | null
  problem: string | null
  leftOut: Fault[]
  eventTypes: number
}

/** All of them, in the order of the configuration. */
export async function listManifests(pool: Pool): Promise<ManifestState[]> {
  const { rows } = await pool.query<ManifestState>(`
    select url, fetched_at as "fetchedAt", succeeded_at as "succeededAt", problem, left_out as "leftOut",
      (select count(*) from described_type d where d.url = m.url)::integer as "eventTypes"
    from manifest m order by place, url`)
  return rows
}
