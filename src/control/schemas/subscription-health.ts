// A subscription's health in the API.
import { Type, type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, named } from './common.ts'

const Count = (description: string) => Type.Integer({ minimum: 0, description })
const Rate = (description: string) => Nullable(Type.Number({ minimum: 0, maximum: 1, description }))
const Latency = Nullable(Type.Integer({ minimum: 0 }))

export const SubscriptionHealthSchema = named(
  'SubscriptionHealth',
  Type.Object(
    {
      subscription_id: Uuid,
      since: Type.String({ ...Timestamp, description: 'The full hour in which the window begins.' }),
      until: Timestamp,
      success_rate: Rate('Of the attempts with an outcome; null where there were none.'),
      attempts: Type.Object({
        total: Count('Attempts that were started in the window and recorded.'),
        delivered: Count('Answered by a 2xx in time.'),
        failed: Count('Anything else.'),
        outcome_unknown: Count('Their worker was gone; they count neither for nor against the destination.'),
      }),
      deliveries: Type.Object({
        delivered: Count('Deliveries that ended so in the window.'),
        dead_lettered: Count('Deliveries that ended so in the window.'),
        success_rate: Rate('Of the finished ones; null where there were none.'),
      }),
      latency_ms: Type.Object(
        { p50: Latency, p95: Latency },
        {
          description:
            'Of the attempts with an outcome. Counted in classes, above 10 ms at most two thirds wide: the true value is in the same class; beyond a minute it is said as 60000.',
        },
      ),
      last_success_at: Nullable(Type.String({ ...Timestamp, description: 'Within the window.' })),
      last_failure_at: Nullable(
        Type.String({ ...Timestamp, description: 'Within the window, or of the open streak.' }),
      ),
      failure_streak: Nullable(
        Type.Object(
          { first_failure_at: Timestamp, last_failure_at: Timestamp },
          { description: 'The failures since the last success; null: the last outcome was a success.' },
        ),
      ),
      breaker: Type.Object({
        state: Type.Enum(['closed', 'open', 'half_open']),
        failures: Count('In a row.'),
        opened: Count('How often, since it was last closed.'),
        blocked_until: Nullable(Timestamp),
      }),
      backlog: Type.Object({
        state: Type.Enum(['idle', 'waiting', 'blocked', 'ready', 'leased', 'held'], {
          description:
            'Of the queue: held while the subscription is disabled or not verified, blocked behind a breaker or a strict head.',
        }),
        queued: Count('Not tried yet; counted up to 10000.'),
        retrying: Count('Tried before; counted up to 10000.'),
        is_exact: Type.Boolean({ description: 'False: there are more than were counted.' }),
        oldest_created_at: Nullable(Timestamp),
        oldest_age_seconds: Nullable(Type.Integer({ minimum: 0 })),
        next_attempt_at: Nullable(
          Type.String({ ...Timestamp, description: 'Not before; null: nothing waits, or the queue is held.' }),
        ),
      }),
      auto_disable: Type.Object({
        enabled: Type.Boolean(),
        disables_at: Nullable(
          Type.String({
            ...Timestamp,
            description:
              'If every attempt until then fails, it is switched off at the earliest then; null: nothing threatens.',
          }),
        ),
      }),
    },
    {
      examples: [
        {
          subscription_id: '01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10',
          since: '2026-04-14T13:00:00.000Z',
          until: '2026-05-14T13:20:00.000Z',
          success_rate: 0.98,
          attempts: { total: 1001, delivered: 980, failed: 20, outcome_unknown: 1 },
          deliveries: { delivered: 980, dead_lettered: 1, success_rate: 0.999 },
          latency_ms: { p50: 52, p95: 178 },
          last_success_at: '2026-05-14T12:58:03.120Z',
          last_failure_at: '2026-05-14T13:12:44.001Z',
          failure_streak: {
            first_failure_at: '2026-05-14T12:59:10.500Z',
            last_failure_at: '2026-05-14T13:12:44.001Z',
          },
          breaker: { state: 'open', failures: 5, opened: 2, blocked_until: '2026-05-14T13:21:30.000Z' },
          backlog: {
            state: 'blocked',
            queued: 12,
            retrying: 5,
            is_exact: true,
            oldest_created_at: '2026-05-14T12:59:10.448Z',
            oldest_age_seconds: 1249,
            next_attempt_at: '2026-05-14T13:21:30.000Z',
          },
          auto_disable: { enabled: true, disables_at: '2026-05-19T12:59:10.500Z' },
        },
      ],
    },
  ),
)

export type SubscriptionHealthJson = Static<typeof SubscriptionHealthSchema>
