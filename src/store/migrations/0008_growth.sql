-- Up Migration
-- Tables that grow: how their partitions come and go beside traffic, and how vacuum treats what they hold.

-- Makes `name` the partition of `parent` for the keys from `lower` to below `upper`; answers whether it did: not when it is there
-- already. `create table … partition of` would lock the parent against everybody; a table that is made apart and then attached lets
-- reading and writing go on, and locks the default partition alone. Rows of its range that lie in there come along, as long as they are
-- few; with too many of them it is not made (they stay where they are, nothing is lost by it, and the guard tells of them).
-- No lock is waited for longer than a second: the error is lock_not_available, and the next try may succeed.
create function attach_partition(parent text, name text, lower uuid, upper uuid) returns boolean language plpgsql
  set lock_timeout = '1s' as $$
declare
  key text;
  strays bigint;
begin
  if to_regclass(quote_ident(name)) is not null then return false; end if;
  select attname into strict key from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
    where p.partrelid = parent::regclass;
  -- Rows are written once and hardly ever changed: vacuum is for the visibility map and for freezing, little by little.
  execute format('create table %I (like %I including all) with (autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_insert_threshold = 50000, autovacuum_analyze_scale_factor = 0.05)', name, parent);
  -- Behind the wall between tenants, as the others are: see 0006.
  execute format('alter table %I enable row level security', name);
  execute format('lock table only %I in access exclusive mode', parent || '_default');
  execute format('select count(*) from (select from %I where %I >= $1 and %2$I < $2 limit 20001) s', parent || '_default', key)
    into strays using lower, upper;
  if strays > 20000 then
    execute format('drop table %I', name);
    return false;
  end if;
  if strays > 0 then
    execute format('with strays as (delete from %I where %I >= $1 and %2$I < $2 returning *) insert into %I select * from strays',
      parent || '_default', key, name) using lower, upper;
  end if;
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, name, lower, upper);
  return true;
exception when duplicate_table then return false;
end $$;

-- As before, by attaching: the partition of `parent` for the week (UTC, from Monday), or the day (UTC), that holds `at`.
create or replace function make_week(parent text, at timestamptz) returns boolean language plpgsql as $$
declare
  week timestamp := date_trunc('week', at at time zone 'UTC');
begin
  return attach_partition(parent, parent || to_char(week, '_IYYY"w"IW'), uuid7_floor(week at time zone 'UTC'),
    uuid7_floor((week + interval '7 days') at time zone 'UTC'));
end $$;
create or replace function make_day(parent text, at timestamptz) returns boolean language plpgsql as $$
declare
  day timestamp := date_trunc('day', at at time zone 'UTC');
begin
  return attach_partition(parent, parent || to_char(day, '_YYYY_MM_DD'), uuid7_floor(day at time zone 'UTC'),
    uuid7_floor((day + interval '1 day') at time zone 'UTC'));
end $$;

-- The weekly partitions of `parent`, with the keys that they hold.
create function weeks_of(parent text) returns table (name text, week timestamptz, lower uuid, upper uuid) language sql stable as $$
  select c.relname::text, w.week, uuid7_floor(w.week), uuid7_floor(w.week + interval '7 days')
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  cross join lateral (select to_date(substring(c.relname from '_(\d{4}w\d\d)$'), 'IYYY"w"IW')::timestamp at time zone 'UTC' as week) w
  where i.inhparent = parent::regclass and w.week is not null
$$;

-- Whether an unfinished delivery needs something of a weekly partition: its event, its place in the history, or its attempts.
create function week_is_needed(parent text, name text, lower uuid, upper uuid) returns boolean language plpgsql stable as $$
declare
  found_one uuid;
begin
  case parent
    when 'event_inbox' then
      select id into found_one from delivery where ce_id >= lower and ce_id < upper limit 1;
    when 'delivery_history' then
      select id into found_one from delivery where id >= lower and id < upper limit 1;
    when 'attempt' then
      execute format('select d.id from delivery d cross join lateral (select from %I a where a.delivery_id = d.id limit 1) a
        where d.attempts > 0 and d.id < $1 limit 1', name) into found_one using upper;
    else null;
  end case;
  return found_one is not null;
end $$;

-- Drops one weekly partition; answers false, and leaves it, when an unfinished delivery needs it. Dropping locks the parent for a few
-- milliseconds (it has a default partition, so none can be detached concurrently). The lock is waited for half a second at most, because
-- others wait behind us meanwhile; the error is lock_not_available. What is asked again under the lock is what a replay or a
-- retry by hand may have made of an old event since.
create function drop_week(parent text, name text, lower uuid, upper uuid) returns boolean language plpgsql
  set lock_timeout = '500ms' as $$
begin
  if week_is_needed(parent, name, lower, upper) then return false; end if;
  execute format('lock table only %I, %I in access exclusive mode', parent, name);
  if parent = 'event_inbox' and week_is_needed(parent, name, lower, upper) then return false; end if;
  execute format('drop table %I', name);
  return true;
end $$;

-- Vacuum of what is changed all the time is cheap while it is done often, and must not be slowed down into falling behind.
alter table lane set (autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 2000);
alter table tenant_turn set (autovacuum_vacuum_cost_delay = 0);
alter table destination set (autovacuum_vacuum_cost_delay = 0);
alter table delivery set (autovacuum_vacuum_cost_limit = 2000, autovacuum_analyze_scale_factor = 0.05);
alter table replay set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
do $$
declare
  name text;
begin
  for name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('event_inbox'::regclass, 'quarantine'::regclass, 'delivery_history'::regclass, 'attempt'::regclass,
      'producer_dead_letter'::regclass) and c.relkind = 'r'
  loop
    execute format('alter table %I set (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 50000,
      autovacuum_analyze_scale_factor = 0.05)', name);
  end loop;
end $$;
