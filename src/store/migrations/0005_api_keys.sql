-- Up Migration
-- API keys. Of a key only the digest is stored: the secret is 32 random bytes, so a plain SHA-256 gives nothing away. A key that is
-- revoked or has expired stays, for whoever asks later what it was.

create table api_key (
  id uuid primary key,
  -- Shown, and how a key is found; the secret is what is compared.
  prefix text not null unique check (prefix ~ '^[0-9a-f]{12}$'),
  secret_sha256 bytea not null check (octet_length(secret_sha256) = 32),
  -- Null: of no tenant, for operators and for services that bring in all tenants' events.
  tenant_id text check (tenant_id <> ''),
  name text not null check (name <> ''),
  scopes text[] not null,
  created_at timestamptz not null,
  -- Who, as the log names callers.
  created_by text not null,
  expires_at timestamptz check (expires_at > created_at),
  -- Written now and then, not at each use.
  last_used_at timestamptz,
  revoked_at timestamptz,
  revoked_by text,
  check (cardinality(scopes) > 0
    and scopes <@ array['subscriptions:read', 'subscriptions:write', 'events:read', 'events:ingest', 'admin']),
  check (tenant_id is not null or scopes <@ array['events:ingest', 'admin']),
  check ((revoked_at is null) = (revoked_by is null))
);
create index api_key_tenant on api_key (tenant_id, id);

-- No tenant reads keys, not even its own: what the tables' owner alone may do.
alter table api_key enable row level security;
create policy nobody on api_key using (false);
