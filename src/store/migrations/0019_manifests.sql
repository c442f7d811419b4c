-- Up Migration
-- What producers say of their types of events, fetched from their manifests: for the catalog, which shows it. No event's way leads here.

create table manifest (
  url text primary key,
  -- Its place in the configuration: of two that describe the same type the first one is shown.
  place integer not null,
  fetched_at timestamptz not null,
  -- When what is kept of it was fetched; null: never.
  succeeded_at timestamptz,
  -- Why the last fetch failed; null: it did not.
  problem text,
  -- The entries of the last success that were not taken, each with why: [{"path", "message"}].
  left_out json not null default '[]'
);

create table described_type (
  source text not null,
  event_key text not null,
  url text not null references manifest on delete cascade,
  title text,
  description text,
  data_schema text,
  primary key (source, event_key, url)
);
create index described_type_by_url on described_type (url);

-- They are the platform's, the same for all tenants; what went wrong with a manifest is its operators' business.
grant select (url, place) on manifest to streaming_hub_tenant;
grant select on described_type to streaming_hub_tenant;
