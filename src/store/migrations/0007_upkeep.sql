-- Up Migration
-- What operators ask of the chores that one replica does for all: which there are, who did each of them last, when, and how it went.
-- Who may do them is decided by an advisory lock and never by this table.
create table upkeep_chore (
  name text primary key,
  every_ms bigint not null check (every_ms > 0),
  holder text not null,
  started_at timestamptz not null,
  finished_at timestamptz not null,
  -- What it did; null: there was nothing to do, or it failed.
  done json,
  error text,
  check (done is null or error is null)
);
