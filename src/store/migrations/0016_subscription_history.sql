-- Up Migration
-- The audit trail of subscriptions: each of their versions has one row, which says who made it and what it changed. It is written in the
-- transaction of the change itself, and never changed or deleted, also not with its subscription: an auditor asks afterwards.
-- It grows with what people do and not with traffic (some 500 bytes a change, at most twice the 16 KiB of metadata), so it has no
-- partitions, and retention leaves it alone.
create table subscription_change (
  subscription_id uuid not null,
  version integer not null check (version >= 1),
  tenant_id text not null check (tenant_id <> ''),
  what text not null check (what in ('created', 'updated', 'paused', 'resumed', 'verified', 'verification_failed', 'secret_rotated',
    'auto_disabled', 'enabled_by_verification', 'deleted')),
  at timestamptz not null,
  by_kind text not null check (by_kind <> ''),
  by_id text not null,
  by_name text not null,
  -- A list of {field, old, new}; secrets are masked. json, not jsonb: it keeps any text, \u0000 too.
  changes json not null,
  check ((version = 1) = (what = 'created')),
  primary key (subscription_id, version)
);
select wall_off('subscription_change', 'select, insert');
