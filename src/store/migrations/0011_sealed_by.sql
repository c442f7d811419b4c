-- Up Migration
-- Which key-encryption key sealed a text: so that a new key can be brought to every stored secret, and an old one taken away once
-- nothing needs it. The id stands in the sealed text's own protected header, so the column is generated: no writer can forget it.

-- Null for what is no JWE with a key id: that does not open either.
create function sealed_by(sealed text) returns text language plpgsql immutable strict as $$
declare
  header text;
begin
  header := sealed::json->>'protected';
  return convert_from(decode(rpad(translate(header, '-_', '+/'), (length(header) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::json->>'kid';
exception when others then return null;
end $$;

alter table subscription_secret add column key_id text generated always as (sealed_by(sealed)) stored;
create index subscription_secret_key on subscription_secret (key_id, id);
-- Those of a rotation's overlap: upkeep removes them once it is over.
create index subscription_secret_expiry on subscription_secret (expires_at) where expires_at is not null;
