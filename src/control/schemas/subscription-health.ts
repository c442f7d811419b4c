// A subscription's health in the API.
import { Type, type Static } from 'typebox'
import { Count, Flag, Nullable, Timestamp, Uuid, named, told } from './common.ts'
import { BreakerState } from './operators.ts'

const Rate = (description: string) => Nullable(Type.Number({ minimum: 0, maximum: 1 }), description)
const Latency = (description: string) => Nullable(Type.Integer({ minimum: 0 }), description)

export const SubscriptionHealthSchema = named(
  'SubscriptionHealth',
  Type.Object(
    {
      subscription_id: told(Uuid, 'The subscription.'),
      since: told(Timestamp, 'The full hour in which the window begins.'),
      until: told(Timestamp, 'The end of the window: now.'),
      success_rate: Rate('From 0 to 1, of the attempts with an outcome; null where there were none.'),
      attempts: Type.Object(
        {
          total: Count('Attempts that were started in the window and recorded.'),
          delivered: Count('Answered by a 2xx in time.'),
          failed: Count('Anything else.'),
          outcome_unknown: Count('Their worker was gone; they count neither for nor against the destination.'),
        },
        { description: 'What the attempts came to.' },
      ),
      deliveries: Type.Object(
        {
          delivered: Count('Deliveries that ended so in the window.'),
          dead_lettered: Count('Deliveries that ended so in the window.'),
          success_rate: Rate('From 0 to 1, of the finished ones; null where there were none.'),
        },
        { description: 'What the deliveries came to.' },
      ),
      latency_ms: Type.Object(
        {
          p50: Latency('Half of the attempts took at most so many milliseconds; null: there were none.'),
          p95: Latency('95 of 100 attempts took at most so many milliseconds; null: there were none.'),
        },
        {
          description:
            'Milliseconds, of the attempts with an outcome. Counted in classes, above 10 ms at most two thirds wide: the true value is in the same class; beyond a minute it is said as 60000.',
        },
      ),
      last_success_at: Nullable(Timestamp, 'Within the window; null: there was none.'),
      last_failure_at: Nullable(Timestamp, 'Within the window, or of the open streak; null: there was none.'),
      failure_streak: Nullable(
        Type.Object({
          first_failure_at: told(Timestamp, 'When it began.'),
          last_failure_at: told(Timestamp, 'The latest failure so far.'),
        }),
        'The failures since the last success; null: the last outcome was a success.',
      ),
      breaker: Type.Object(
        {
          state: BreakerState,
          failures: Count('Failed attempts in a row.'),
          opened: Count('How often it opened since it was last closed.'),
          blocked_until: Nullable(Timestamp, 'Nothing is tried before; null: nothing is held back.'),
        },
        { description: "The circuit breaker of its destination, which the tenant's other subscriptions may share." },
      ),
      backlog: Type.Object(
        {
          state: Type.Enum(['idle', 'waiting', 'blocked', 'ready', 'leased', 'held'], {
            description:
              'Of the queue: held while the subscription is disabled or not verified, blocked behind a breaker or a strict head.',
          }),
          queued: Count('Not tried yet; counted up to 10000.'),
          retrying: Count('Tried before; counted up to 10000.'),
          is_exact: Type.Boolean({ description: 'False: there are more than were counted.' }),
          oldest_created_at: Nullable(Timestamp, 'When the oldest that waits was made; null: nothing waits.'),
          oldest_age_seconds: Nullable(
            Type.Integer({ minimum: 0 }),
            'How old that is, in seconds; null: nothing waits.',
          ),
          next_attempt_at: Nullable(Timestamp, 'Not before; null: nothing waits, or the queue is held.'),
        },
        { description: 'What waits.' },
      ),
      auto_disable: Type.Object(
        {
          enabled: Flag('Whether the hub switches failing subscriptions off at all.'),
          disables_at: Nullable(
            Timestamp,
            'If every attempt until then fails, it is switched off at the earliest then; null: nothing threatens.',
          ),
        },
        { description: 'Whether the hub is about to switch it off.' },
      ),
    },
    { description: 'How a subscription fares' },
  ),
)

export type SubscriptionHealthJson = Static<typeof SubscriptionHealthSchema>
