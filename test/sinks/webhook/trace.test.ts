import { test } from 'node:test'
import assert from 'node:assert/strict'
import { traceHeaders } from '../../../src/sinks/webhook/trace.ts'

const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const producer = { traceparent: `00-${trace}-00f067aa0ba902b7-01`, tracestate: 'vendor=a,other=b' }
const attemptId = '019e2686-ca80-7abc-8def-0123456789ab'

test("an attempt is a child span of the producer's trace, with its flags and state", () => {
  assert.deepEqual(traceHeaders(producer, attemptId), {
    traceparent: `00-${trace}-8def0123456789ab-01`,
    tracestate: 'vendor=a,other=b',
  })
})

test('each attempt has a span of its own', () => {
  const other = traceHeaders(producer, '019e2686-ca80-7abc-8def-0123456789ac')
  assert.notEqual(other['traceparent'], traceHeaders(producer, attemptId)['traceparent'])
})

test('a traceparent of a later version is continued as version 00', () => {
  const later = { traceparent: `01-${trace}-00f067aa0ba902b7-00-what-comes`, tracestate: null }
  assert.deepEqual(traceHeaders(later, attemptId), { traceparent: `00-${trace}-8def0123456789ab-00` })
})

test('without a valid traceparent there is no trace, nor its state', () => {
  for (const traceparent of [
    null,
    '',
    'garbage',
    `ff-${trace}-00f067aa0ba902b7-01`,
    `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    `00-${trace.toUpperCase()}-00f067aa0ba902b7-01`,
    `00-${trace}-00f067aa0ba902b7`,
    `00-${trace}-00f067aa0ba902b7-01\r\nx-evil: 1`,
    ` 00-${trace}-00f067aa0ba902b7-01`,
  ]) {
    assert.deepEqual(traceHeaders({ ...producer, traceparent }, attemptId), {}, String(traceparent))
  }
})

test('a state that no header can carry is left out', () => {
  for (const tracestate of ['', 'a=ü', 'a=b\r\nx-evil: 1']) {
    const headers = traceHeaders({ ...producer, tracestate }, attemptId)
    assert.deepEqual(Object.keys(headers), ['traceparent'], JSON.stringify(tracestate))
  }
})
