-- Up Migration
-- Partitions that are attached stand behind the wall between tenants too (see 0006): one that is addressed by its own name does not ask
-- its parent's policies, has none of its own, and so shows nothing to whoever is not its owner.
create or replace function attach_partition(parent text, name text, lower uuid, upper uuid) returns boolean language plpgsql
  set lock_timeout = '1s' as $$
declare
  key text;
  strays bigint;
begin
  if to_regclass(quote_ident(name)) is not null then return false; end if;
  select attname into strict key from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
    where p.partrelid = parent::regclass;
  execute format('create table %I (like %I including all) with (autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_insert_threshold = 50000, autovacuum_analyze_scale_factor = 0.05)', name, parent);
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

do $$
declare
  partition regclass;
begin
  for partition in
    select i.inhrelid from pg_inherits i join pg_class c on c.oid = i.inhrelid where c.relkind = 'r' and not c.relrowsecurity
  loop
    execute format('alter table %s enable row level security', partition);
  end loop;
end $$;
