// The made-up event of a test: a whole CloudEvent that looks like one of the subscription's, and says that it is a test by its
// extension attribute `test`, which a receiver sees as `ce-test: true`.
import { randomUUIDv7 } from 'node:crypto'
import type { Event } from '../event/event.ts'
import type { Subscription } from '../event/subscription.ts'
import { match } from '../matching/match.ts'
import type { SendTestBody } from './schemas/test-delivery.ts'
import { invalid } from './validation.ts'

const TEST_TYPE = 'hub.test'
const HUB = 'hub'

/** Throws `invalid_request` for an event type that the subscription does not ask for. */
export function testEvent(subscription: Subscription, wish: SendTestBody, now: Date): Event {
  const { tenantId, origin } = subscription
  const key = wish.event_type ?? TEST_TYPE
  const [resourceType = '', eventType = ''] = key.split('.')
  const source = origin ?? HUB
  const schemaMajor = subscription.schemaMajor ?? 1
  const id = randomUUIDv7()
  const matched = match({ tenantId, source, key, resourceType, schemaMajor }, subscription)
  if (wish.event_type !== undefined && !matched.matched && matched.reasons.includes('event_type'))
    throw invalid([{ path: '/event_type', message: 'must be one that the subscription asks for' }])
  const attributes = {
    specversion: '1.0',
    id,
    source,
    type: `studio.lerian.${source}.${key}`,
    time: now.toISOString(),
    schemaversion: `${schemaMajor}.0.0`,
    resourcetype: resourceType,
    eventtype: eventType,
    tenantid: tenantId,
    datacontenttype: 'application/json',
    test: 'true',
  }
  const data = Buffer.from(JSON.stringify(wish.data === undefined ? sample(subscription) : wish.data))
  return { tenantId, id, source, key, resourceType, schemaMajor, attributes, traceparent: null, tracestate: null, data }
}

function sample({ id, name }: Subscription): object {
  return {
    type: TEST_TYPE,
    message: 'This is a test from the Streaming Hub. Nothing has happened.',
    subscription_id: id,
    subscription_name: name,
  }
}
