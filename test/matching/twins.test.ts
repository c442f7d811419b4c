// The rule of matching stands twice: as a pure function, and in the statement that stores events. Here they must agree.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import type { Event } from '../../src/event/event.ts'
import { match } from '../../src/matching/match.ts'
import { testDatabase } from '../support/database.ts'
import { anEvent, arrive, insertSubscription, uuid7 } from '../support/fixtures.ts'
import type { SubscriptionFixture } from '../support/fixtures.ts'

// Small alphabets, so that most pairs nearly match.
const tenant = fc.constantFrom('acme', 'acme', 'acme', 'Acme')
const source = fc.constantFrom('lender', 'ledger', 'lender-2')
const resource = fc.constantFrom('loan', 'loan_application', 'LOAN')
const eventType = fc.constantFrom('approved', 'rejected', 'approved_')
const major = fc.constantFrom(0, 1, 2)
const pattern = fc.oneof(
  fc.constant('*'),
  resource.map((name) => `${name}.*`),
  fc.tuple(resource, eventType).map((key) => key.join('.')),
)

const event = fc.record({ tenantId: tenant, source, resourceType: resource, eventType, schemaMajor: major })
const subscription = fc.record({
  tenantId: tenant,
  origin: fc.option(source),
  eventTypes: fc.array(pattern, { minLength: 1, maxLength: 4 }),
  schemaMajor: fc.option(major),
  enabled: fc.constantFrom(true, true, true, false),
  verificationState: fc.constantFrom(
    'active' as const,
    'active' as const,
    'active' as const,
    'pending' as const,
    'failed' as const,
  ),
})

test('the statement makes a delivery exactly where the function matches, one for each event and subscription', async (t) => {
  await using database = await testDatabase()
  const { pool } = database
  let pairs = 0
  let matches = 0
  const scenario = fc.tuple(
    fc.array(event, { minLength: 1, maxLength: 12 }),
    fc.array(subscription, { minLength: 1, maxLength: 12 }),
  )
  await fc.assert(
    fc.asyncProperty(scenario, async ([givenEvents, givenSubscriptions]) => {
      await pool.query('truncate event_inbox, delivery, subscription cascade; truncate lane, destination')
      const subscriptions: SubscriptionFixture[] = []
      for (const given of givenSubscriptions)
        subscriptions.push(await insertSubscription(pool, { id: uuid7(), ...given }))
      const events: Event[] = givenEvents.map(({ eventType: type, ...given }) =>
        anEvent({ id: uuid7(), ...given, key: `${given.resourceType}.${type}` }),
      )
      await arrive(pool, events, new Date())
      const expected = events.flatMap((each) =>
        subscriptions.flatMap((wish) => (match(each, wish).matched ? `${each.tenantId} ${each.id} ${wish.id}` : [])),
      )
      const { rows } = await pool.query<{ made: string }>(
        "select tenant_id || ' ' || ce_id || ' ' || subscription_id as made from delivery",
      )
      assert.deepEqual(rows.map(({ made }) => made).toSorted(), expected.toSorted())
      pairs += events.length * subscriptions.length
      matches += expected.length
    }),
    { numRuns: 120, seed: 20_260_514 },
  )
  t.diagnostic(`${pairs} pairs, ${matches} of them matched`)
  assert.ok(matches > 100 && matches < pairs / 2, 'the cases are neither all alike nor all different')
})
