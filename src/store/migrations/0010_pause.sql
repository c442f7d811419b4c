-- Up Migration
-- A subscription may be switched off with a reason by its owner too: a pause. A verification enables again only what the hub had
-- switched off, so it has to be known whose the reason is.
alter table subscription add column disabled_by_owner boolean not null default false;
alter table subscription add check (not disabled_by_owner or disabled_reason is not null);
