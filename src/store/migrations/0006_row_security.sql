-- Up Migration
-- The second wall between tenants: what a tenant asks for runs as a role that sees the rows of the tenant named for the
-- transaction and no others, whatever the statement says. A statement that forgets its tenant then finds nothing, or fails.
-- The hub's own work (ingest, dispatch, upkeep, operators) goes on as the tables' owner, for whom the wall does not count.

-- A role of the whole cluster, which a database's migration may find there already. Nobody logs in as it. Whoever migrates makes it
-- and becomes a member, or is told what somebody else has to run once.
do $$
declare
  -- Since version 16 a membership need not allow to become the role: whoever creates one gets such a membership.
  becoming text := case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end;
begin
  begin
    if not exists (select from pg_roles where rolname = 'streaming_hub_tenant') then
      create role streaming_hub_tenant nologin;
    end if;
  exception when duplicate_object or unique_violation then null; -- made for another database of the cluster at this very moment
  end;
  if exists (select from pg_roles where rolname = 'streaming_hub_tenant' and (rolsuper or rolbypassrls)) then
    raise exception 'the role streaming_hub_tenant must not be a superuser, nor bypass row security';
  end if;
  if not pg_has_role(current_user, 'streaming_hub_tenant', becoming) then
    grant streaming_hub_tenant to current_user;
  end if;
exception when insufficient_privilege then
  raise exception 'the database user % may not act for tenants: a superuser runs once "create role streaming_hub_tenant nologin" if it is missing, and "grant streaming_hub_tenant to %"',
    current_user, quote_ident(current_user);
end $$;

do $$
begin
  if not has_schema_privilege('streaming_hub_tenant', current_schema(), 'usage') then
    execute format('grant usage on schema %I to streaming_hub_tenant', current_schema());
  end if;
end $$;

-- Puts a table with a tenant_id behind the wall. `privileges` is what tenants' own calls need of it, such as 'select, insert';
-- empty for none. Every migration that makes such a table calls it.
create function wall_off(tenant_table regclass, privileges text) returns void language plpgsql as $$
begin
  execute format('alter table %s enable row level security', tenant_table);
  -- Where no tenant is set the setting is null or empty, and there is no row of such a tenant.
  execute format('create policy tenant on %s to streaming_hub_tenant using (tenant_id = current_setting(''streaming_hub.tenant_id'', true))',
    tenant_table);
  if privileges <> '' then execute format('grant %s on %s to streaming_hub_tenant', privileges, tenant_table); end if;
end $$;

-- A partition that is addressed by its own name does not ask its parent's policies. It has none of its own and nobody is granted
-- it: whoever is not its owner sees nothing of it. (Those that are made later: see attach_partition.)
do $$
declare
  partition regclass;
begin
  for partition in
    select i.inhrelid from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where c.relkind = 'r' and i.inhparent in ('event_inbox'::regclass, 'quarantine'::regclass, 'delivery_history'::regclass,
      'attempt'::regclass, 'producer_dead_letter'::regclass)
  loop
    execute format('alter table %s enable row level security', partition);
  end loop;
end $$;

select wall_off('subscription', 'select, insert, update');
select wall_off('subscription_pattern', 'select, insert, delete');
select wall_off('subscription_secret', 'select, insert, update, delete');
select wall_off('destination', 'select, insert');
select wall_off('lane', 'select, insert, update');
select wall_off('tenant_turn', 'select, insert, update');
select wall_off('delivery', 'select, insert, update');
select wall_off('delivery_history', 'select');
select wall_off('attempt', 'select');
select wall_off('replay', 'select, insert, update');
select wall_off('event_inbox', 'select');
-- Operators' alone.
select wall_off('producer_dead_letter', '');
grant usage on sequence delivery_seq to streaming_hub_tenant;
grant select on sequence virtual_time to streaming_hub_tenant;
