import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { IncomingRecord } from '../../src/event/record.ts'
import { keepDeadLetters } from '../../src/ingest/dead-letters.ts'
import { deadLetterMetrics } from '../../src/ingest/metrics.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { walk } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { uuid7 } from '../support/fixtures.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { header, recordWith } from '../support/records.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

const metrics = deadLetterMetrics(createRegistry({ processMetrics: false }))
let offset = 0n

interface Given {
  source?: string
  tenant?: string
  type?: string
  cause?: string
  error?: string
  record?: Partial<IncomingRecord>
}

/** A dead letter that was found now; time goes on by a second. */
async function find(given: Given): Promise<void> {
  const { source = 'lender', tenant = 'acme', type = 'paid', cause = 'codec', error = 'x.Y', record } = given
  const topic = `lerian.streaming.${source}.dlq`
  const headers = [header('x-lerian-dlq-cause-kind', cause), header('x-lerian-dlq-error-class', error)]
  const position = { partition: 2, offset: offset++ }
  const whole = recordWith({ tenantid: tenant, eventtype: type, source }, { topic, position, headers, ...record })
  const batch = { source, topic, partition: 2, records: [whole] }
  assert.equal(await keepDeadLetters(batch, { pool: control.database.pool, clock: control.clock, metrics }), 1)
  control.clock.advance(1000)
}

async function newestId(): Promise<string> {
  const { body } = await control.call({ url: '/admin/dlq?limit=1' })
  return (body as { items: { id: string }[] }).items[0]!.id
}

