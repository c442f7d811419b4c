-- Up Migration
-- The control plane lists a subscription's deliveries newest first, unfinished and finished ones merged by id. Without the first
-- index a page of a subscription with a deep backlog sorts all of it (measured: it costs an insert about 1 µs a delivery). The
-- others are of what is rare and asked for: what is being retried in a deep backlog, the dead letters of a long history.

create index delivery_subscription on delivery (subscription_id, id);
create index delivery_retrying on delivery (subscription_id, id) where attempts > 0;
create index delivery_history_dead_subscription on delivery_history (subscription_id, id) where state = 'dead_lettered';
