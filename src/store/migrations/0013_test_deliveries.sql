-- Up Migration
-- Tests that a tenant sends by hand, until they are finished: a few at a time, and each for seconds. They are no work of a lane: they
-- wait behind nothing, hold nothing up, and move neither breaker nor failure streak. Their event is made up, so it is kept here and
-- never in the inbox: nobody pulls it, matches it or replays it. A finished one is in delivery_history, with its attempt.

create table test_delivery (
  id uuid primary key,
  tenant_id text not null check (tenant_id <> ''),
  subscription_id uuid not null references subscription on delete cascade,
  event_id uuid not null,
  -- What is sent, as json; its data in base64.
  event json not null,
  created_at timestamptz not null,
  -- Of its only attempt, once a dispatcher has it; when that has passed without an outcome the dispatcher is gone.
  attempt_id uuid,
  claimed_until timestamptz,
  check ((attempt_id is null) = (claimed_until is null))
);
create index test_delivery_subscription on test_delivery (subscription_id);

select wall_off('test_delivery', 'select, insert');
