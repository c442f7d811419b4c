import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { deliver, subscribe } from '../support/api.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { uuid7 } from '../support/fixtures.ts'
import { plainAttributes } from '../support/records.ts'
import { assertProblem } from '../support/problems.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

const ceHeaders = (given: Record<string, string> = {}): Record<string, string> => ({
  ...Object.fromEntries(
    Object.entries({ ...plainAttributes, id: uuid7(), ...given }).map(([name, value]) => [`ce-${name}`, value]),
  ),
  'content-type': 'application/json',
})

async function send(headers: Record<string, string>, raw: string | Buffer = '{"ok":true}'): Promise<Answer> {
  return await control.call({ method: 'POST', url: '/v1/ingest', headers, raw })
}

test('an event is accepted, and the second time a duplicate', async () => {
  const headers = ceHeaders()
  const { status, body } = await send(headers)
  assert.equal(status, 200)
  assert.deepEqual(body, { items: [{ verdict: 'accepted', id: headers['ce-id'], reason: null, detail: null }] })
  const again = await send(headers)
  assert.deepEqual(again.body, { items: [{ verdict: 'duplicate', id: headers['ce-id'], reason: null, detail: null }] })
})

test('what is accepted is delivered to the tenant of the event, byte for byte', async () => {
  await subscribe(control, 'globex')
  const body = Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x00, 0xff])
  await send({ ...ceHeaders({ tenantid: 'globex' }), 'content-type': 'application/octet-stream' }, body)
  let sent: Buffer | null = null
  const attempts = await deliver(control, ({ event }) => {
    sent = event.data
    return { kind: 'delivered', status: 200, response: Buffer.alloc(0) }
  })
  assert.equal(attempts, 1)
  assert.deepEqual(sent, body)
})

test('a system event is dropped', async () => {
  const { body } = await send(ceHeaders({ systemevent: 'true' }))
  assert.deepEqual(body, { items: [{ verdict: 'dropped', id: null, reason: null, detail: null }] })
})

test('a malformed one is quarantined, with the reason and what was found', async () => {
  const { status, body } = await send(ceHeaders({ id: 'not-a-uuid' }))
  assert.equal(status, 200)
  const [item] = (body as { items: { verdict: string; id: null; reason: string; detail: string }[] }).items
  assert.equal(item?.verdict, 'quarantined')
  assert.equal(item.reason, 'invalid_id')
  assert.match(item.detail, /not-a-uuid/)
})

test('a body that is a little too large gets its verdict, one far beyond is refused', async () => {
  const { body } = await send(ceHeaders(), Buffer.alloc((1 << 20) + 1, ' '))
  assert.equal((body as { items: { reason: string }[] }).items[0]?.reason, 'payload_too_large')
  assertProblem(await send(ceHeaders(), Buffer.alloc(3 << 20, ' ')), 413, 'payload_too_large')
})

const envelope = (id: string): object => ({ ...plainAttributes, id, data: { n: 1 } })

test('a batch gets a verdict for each of its events, in their order', async () => {
  const [one, two] = [uuid7(), uuid7()]
  const raw = JSON.stringify([envelope(one), envelope('broken'), envelope(two), envelope(one)])
  const { status, body, text } = await send({ 'content-type': 'application/cloudevents-batch+json' }, raw)
  assert.equal(status, 200, text)
  assert.deepEqual(
    (body as { items: { verdict: string; id: string | null }[] }).items.map(({ verdict, id }) => [verdict, id]),
    [
      ['accepted', one],
      ['quarantined', null],
      ['accepted', two],
      ['duplicate', one],
    ],
  )
})

test('a request that carries no events that could be told apart is refused, with the place', async () => {
  const answer = await send({ 'content-type': 'application/cloudevents-batch+json' }, '[{')
  const { errors } = assertProblem(answer, 400, 'invalid_request')
  assert.equal(errors[0]?.path, '')
})

test('nothing is accepted while the database is away: 503, and later the same request works', async () => {
  let away = true
  await using own = await testControl({
    ingest: async (records) => {
      if (away) throw Object.assign(new Error('connect ECONNREFUSED s3cr3t'), { code: 'ECONNREFUSED' })
      return await Promise.resolve(records.map(() => ({ kind: 'dropped' as const })))
    },
  })
  const request = { method: 'POST', url: '/v1/ingest', headers: ceHeaders(), raw: '{}' } as const
  const answer = await own.call(request)
  assertProblem(answer, 503, 'unavailable')
  assert.ok(Number(answer.headers['retry-after']) > 0)
  assert.ok(!answer.text.includes('s3cr3t'))
  away = false
  assert.equal((await own.call(request)).status, 200)
})
