// The test of a subscription in the API.
import { Type, type Static } from 'typebox'
import { Nullable, named, refer } from './common.ts'
import { AttemptSchema, DeliverySchema } from './delivery.ts'

/** The body may be left out. */
export const SendTest = Type.Object(
  {
    event_type: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_-]{1,128}\\.[A-Za-z0-9_-]{1,128}$',
        title: 'an event type <resource>.<event>',
        description: 'One that the subscription asks for; without it `hub.test`.',
      }),
    ),
    data: Type.Optional(
      Type.Unknown({
        description: 'Sent as JSON in place of the sample, which says that it is a test. To a verified address only.',
      }),
    ),
  },
  {
    additionalProperties: false,
    'x-optional': true,
    description: 'What to send; the body may be left out',
    examples: [{ event_type: 'loan_application.approved', data: { amount: '1500.00' } }],
  },
)

export const TestResult = named(
  'TestResult',
  Type.Object(
    {
      delivery: refer(DeliverySchema),
      attempt: Nullable(refer(AttemptSchema), 'Its one attempt; null: it has not been made yet, or could not be.'),
    },
    { description: 'How a test went' },
  ),
)

export type SendTestBody = Static<typeof SendTest>
