-- Up Migration
-- The foundation: the inbox, the subscriptions, the lanes that make order and fairness cheap, the deliveries and their history.
-- Time is a parameter of every statement (the hub's clock), so no column defaults to now(). Ids are UUIDv7: they carry their
-- time, so a table partitioned by week on its id has both a global unique key and partitions that retention can drop.

-- A UUID of version 7 whose time is `at`. (PostgreSQL 18 has uuidv7(); the hub runs on 15 and takes its time from its own clock.)
create function uuid7(at timestamptz) returns uuid language sql volatile parallel safe as $$
  select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send(floor(extract(epoch from at) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- The least UUIDv7 of a moment: where a week's partition begins.
create function uuid7_floor(at timestamptz) returns uuid language sql immutable parallel safe as $$
  select (lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Makes the partition of `parent` for the week (UTC, from Monday) that holds `at`. Answers whether it was made: not when it is
-- there already, nor when the default partition holds rows of that week (they stay where they are; nothing is lost by it).
create function make_week(parent text, at timestamptz) returns boolean language plpgsql as $$
declare
  week timestamp := date_trunc('week', at at time zone 'UTC');
  name text := parent || to_char(week, '_IYYY"w"IW');
begin
  if to_regclass(name) is not null then return false; end if;
  execute format('create table %I partition of %I for values from (%L) to (%L)', name, parent,
    uuid7_floor(week at time zone 'UTC'), uuid7_floor((week + interval '7 days') at time zone 'UTC'));
  return true;
exception when check_violation then return false;
end $$;

-- 1. The inbox ------------------------------------------------------------------------------------------------------------

create sequence event_seq;

create table event_inbox (
  tenant_id text not null check (tenant_id <> ''),
  ce_id uuid not null,
  -- Arrival order. Sequence order is not commit order: a reader must use (xid, seq) below the oldest running transaction.
  seq bigint not null default nextval('event_seq'),
  xid xid8 not null default pg_current_xact_id(),
  received_at timestamptz not null,
  source text not null,
  resource_type text not null,
  event_key text not null,
  schema_major integer not null check (schema_major >= 0),
  -- json, not jsonb: it keeps any text, \u0000 too.
  attributes json not null,
  traceparent text,
  tracestate text,
  data bytea,
  data_bytes integer not null check (data_bytes = coalesce(octet_length(data), 0)),
  topic text not null,
  kafka_partition integer,
  kafka_offset bigint,
  record_time timestamptz,
  check ((kafka_partition is null) = (kafka_offset is null)),
  primary key (tenant_id, ce_id)
) partition by range (ce_id);
create table event_inbox_default partition of event_inbox default;
create index event_inbox_cursor on event_inbox (tenant_id, xid, seq);

-- Records that are no events. Headers are JSON pairs of base64 and the value is bytes, so that no content can fail the write.
-- The id is made from the record's position: a record that is read twice is kept once.
create table quarantine (
  id uuid primary key,
  quarantined_at timestamptz not null,
  reason text not null check (reason <> ''),
  detail text not null,
  source text,
  topic text not null,
  kafka_partition integer,
  kafka_offset bigint,
  record_time timestamptz,
  record_key bytea,
  headers json not null,
  value bytea,
  check ((kafka_partition is null) = (kafka_offset is null))
) partition by range (id);
create table quarantine_default partition of quarantine default;
create index quarantine_reason on quarantine (reason, source, id);

-- 2. Subscriptions --------------------------------------------------------------------------------------------------------

create table subscription (
  id uuid primary key,
  tenant_id text not null check (tenant_id <> ''),
  name text not null,
  -- Two independent conditions, both needed for a match and for a delivery.
  enabled boolean not null default true,
  verification_state text not null default 'pending' check (verification_state in ('pending', 'active', 'failed')),
  origin text,
  event_types text[] not null check (cardinality(event_types) > 0),
  schema_major integer check (schema_major >= 0),
  sink json not null,
  destination_key text not null,
  content_mode text not null check (content_mode in ('binary', 'structured')),
  ordering text not null check (ordering in ('fifo', 'strict', 'parallel')),
  -- Milliseconds; deliberately unchecked: one that is found malformed falls back to the default curve.
  retry_schedule json,
  timeout_ms integer not null check (timeout_ms between 1000 and 60000),
  disabled_reason text,
  disabled_at timestamptz,
  metadata json not null,
  version integer not null default 1,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- A deleted one stays until its queue is cancelled, and for the history that names it.
  deleted_at timestamptz,
  drained_at timestamptz,
  check ((disabled_reason is null) = (disabled_at is null)),
  check (disabled_at is null or not enabled),
  check (drained_at is null or deleted_at is not null)
);
create index subscription_tenant on subscription (tenant_id, id);
-- From a destination to its lanes, when its breaker has closed: here, because a lane's row changes three times for each event.
create index subscription_destination on subscription (tenant_id, destination_key);
create index subscription_undrained on subscription (id) where deleted_at is not null and drained_at is null;

-- event_types, one row a pattern: what matching probes.
create table subscription_pattern (
  tenant_id text not null,
  pattern text not null,
  subscription_id uuid not null references subscription on delete cascade,
  primary key (tenant_id, pattern, subscription_id)
);
create index subscription_pattern_owner on subscription_pattern (subscription_id);

-- Sealed with envelope encryption; `field` says of what. Several live signing secrets: a rotation's overlap.
create table subscription_secret (
  id uuid primary key,
  subscription_id uuid not null references subscription on delete cascade,
  tenant_id text not null,
  field text not null,
  sealed text not null,
  created_at timestamptz not null,
  expires_at timestamptz
);
create index subscription_secret_owner on subscription_secret (subscription_id, field);

-- 3. Dispatch: hot and narrow ---------------------------------------------------------------------------------------------

-- A destination's breaker, one for each (tenant, destination); see dispatch/breaker.ts for the states.
create table destination (
  tenant_id text not null,
  destination_key text not null,
  state text not null default 'closed' check (state in ('closed', 'open', 'half_open')),
  failures integer not null default 0 check (failures >= 0),
  opened integer not null default 0 check (opened >= 0),
  blocked_until timestamptz,
  primary key (tenant_id, destination_key),
  check ((blocked_until is null) = (state = 'closed'))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Start-time fair queuing: a tenant's next lane that gets ready takes the turn max(next_turn, virtual time).
create table tenant_turn (
  tenant_id text primary key,
  next_turn bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Virtual time: the turn of the lane that was claimed last. A sequence, because it must not be locked or rolled back; a claim
-- that sets it back a little does no harm.
create sequence virtual_time minvalue 0 start 0;

-- Gives each of `tenants` (one element a lane) the first of as many consecutive turns as it asks for, and locks the tenants'
-- rows in their order. Always called after lanes are locked: destinations, then lanes, then tenants, each in order, is the
-- order of locks everywhere.
create function take_turns(tenants text[]) returns table (tenant_id text, first_turn bigint) language plpgsql rows 100 as $$
#variable_conflict use_column
begin
  if cardinality(tenants) = 0 then return; end if;
  return query
  with wanted as materialized (select t, count(*) as lanes from unnest(tenants) t group by t),
  locked as materialized (
    select tt.tenant_id, w.lanes from wanted w join tenant_turn tt on tt.tenant_id = w.t order by tt.tenant_id for no key update of tt)
  update tenant_turn tt set next_turn = greatest(tt.next_turn, (select last_value from virtual_time)) + k.lanes
  from locked k where tt.tenant_id = k.tenant_id
  returning tt.tenant_id, tt.next_turn - k.lanes;
end $$;

-- One subscription's queue. States:
--   idle     nothing to do
--   waiting  nothing in line; due_at: the earliest of its retries that stepped aside. New work makes it ready.
--   blocked  not before due_at, whatever arrives: the head of a strict line, or the destination's breaker
--   ready    in the ring, in the order of `turn`
--   leased   a worker has it until lease_until; `in_air` are the deliveries whose attempts may be under way
--   held     its subscription is disabled, unverified or deleted
create table lane (
  subscription_id uuid primary key,
  tenant_id text not null,
  destination_key text not null,
  -- The subscription's version. A claim that sees another one in its snapshot leaves the lane alone; a worker whose lane moved
  -- on to another one ends its turn.
  version integer not null default 1,
  state text not null default 'idle' check (state in ('idle', 'waiting', 'blocked', 'ready', 'leased', 'held')),
  due_at timestamptz,
  turn bigint not null default 0,
  lease_token bigint not null default 0,
  lease_until timestamptz,
  -- Rises with every arrival; a release that finds it changed does not trust what it saw of the queue.
  wake_gen bigint not null default 0,
  in_air uuid[] not null default '{}',
  in_air_attempts uuid[] not null default '{}',
  -- After a crash: run alone until an outcome is recorded, so that only the culprit is blamed again.
  solo boolean not null default false,
  -- The open failure streak; null when the last outcome was a success.
  first_failure_at timestamptz,
  last_failure_at timestamptz,
  check ((due_at is not null) = (state in ('waiting', 'blocked'))),
  check ((lease_until is not null) = (state = 'leased')),
  check (state = 'leased' or in_air = '{}'),
  check (cardinality(in_air) = cardinality(in_air_attempts)),
  check ((first_failure_at is null) = (last_failure_at is null)),
  check (first_failure_at <= last_failure_at)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index lane_ring on lane (turn, subscription_id) where state = 'ready' and not solo;
create index lane_ring_solo on lane (turn, subscription_id) where state = 'ready' and solo;
create index lane_due on lane (due_at) where state in ('waiting', 'blocked');
-- Keyed by what never changes while leased, so that extending a lease stays a HOT update.
create index lane_leased on lane (subscription_id) where state = 'leased';
create index lane_streak on lane (first_failure_at) where first_failure_at is not null;

create sequence delivery_seq;

-- Unfinished deliveries only, one for each event × subscription; a finished one moves to delivery_history.
create table delivery (
  id uuid primary key,
  -- The place in the subscription's line.
  seq bigint not null default nextval('delivery_seq'),
  tenant_id text not null,
  subscription_id uuid not null,
  ce_id uuid not null,
  kind text not null default 'event' check (kind in ('event', 'replay', 'test')),
  -- Attempts started, those without an outcome too; steps of the schedule used up; crashes in a row.
  attempts integer not null default 0 check (attempts >= failures),
  failures integer not null default 0 check (failures >= 0),
  crashes integer not null default 0 check (crashes >= 0),
  -- Stepped out of the line onto its own retry schedule.
  aside boolean not null default false,
  due_at timestamptz not null,
  created_at timestamptz not null,
  last_status integer,
  last_error text
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.1);
create index delivery_line on delivery (subscription_id, seq) where not aside;
create index delivery_aside on delivery (subscription_id, due_at, seq) where aside;
create index delivery_event on delivery (ce_id, tenant_id);

create table delivery_history (
  id uuid primary key,
  seq bigint not null,
  tenant_id text not null,
  subscription_id uuid not null,
  ce_id uuid not null,
  kind text not null,
  state text not null check (state in ('delivered', 'dead_lettered')),
  reason text check (reason in ('exhausted', 'poisoned', 'cancelled')),
  attempts integer not null,
  failures integer not null,
  crashes integer not null,
  created_at timestamptz not null,
  finished_at timestamptz not null,
  last_status integer,
  last_error text,
  check ((reason is not null) = (state = 'dead_lettered'))
) partition by range (id);
create table delivery_history_default partition of delivery_history default;
create index delivery_history_subscription on delivery_history (subscription_id, id);
create index delivery_history_event on delivery_history (ce_id, tenant_id);
create index delivery_history_dead on delivery_history (id) where state = 'dead_lettered';

-- Every try; its id is the x-lerian-delivery-id that went out.
create table attempt (
  id uuid primary key,
  delivery_id uuid not null,
  tenant_id text not null,
  subscription_id uuid not null,
  number integer not null check (number >= 1),
  started_at timestamptz not null,
  duration_ms integer,
  -- outcome_unknown: its worker was gone or late, and no outcome was written.
  outcome text not null check (outcome in ('delivered', 'failed', 'outcome_unknown')),
  status integer,
  error_class text,
  error_detail text,
  response bytea,
  check ((error_class is not null) = (outcome = 'failed')),
  check ((duration_ms is null) = (outcome = 'outcome_unknown'))
) partition by range (id);
create table attempt_default partition of attempt default;
create index attempt_delivery on attempt (delivery_id);
