-- Up Migration
-- What producing applications gave up on, as it lies in their own `.dlq` topics, kept for people to look at. Nothing here refers to
-- an event, a subscription or a delivery, and nothing refers here. Kept by when it was found and not by when it was written, so
-- that a backlog which is read late is not gone at once: the id carries that moment, and retention drops whole days.

-- Makes the partition of `parent` for the day (UTC) that holds `at`. Answers whether it was made, as make_week does.
create function make_day(parent text, at timestamptz) returns boolean language plpgsql as $$
declare
  day timestamp := date_trunc('day', at at time zone 'UTC');
  name text := parent || to_char(day, '_YYYY_MM_DD');
begin
  if to_regclass(name) is not null then return false; end if;
  execute format('create table %I partition of %I for values from (%L) to (%L)', name, parent,
    uuid7_floor(day at time zone 'UTC'), uuid7_floor((day + interval '1 day') at time zone 'UTC'));
  return true;
exception when check_violation then return false;
end $$;

-- Drops the partitions of `parent` whose day (UTC) was over at `before`; answers how many. It waits for whoever reads or writes
-- the table, and makes others wait behind it: call it under a lock_timeout.
create function drop_days(parent text, before timestamptz) returns integer language plpgsql as $$
declare
  name text;
  dropped integer := 0;
begin
  for name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = parent::regclass
      and to_date(substring(c.relname from '_(\d{4}_\d\d_\d\d)$'), 'YYYY_MM_DD') + 1 <= before at time zone 'UTC'
    order by c.relname
  loop
    execute format('drop table %I', name);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $$;

create table producer_dead_letter (
  id uuid primary key,
  seen_at timestamptz not null,
  -- Where it was found. The source is the topic's segment: the application whose topic it is.
  source text not null check (source <> ''),
  topic text not null,
  kafka_partition integer not null,
  kafka_offset bigint not null,
  record_time timestamptz,
  -- The record: bytes, and JSON pairs of base64.
  record_key bytea,
  headers json not null,
  value bytea,
  -- What its headers say, where that can be read: for filters, never trusted further.
  tenant_id text,
  event_id text,
  event_type text,
  event_source text,
  source_topic text,
  source_partition integer,
  source_offset bigint,
  error_class text,
  error_message text,
  cause_kind text,
  retry_count integer,
  first_failure_at timestamptz,
  producer_id text,
  payload_omitted boolean,
  payload_bytes bigint
) partition by range (id);
create table producer_dead_letter_default partition of producer_dead_letter default;

-- Whether a record was kept already. Not unique: its partition key would have to be part of it.
create index producer_dead_letter_position on producer_dead_letter (topic, kafka_partition, kafka_offset);
create index producer_dead_letter_source on producer_dead_letter (source, id);
create index producer_dead_letter_tenant on producer_dead_letter (tenant_id, id);
create index producer_dead_letter_type on producer_dead_letter (event_type, id);
create index producer_dead_letter_class on producer_dead_letter (error_class, id);
create index producer_dead_letter_cause on producer_dead_letter (cause_kind, id);

-- Counts of the quarantine by when it happened, reason and source, read from the index alone.
create index quarantine_counts on quarantine (quarantined_at, reason, source);
