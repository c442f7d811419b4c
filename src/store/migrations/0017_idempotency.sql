-- Up Migration
-- What makes a POST safe to send again: who has claimed an `Idempotency-Key` and works on it, and what the work was answered with. Both are
-- known by a hash of tenant, caller and key, as a UUID. Answers hold secrets that are shown once, so they are sealed, whole, with what
-- was asked; tenants' own calls need nothing of these tables. Upkeep removes what is over.
create table idempotency_claim (
  id uuid primary key,
  -- Who has it: another one may take it over once `locked_until` has passed.
  token uuid not null,
  locked_until timestamptz not null
);
create index idempotency_claim_over on idempotency_claim (locked_until);

create table idempotent_answer (
  id uuid primary key,
  -- Empty: of a caller who acts for no tenant.
  tenant_id text not null,
  sealed text not null,
  key_id text generated always as (sealed_by(sealed)) stored,
  expires_at timestamptz not null
);
create index idempotent_answer_key on idempotent_answer (key_id, id);
create index idempotent_answer_over on idempotent_answer (expires_at);
select wall_off('idempotent_answer', '');
