-- Up Migration
-- The catalog: which types of events each tenant has had, counted beside the traffic by the replica that does the chores. Ingest, matching
-- and dispatch neither read nor write it; whatever becomes of it, events are delivered.

create table catalog_entry (
  tenant_id text not null check (tenant_id <> ''),
  source text not null,
  event_key text not null,
  resource_type text not null,
  events bigint not null check (events > 0),
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  -- In their order, each once.
  schema_majors integer[] not null check (cardinality(schema_majors) > 0),
  -- The structure of one event's data, without any of its values; null: it is no JSON, or has not been looked at yet.
  example json,
  -- The event that the example is still to be made of.
  sample_id uuid,
  primary key (tenant_id, source, event_key),
  check (first_seen_at <= last_seen_at)
) with (fillfactor = 70);
create index catalog_entry_unsampled on catalog_entry (tenant_id) where sample_id is not null;
select wall_off('catalog_entry', 'select');

-- How far the inbox has been counted: it moves in the statement that counts, so that each event counts once.
create table catalog_position (
  only_one boolean primary key default true check (only_one),
  xid xid8 not null,
  seq bigint not null
);
insert into catalog_position (xid, seq) values ('0', 0);
