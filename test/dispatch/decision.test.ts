import { test } from 'node:test'
import assert from 'node:assert/strict'
import { DEFAULT_SCHEDULE_MS } from '../../src/dispatch/backoff.ts'
import { decide, type Decision } from '../../src/dispatch/decision.ts'
import type { FailureClass, Outcome } from '../../src/sinks/sink.ts'

const NOW = Date.parse('2026-05-14T13:00:00Z')
const ONE_ATTEMPT = { schedule: DEFAULT_SCHEDULE_MS, now: NOW, random: () => 0.5 }

function failed(errorClass: FailureClass, retryAfter: string | null = null): Outcome {
  return { kind: 'failed', errorClass, detail: '', status: null, response: Buffer.alloc(0), retryAfter }
}

test('a delivered attempt ends the delivery, also on its last step', () => {
  const outcome: Outcome = { kind: 'delivered', status: 204, response: Buffer.alloc(0) }
  assert.deepEqual(decide({ ...ONE_ATTEMPT, outcome, failures: 8 }), { kind: 'delivered' })
})

test('the first failure is tried again within the second step', () => {
  const decision = decide({ ...ONE_ATTEMPT, outcome: failed('timeout'), failures: 1 })
  assert.deepEqual(decision, { kind: 'retry', dueAt: NOW + 2_500 })
})

test('the seventh failure still has a step, the eighth is dead-lettered', () => {
  const outcome = failed('http_status')
  assert.deepEqual(decide({ ...ONE_ATTEMPT, outcome, failures: 7 }), { kind: 'retry', dueAt: NOW + 18_000_000 })
  assert.deepEqual(decide({ ...ONE_ATTEMPT, outcome, failures: 8 }), { kind: 'dead_letter', reason: 'exhausted' })
})

test("a subscription's own schedule decides how often", () => {
  const outcome = failed('connection')
  const schedule = [0]
  assert.deepEqual(decide({ ...ONE_ATTEMPT, schedule, outcome, failures: 1 }), {
    kind: 'dead_letter',
    reason: 'exhausted',
  })
})

test("the receiver's Retry-After raises the delay up to the step", () => {
  assert.deepEqual(afterAnswer('200'), { kind: 'retry', dueAt: NOW + 200_000 })
  assert.deepEqual(afterAnswer('20000'), { kind: 'retry', dueAt: NOW + 300_000 })
  assert.deepEqual(afterAnswer('1'), { kind: 'retry', dueAt: NOW + 150_000 })
})

test('no class of failure ends a delivery before its steps are used up', () => {
  const classes: FailureClass[] = [
    'http_status',
    'redirect',
    'timeout',
    'connection',
    'tls',
    'dns',
    'refused_address',
    'invalid_destination',
    'payload',
    'internal',
  ]
  for (const errorClass of classes) {
    assert.equal(decide({ ...ONE_ATTEMPT, outcome: failed(errorClass), failures: 1 }).kind, 'retry', errorClass)
  }
})

function afterAnswer(retryAfter: string): Decision {
  return decide({ ...ONE_ATTEMPT, outcome: failed('http_status', retryAfter), failures: 2 })
}
