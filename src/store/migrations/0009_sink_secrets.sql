-- Up Migration
-- Of a sink's secrets there is one of each field: a new one takes the old one's place. Only signing secrets overlap.
create unique index subscription_secret_of_sink on subscription_secret (subscription_id, field) where field <> 'signing_secret';
