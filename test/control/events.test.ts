import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { deliver, publish, subscribe, walk } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'
import { failed } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface Explained {
  subscription_id: string
  matched: boolean
  reasons: string[]
  delivery_ids: string[]
}

test('an event is shown with its body as it is, and its deliveries, finished or not', async () => {
  const { id } = await subscribe(control, 'acme')
  const other = await subscribe(control, 'acme', { retry_schedule: ['0s', '10h'] })
  const body = '{"amount":12345678901234567890,"amount":1e400}'
  const event = await publish(control, 'acme', {
    data: Buffer.from(body),
    traceparent: 'tp',
    attributes: { id: 'x', subject: 'é' },
  })
  await deliver(control, ({ destination }) =>
    destination.subscriptionId === other.id ? failed() : { kind: 'delivered', status: 204, response: Buffer.alloc(0) },
  )
  const answer = await control.call({ url: `/v1/events/${event.id.toUpperCase()}`, tenant: 'acme' })
  assert.equal(answer.status, 200, answer.text)
  const { deliveries, ...shown } = answer.body as { deliveries: { subscription_id: string; state: string }[] }
  assert.deepEqual(shown, {
    id: event.id,
    source: 'lender',
    event_type: 'loan.approved',
    resource_type: 'loan',
    schema_major: 1,
    attributes: { id: 'x', subject: 'é' },
    traceparent: 'tp',
    tracestate: null,
    data: body,
    data_encoding: 'utf-8',
    data_bytes: body.length,
    received_at: new Date(control.clock.now()).toISOString(),
  })
  assert.deepEqual(
    new Map(deliveries.map(({ subscription_id, state }) => [subscription_id, state])),
    new Map([
      [id, 'delivered'],
      [other.id, 'retrying'],
    ]),
  )
})

test('bytes that are no text are shown as base64, and no data as none', async () => {
  const binary = await publish(control, 'bytes', { data: Buffer.from([0xff, 0xfe]) })
  const none = await publish(control, 'bytes', { data: null })
  const show = async (id: string): Promise<unknown[]> => {
    const { body } = await control.call({ url: `/v1/events/${id}`, tenant: 'bytes' })
    const { data, data_encoding, data_bytes } = body as Record<string, unknown>
    return [data, data_encoding, data_bytes]
  }
  assert.deepEqual(await show(binary.id), ['//4=', 'base64', 2])
  assert.deepEqual(await show(none.id), [null, null, 0])
})

test('of an event that does not exist nothing is found', async () => {
  const url = '/v1/events/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'
  assertProblem(await control.call({ url, tenant: 'acme' }), 404, 'not_found')
  assertProblem(await control.call({ url: `${url}/explain`, tenant: 'acme' }), 404, 'not_found')
})

test('explain says for every subscription whether it matches, or everything that stands against it', async () => {
  const wanted = await subscribe(control, 'explained', { event_types: ['loan.*'], origin: 'lender', schema_major: 1 })
  const other = await subscribe(control, 'explained', { event_types: ['card.*'], origin: 'matcher', schema_major: 2 })
  control.probe.outcome = failed()
  const off = await subscribe(control, 'explained', { enabled: false })
  control.probe.outcome = { kind: 'delivered', status: 200, response: Buffer.alloc(0) }
  const gone = await subscribe(control, 'explained')
  const event = await publish(control, 'explained')
  await control.call({ method: 'DELETE', url: `/v1/subscriptions/${gone.id}`, tenant: 'explained' })
  const unfit = await subscribe(control, 'explained', { event_types: ['card.*'] })
  await control.call({ method: 'DELETE', url: `/v1/subscriptions/${unfit.id}`, tenant: 'explained' })
  control.clock.advance(1_000)
  const later = await subscribe(control, 'explained')

  for (const limit of [1, 3, 100]) {
    const found = await walk<Explained>(control, { url: `/v1/events/${event.id}/explain`, tenant: 'explained', limit })
    const told = new Map(
      found.map(({ subscription_id, matched, reasons, delivery_ids }) => [
        subscription_id,
        [matched, reasons, delivery_ids.length],
      ]),
    )
    assert.equal(found.length, 6)
    assert.deepEqual(told.get(wanted.id), [true, [], 1])
    assert.deepEqual(told.get(other.id), [false, ['origin', 'event_type', 'schema_major'], 0])
    assert.deepEqual(told.get(off.id), [false, ['disabled', 'unverified'], 0])
    assert.deepEqual(told.get(later.id), [false, ['created_later'], 0])
    assert.deepEqual(told.get(gone.id), [false, ['deleted'], 1])
    assert.deepEqual(told.get(unfit.id), [false, ['deleted', 'event_type'], 0])
  }
})
