-- Up Migration
-- Readers of the inbox. Sequence order is not commit order: a reader that asks for seq > last passes over an event whose transaction
-- commits later than one with a higher seq. So readers go by (xid, seq), and no further than the *horizon*: the oldest transaction that
-- still runs. What is below it is committed or will never be, and what is written from now on is not below it.

-- By which amount the inbox's transaction ids are ahead of the server's: 0 but on a database that was restored from a dump (or
-- copied by logical replication), where the rows bring ids from the old server with them and the new one begins to count anew. New ids would
-- be lower than those that readers have in their cursors. A function, and not a row: it becomes a constant in every plan, costs an
-- insert nothing, and replacing it makes the plans anew. (Stable, and not immutable: otherwise plans would not notice.)
create function inbox_shift() returns bigint language sql stable parallel safe return 0::bigint;

create function inbox_xid(at xid8) returns xid8 language sql stable parallel safe
  return case when inbox_shift() = 0 then at else (at::text::bigint + inbox_shift())::text::xid8 end;

create function inbox_horizon() returns xid8 language sql stable parallel safe
  return inbox_xid(pg_snapshot_xmin(pg_current_snapshot()));

alter table event_inbox alter column xid set default inbox_xid(pg_current_xact_id());

-- All tenants' arrivals in their order: which tenants have something new, what the catalog has not counted yet, and which id is the
-- last. It only ever grows at its end.
create index event_inbox_arrival on event_inbox (xid, seq);

-- Raises the shift when the inbox holds ids that the server has not given out yet, or when it is told to: after a restore to an earlier
-- moment only the cursors of readers know of later ids. New ids begin far beyond all that any cursor can hold. Answers whether it did.
-- Nobody writes to the inbox meanwhile.
create function align_inbox(forced boolean default false) returns boolean language plpgsql as $$
declare
  last xid8;
begin
  select xid into last from event_inbox order by xid desc, seq desc limit 1;
  if not forced and (last is null or last < inbox_xid(pg_snapshot_xmax(pg_current_snapshot()))) then return false; end if;
  lock table event_inbox in share row exclusive mode;
  select xid into last from event_inbox order by xid desc, seq desc limit 1;
  last := greatest(last, inbox_xid(pg_snapshot_xmax(pg_current_snapshot())));
  execute format('create or replace function inbox_shift() returns bigint language sql stable parallel safe return %s::bigint',
    last::text::bigint + (1::bigint << 40));
  return true;
end $$;
