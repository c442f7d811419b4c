// What tests of the API do again and again: make a subscription, let events arrive, deliver them.
import assert from 'node:assert/strict'
import type { Event } from '../../src/event/event.ts'
import type { TestControl } from './control.ts'
import { drain, testDispatcher } from './dispatch.ts'
import { anEvent, arrive } from './fixtures.ts'
import { scriptedSink, type Script } from './scripted-sink.ts'

export interface CreatedSubscription {
  id: string
  verification_state: string
  signing_secret: string
  [field: string]: unknown
}

/** An active subscription to everything of its tenant, made through the API. */
export async function subscribe(
  control: TestControl,
  tenant: string,
  given: object = {},
): Promise<CreatedSubscription> {
  const sink = { kind: 'webhook', url: 'https://core.example.com/hooks' }
  const body = { name: 'everything', event_types: ['*'], sink, ...given }
  const answer = await control.call({ method: 'POST', url: '/v1/subscriptions', tenant, body })
  assert.equal(answer.status, 201, answer.text)
  await control.server.settled()
  return answer.body as CreatedSubscription
}

/** Stores an event of `tenant` now. */
export async function publish(control: TestControl, tenant: string, given: Partial<Event> = {}): Promise<Event> {
  const event = anEvent({ tenantId: tenant, ...given })
  await arrive(control.database.pool, [event], new Date(control.clock.now()))
  return event
}

/** Sends all that is due to a sink that follows `script`; answers how many attempts there were. */
export async function deliver(control: TestControl, script?: Script): Promise<number> {
  const sink = scriptedSink(script)
  await drain(testDispatcher({ pool: control.database.pool, clock: control.clock, sink }))
  return sink.attempts.length
}

/** The items of all pages, in their order. */
export async function walk<T>(
  control: TestControl,
  page: { url: string; tenant?: string; limit: number },
): Promise<T[]> {
  const items: T[] = []
  const { limit, ...request } = page
  let cursor: string | null = null
  do {
    const [path, query] = request.url.split('?')
    const parameters = [query, `limit=${limit}`, cursor && `cursor=${cursor}`].filter(Boolean).join('&')
    const { status, body, text } = await control.call({ ...request, url: `${path}?${parameters}` })
    assert.equal(status, 200, text)
    const found = body as { items: T[]; next_cursor: string | null }
    assert.ok(found.items.length <= limit)
    items.push(...found.items)
    cursor = found.next_cursor
  } while (cursor !== null)
  return items
}
