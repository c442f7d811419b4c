// One trace from the producer to the receiver: what the hub records of an event's intake and of each attempt, hours apart, and what
// the receiver is told. Nothing of a body, a header's value, a URL or a secret gets into it, nor into the log.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { InMemorySpanExporter } from '@opentelemetry/sdk-trace'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { pino } from 'pino'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { tracerTo } from '../../src/base/tracing.ts'
import type { SamplerName } from '../../src/base/tracing.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { createWebhookSink } from '../../src/sinks/webhook/webhook.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'
import { startReceiver } from '../support/receiver.ts'
import { recordWith } from '../support/records.ts'

const PRODUCER = { trace: '4bf92f3577b34da6a3ce929d0e0e4736', span: '00f067aa0ba902b7' }
const parentOf = (flags: string): string => `00-${PRODUCER.trace}-${PRODUCER.span}-${flags}`
const SECRETS = { body: 'PLANTED-BODY', header: 'PLANTED-HEADER', url: 'PLANTED-URL', subject: 'PLANTED-SUBJECT' }

/** One event through the hub, failing once: its two attempts lie hours apart. */
async function walk(given: {
  traceparent: string | null
  sampler?: SamplerName
  ratio?: number
  traced?: boolean
}): Promise<{ spans: ReadableSpan[]; received: (string | undefined)[]; log: string; eventId: string }> {
  const { traceparent, sampler = 'parentbased_always_on', ratio = 1, traced = true } = given
  await using database = await testDatabase()
  await using receiver = await startReceiver((response) => {
    response.statusCode = receiver.requests.length === 1 ? 503 : 200
    response.end('PLANTED-ANSWER')
  })
  const lines: string[] = []
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const exporter = new InMemorySpanExporter()
  let kept: ReadableSpan[] = []
  const keeping = {
    export: exporter.export.bind(exporter),
    shutdown: async () => void (kept = exporter.getFinishedSpans()),
  }
  const tracer = traced ? await tracerTo(keeping, { sampler, ratio, serviceVersion: 'test', log: silentLog }) : null
  const clock = manualClock()
  const { pool } = database
  const { id: subscriptionId } = await insertSubscription(pool, { retrySchedule: [0, 10 * 3_600_000] })
  const eventId = uuid7()
  const record = recordWith({ id: eventId, subject: SECRETS.subject }, { value: Buffer.from(SECRETS.body) })
  if (traceparent) record.headers.push([Buffer.from('traceparent'), Buffer.from(traceparent)])
  const metrics = ingestMetrics(createRegistry({ processMetrics: false }))
  const taken = [record, { ...record }]
  await ingest(taken, { pool, clock, log, metrics, tracer, onWoken: () => undefined })
  const webhook = createWebhookSink({ allowPrivate: true, userAgentVersion: 'test', log })
  const destination = {
    subscriptionId,
    tenantId: 'acme',
    sink: { kind: 'webhook' as const, url: `${receiver.url}?key=${SECRETS.url}`, headers: { 'x-key': SECRETS.header } },
    contentMode: 'binary' as const,
    timeoutMs: 5_000,
    signingKeys: [{ key: Buffer.alloc(32, 1), expiresAt: null }],
  }
  const dispatcher = testDispatcher({ pool, clock, sink: webhook, log, tracer, destination })
  await drain(dispatcher)
  clock.advance(11 * 3_600_000)
  await dispatcher.tick()
  await drain(dispatcher)
  await webhook.close()
  await tracer?.close()
  const received = receiver.requests.map(({ headers }) => headers['traceparent'] as string | undefined)
  return { spans: kept, received, log: lines.join(''), eventId }
}

const kinds = (spans: ReadableSpan[]): string[] => spans.map(({ name }) => name.split(' ')[0] ?? '')

describe('a trace', () => {
  it('leads from the producer over the intake and both attempts, hours apart, to the receiver', async () => {
    const { spans, received } = await walk({ traceparent: parentOf('01') })
    assert.deepEqual(kinds(spans), ['ingest', 'deliver', 'deliver'], 'the duplicate has no span of its own')
    const [intake, first, second] = spans
    for (const span of spans) assert.equal(span.spanContext().traceId, PRODUCER.trace)
    assert.equal(intake?.parentSpanContext?.spanId, PRODUCER.span)
    for (const attempt of [first, second])
      assert.equal(attempt?.parentSpanContext?.spanId, intake?.spanContext().spanId)
    assert.deepEqual(
      received,
      [first, second].map((attempt) => `00-${PRODUCER.trace}-${attempt?.spanContext().spanId}-01`),
    )
    assert.equal(first?.attributes['error.type'], 'http_status')
    assert.equal(first?.attributes['http.response.status_code'], 503)
    assert.deepEqual(
      [first, second].map((attempt) => attempt?.attributes['hub.attempt.number']),
      [1, 2],
    )
    assert.ok((second?.startTime[0] ?? 0) - (first?.startTime[0] ?? 0) > 10 * 3600)
  })

  it('is left alone where the producer has not sampled it, and the receiver hears so', async () => {
    const { spans, received } = await walk({ traceparent: parentOf('00') })
    assert.deepEqual(spans, [])
    for (const header of received) assert.match(header ?? '', new RegExp(`^00-${PRODUCER.trace}-[0-9a-f]{16}-00$`))
  })

  it('is recorded against the word of the producer by always_on, and not by always_off; the receiver hears so', async () => {
    const on = await walk({ traceparent: parentOf('00'), sampler: 'always_on' })
    assert.deepEqual(kinds(on.spans), ['ingest', 'deliver', 'deliver'])
    for (const header of on.received) assert.match(header ?? '', /-01$/)
    const off = await walk({ traceparent: parentOf('03'), sampler: 'always_off' })
    assert.deepEqual(off.spans, [])
    for (const header of off.received) assert.match(header ?? '', /-02$/)
  })

  it('of an event without one has the id of the event, and the receiver is sent none', async () => {
    const { spans, received, eventId } = await walk({ traceparent: null })
    assert.deepEqual(kinds(spans), ['ingest', 'deliver', 'deliver'])
    for (const span of spans) assert.equal(span.spanContext().traceId, eventId.replaceAll('-', ''))
    assert.equal(spans[0]?.parentSpanContext, undefined)
    assert.deepEqual(received, [undefined, undefined])
  })

  it('is taken whole or not at all by ratio', async () => {
    assert.deepEqual((await walk({ traceparent: null, sampler: 'parentbased_traceidratio', ratio: 0 })).spans, [])
    const whole = await walk({ traceparent: parentOf('00'), sampler: 'traceidratio', ratio: 1 })
    assert.deepEqual(kinds(whole.spans), ['ingest', 'deliver', 'deliver'])
  })

  it('without a tracer goes on all the same', async () => {
    const { received } = await walk({ traceparent: parentOf('01'), traced: false })
    for (const header of received) assert.match(header ?? '', new RegExp(`^00-${PRODUCER.trace}-[0-9a-f]{16}-01$`))
  })

  it('holds nothing of the body, the headers, the URL and the answer, nor does the log, down to its finest level', async () => {
    const { spans, log } = await walk({ traceparent: parentOf('01') })
    const told = JSON.stringify(spans.map(({ name, attributes, events, links }) => [name, attributes, events, links]))
    assert.match(log, /"batch"[^]*"attempt"/)
    assert.doesNotMatch(told, /PLANTED/)
    assert.doesNotMatch(log, /PLANTED/)
  })
})
