-- Up Migration
-- A replay delivers again what a subscription was sent in a range of time. It is a row with a cursor into the history and not a
-- queue of its own: a replay of millions costs nothing until it gets there, and only a few of its deliveries are in the
-- subscription's line at a time, so that live ones never wait behind it. See upkeep/replays.ts for who moves it.

-- What a delivery of kind 'replay' repeats, and which replay made it (null: a retry by hand). Kept with it in the history.
alter table delivery add column replay_of uuid, add column replay_id uuid,
  add check (replay_of is null or kind = 'replay'), add check (replay_id is null or replay_of is not null);
alter table delivery_history add column replay_of uuid, add column replay_id uuid,
  add check (replay_of is null or kind = 'replay'), add check (replay_id is null or replay_of is not null);

-- What became of an event may be the work of a replay made long after the event: few, and found without reading the others.
create index delivery_history_replayed on delivery_history (subscription_id, id) where kind = 'replay';

create table replay (
  id uuid primary key,
  tenant_id text not null check (tenant_id <> ''),
  subscription_id uuid not null references subscription on delete cascade,
  -- Of the events' arrival: at or after, and before. Fixed, and never beyond the replay's own creation.
  since timestamptz not null,
  until timestamptz not null check (until >= since and until <= created_at),
  states text[] not null check (cardinality(states) > 0 and states <@ array['dead_lettered', 'delivered']),
  status text not null default 'running' check (status in ('running', 'done', 'cancelled')),
  -- Events: counted when it was made; of those that the cursor has passed: queued again, and passed over because they are no
  -- longer in the inbox.
  total integer not null check (total >= 0),
  queued integer not null default 0 check (queued >= 0),
  skipped integer not null default 0 check (skipped >= 0),
  -- What became of the queued ones; `outstanding` are the deliveries that were unfinished when it was last looked.
  delivered integer not null default 0 check (delivered >= 0),
  dead_lettered integer not null default 0 check (dead_lettered >= 0),
  outstanding uuid[] not null default '{}',
  -- The last event passed, in the order of arrival, and whether it was the range's last one.
  cursor_at timestamptz not null check (cursor_at >= since),
  cursor_seq bigint not null default 0 check (cursor_seq >= 0),
  all_queued boolean not null default false,
  -- When it is looked at again; also after it was cancelled, until what it had queued is finished.
  next_step_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  finished_at timestamptz,
  -- None is counted twice, none is counted that was not queued.
  check (delivered + dead_lettered + cardinality(outstanding) <= queued),
  check (status <> 'done' or all_queued and outstanding = '{}' and total = queued + skipped),
  check ((next_step_at is not null) = (status = 'running' or outstanding <> '{}')),
  check ((finished_at is null) = (status = 'running'))
) with (fillfactor = 50);
create index replay_subscription on replay (subscription_id, id);
create index replay_next_step on replay (next_step_at) where next_step_at is not null;
create index replay_unfinished on replay (subscription_id) where next_step_at is not null;
