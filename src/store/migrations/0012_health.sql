-- Up Migration
-- What became of each subscription's attempts and deliveries, counted by the hour: its health over a month is then the sum of some
-- seven hundred rows, however many attempts there were. Counted in the very statement that records them, so the two never differ.
-- Tests sent by hand are not counted.

create table outcome_hour (
  -- The hour, as the least UUIDv7 of its beginning: its weeks come and go as those of the other growing tables do.
  hour uuid not null,
  subscription_id uuid not null,
  tenant_id text not null,
  began_at timestamptz not null,
  -- Attempts that started in it. outcome_unknown has no lower bound of its own: an outcome that comes late after all is first written
  -- as one less, and then added.
  delivered integer not null default 0,
  failed integer not null default 0,
  outcome_unknown integer not null default 0,
  -- Deliveries that were finished in it.
  deliveries_delivered integer not null default 0,
  deliveries_dead_lettered integer not null default 0,
  -- When the last attempt ended in success, and in failure.
  last_delivered_at timestamptz,
  last_failed_at timestamptz,
  -- How long attempts with an outcome took: more than the bound before and up to this one.
  ms_5 integer not null default 0, ms_10 integer not null default 0, ms_15 integer not null default 0,
  ms_25 integer not null default 0, ms_40 integer not null default 0, ms_60 integer not null default 0,
  ms_90 integer not null default 0, ms_130 integer not null default 0, ms_200 integer not null default 0,
  ms_300 integer not null default 0, ms_450 integer not null default 0, ms_700 integer not null default 0,
  ms_1000 integer not null default 0, ms_1500 integer not null default 0, ms_2200 integer not null default 0,
  ms_3300 integer not null default 0, ms_5000 integer not null default 0, ms_7500 integer not null default 0,
  ms_11000 integer not null default 0, ms_16000 integer not null default 0, ms_25000 integer not null default 0,
  ms_40000 integer not null default 0, ms_60000 integer not null default 0, ms_more integer not null default 0,
  primary key (subscription_id, hour)
) partition by range (hour);
create table outcome_hour_default partition of outcome_hour default;
alter table outcome_hour_default enable row level security;
select wall_off('outcome_hour', 'select');
