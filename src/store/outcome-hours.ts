// Outcomes counted by subscription and hour, in the statement that records them. Latencies are counted in classes, above 10 ms each at
// most two thirds wider than the one before: a percentile read from the counts is in the same class as the true one.

/** Upper bounds of the latency classes, in ms; longer ones are in one more class. The columns of outcome_hour are named by them. */
export const LATENCY_BOUNDS_MS = [
  5, 10, 15, 25, 40, 60, 90, 130, 200, 300, 450, 700, 1_000, 1_500, 2_200, 3_300, 5_000, 7_500, 11_000, 16_000, 25_000,
  40_000, 60_000,
] as const

export const LATENCY_COLUMNS = [...LATENCY_BOUNDS_MS.map((bound) => `ms_${bound}`), 'ms_more']

const COUNTS = [
  'delivered',
  'failed',
  'outcome_unknown',
  'deliveries_delivered',
  'deliveries_dead_lettered',
  ...LATENCY_COLUMNS,
]

/**
 * Adds what a CTE named `happened` says to the hours: one row for each attempt (`outcome`, `duration_ms`, and when it started as
 * `at`) and for each finished delivery (`fate`, and when as `at`), with `subscription_id`, `tenant_id`, and `step`: 1, or -1 for what was
 * counted and is not so. Rows are locked in their order, after lanes.
 */
export const COUNT_OUTCOMES = `
  insert into outcome_hour as h (hour, subscription_id, tenant_id, began_at, last_delivered_at, last_failed_at, ${COUNTS.join(', ')})
  select uuid7_floor(began_at), subscription_id, tenant_id, began_at,
    max(at + duration_ms * interval '1 ms') filter (where outcome = 'delivered'),
    max(at + duration_ms * interval '1 ms') filter (where outcome = 'failed'),
    count(*) filter (where outcome = 'delivered'), count(*) filter (where outcome = 'failed'),
    coalesce(sum(step) filter (where outcome = 'outcome_unknown'), 0),
    count(*) filter (where fate = 'delivered'), count(*) filter (where fate = 'dead_lettered'),
    ${LATENCY_COLUMNS.map((_, n) => `count(*) filter (where latency = ${n})`).join(', ')}
  from (select *, date_trunc('hour', at, 'UTC') as began_at,
    width_bucket(duration_ms, array[${LATENCY_BOUNDS_MS.map((bound) => bound + 1).join()}]) as latency from happened) o
  group by began_at, subscription_id, tenant_id
  order by subscription_id, began_at
  on conflict (subscription_id, hour) do update set
    last_delivered_at = greatest(h.last_delivered_at, excluded.last_delivered_at),
    last_failed_at = greatest(h.last_failed_at, excluded.last_failed_at),
    ${COUNTS.map((column) => `${column} = h.${column} + excluded.${column}`).join(', ')}`