describe('producers’ dead letters', () => {
  test('are shown whole: what their headers say, and every byte', async () => {
    const at = new Date(control.clock.now()).toISOString()
    const headers = [
      header('x-lerian-dlq-source-topic', 'lerian.streaming.lender'),
      header('x-lerian-dlq-source-offset', '17'),
      header('x-lerian-dlq-retry-count', 'many'),
      header('x-lerian-dlq-first-failure-at', '2026-05-14T13:00:00Z'),
      [Buffer.from([0xff]), null] as [Buffer, null],
    ]
    await find({ record: { headers, value: Buffer.from('{"ok":true}') } })
    const id = await newestId()
    const answer = await control.call({ url: `/admin/dlq/${id}` })
    const { headers: shownHeaders, ...shown } = answer.body as Record<string, unknown> & { headers: object[] }
    assert.deepEqual(shown, {
      id,
      seen_at: at,
      source: 'lender',
      topic: 'lerian.streaming.lender.dlq',
      partition: 2,
      offset: Number(offset) - 1,
      record_time: '2026-05-14T13:47:30.123Z',
      tenant_id: 'acme',
      event_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
      event_type: 'loan_application.paid',
      event_source: 'lender',
      source_topic: 'lerian.streaming.lender',
      source_partition: null,
      source_offset: 17,
      error_class: null,
      error_message: null,
      cause_kind: null,
      retry_count: null,
      first_failure_at: '2026-05-14T13:00:00.000Z',
      producer_id: null,
      payload_omitted: null,
      payload_bytes: null,
      body_bytes: 11,
      key_base64: 'YWNtZQ==',
      body: '{"ok":true}',
      body_base64: 'eyJvayI6dHJ1ZX0=',
    })
    assert.deepEqual(shownHeaders.at(-1), { name: '\ufffd', value: null, name_base64: '/w==', value_base64: null })
    assert.equal(shownHeaders.length, 9 + headers.length)
  })

  test('are listed without their bodies', async () => {
    const { body } = await control.call({ url: '/admin/dlq?limit=1' })
    const [item] = (body as { items: object[] }).items
    for (const field of ['body', 'body_base64', 'headers', 'key_base64']) assert.ok(!(field in item!), field)
  })

  test('give their body as a file, whatever it is', async () => {
    const value = Buffer.from('<script>alert(1)</script>\0')
    await find({ record: { value } })
    const id = await newestId()
    const { status, headers, text } = await control.call({ url: `/admin/dlq/${id}/body` })
    assert.equal(status, 200)
    assert.equal(headers['content-type'], 'application/octet-stream')
    assert.equal(headers['content-disposition'], `attachment; filename="dead-letter-${id}.bin"`)
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(text, value.toString())
    await find({ record: { value: null } })
    const empty = await newestId()
    assertProblem(await control.call({ url: `/admin/dlq/${empty}/body` }), 404, 'not_found')
    const { body } = await control.call({ url: `/admin/dlq/${empty}` })
    const { body: none, body_bytes: bytes } = body as Record<string, unknown>
    assert.deepEqual([none, bytes], [null, null])
  })

  test('are filtered by each of their fields and by time, and walked once, the newest first', async () => {
    const since = new Date(control.clock.now()).toISOString()
    const all: Given[] = [
      { tenant: 'a', type: 'paid', cause: 'codec', error: 'E1', source: 'one' },
      { tenant: 'b', type: 'paid', cause: 'handler', error: 'E1', source: 'two' },
      { tenant: 'a', type: 'lost', cause: 'codec', error: 'E2', source: 'two' },
      { tenant: 'ü&\u{202e}', type: 'lost', cause: 'handler', error: 'E2', source: 'one' },
    ]
    const until: string[] = []
    for (const each of all) {
      until.push(new Date(control.clock.now()).toISOString())
      await find(each)
    }
    const found = async (query: string): Promise<number[]> => {
      const items = await walk<{ offset: number }>(control, { url: `/admin/dlq?since=${since}&${query}`, limit: 1 })
      return items.map((item) => item.offset - (Number(offset) - all.length))
    }
    assert.deepEqual(await found(''), [3, 2, 1, 0])
    assert.deepEqual(await found('tenant_id=a'), [2, 0])
    assert.deepEqual(await found(`tenant_id=${encodeURIComponent('ü&\\u{202e}')}`), [3])
    assert.deepEqual(await found('source=two'), [2, 1])
    assert.deepEqual(await found('cause_kind=handler'), [3, 1])
    assert.deepEqual(await found('error_class=E2'), [3, 2])
    assert.deepEqual(await found('event_type=loan_application.lost'), [3, 2])
    assert.deepEqual(await found('event_type=loan_application.lost&cause_kind=codec'), [2])
    assert.deepEqual(await found(`until=${until[2]}`), [1, 0])
    assert.deepEqual(await found('cause_kind=none'), [])
  })

  test('are counted by one or several of their fields, with the same filters', async () => {
    const counts = async (query: string): Promise<unknown> =>
      ((await control.call({ url: `/admin/dlq/counts?since=${since}&${query}` })).body as { items: unknown[] }).items
    const since = new Date(control.clock.now()).toISOString()
    const last = (back: number): string => new Date(control.clock.now() - back * 1000).toISOString()
    for (const cause of ['codec', 'handler', 'codec']) await find({ source: 'counted', cause, tenant: 't' })
    await find({ source: 'other', record: { headers: [] } })
    assert.deepEqual(await counts(''), [
      { source: 'counted', count: 3, last_at: last(2) },
      { source: 'other', count: 1, last_at: last(1) },
    ])
    assert.deepEqual(await counts('by=cause_kind,source'), [
      { source: 'counted', cause_kind: 'codec', count: 2, last_at: last(2) },
      { source: 'counted', cause_kind: 'handler', count: 1, last_at: last(3) },
      { source: 'other', cause_kind: null, count: 1, last_at: last(1) },
    ])
    assert.deepEqual(await counts('by=tenant_id,event_type,error_class&source=counted&cause_kind=handler'), [
      { tenant_id: 't', event_type: 'loan_application.paid', error_class: 'x.Y', count: 1, last_at: last(3) },
    ])
    const { body } = await control.call({ url: `/admin/dlq/counts?since=${since}&by=source&limit=1` })
    assert.deepEqual(body, { items: [{ source: 'counted', count: 3, last_at: last(2) }], more: true })
    const day = new Date(control.clock.now())
    day.setUTCHours(0, 0, 0, 0)
    assert.deepEqual(await counts('by=source&bucket=day&source=other'), [
      { bucket: day.toISOString(), source: 'other', count: 1, last_at: last(1) },
    ])
  })

  test('what is not known is refused, and what is not there is not found', async () => {
    const bad = '/admin/dlq?source=A&tenant_id=%00&since=x&limit=0&by=source'
    assertFaults(await control.call({ url: bad }), ['?source', '?tenant_id', '?since', '?limit', '?by'])
    for (const by of ['', 'seen_at', 'source,', 'source,seen_at'])
      assertFaults(await control.call({ url: `/admin/dlq/counts?by=${by}` }), ['?by'])
    assertFaults(await control.call({ url: '/admin/dlq/counts?by=source&by=tenant_id&bucket=week' }), [
      '?by',
      '?bucket',
    ])
    assertFaults(await control.call({ url: '/admin/dlq/1' }), [':id'])
    for (const tail of ['', '/body'])
      assertProblem(await control.call({ url: `/admin/dlq/${uuid7()}${tail}` }), 404, 'not_found')
    assertFaults(await control.call({ url: '/admin/dlq?cursor=abc' }), ['?cursor'])
  })
})
