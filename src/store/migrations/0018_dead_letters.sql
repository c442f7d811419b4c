-- Up Migration
-- Dead letters of one subscription have an index of their own; that of all of them must not be taken for it, because it may have to be read
-- from end to end. So it is told by what is as true of a dead letter, and only asked for where all are listed.
drop index delivery_history_dead;
create index delivery_history_dead on delivery_history (id) where reason is not null;
