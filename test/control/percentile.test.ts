import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { percentile } from '../../src/control/percentile.ts'
import { LATENCY_BOUNDS_MS } from '../../src/store/outcome-hours.ts'

function classOf(value: number): number {
  const at = LATENCY_BOUNDS_MS.findIndex((bound) => value <= bound)
  return at < 0 ? LATENCY_BOUNDS_MS.length : at
}

test('a percentile of counts is in the class that the true one is in', () => {
  const values = fc.array(fc.oneof(fc.integer({ min: 0, max: 70_000 }), fc.integer({ min: 0, max: 100 })), {
    minLength: 1,
  })
  fc.assert(
    fc.property(values, fc.constantFrom(0.5, 0.95, 1), (latencies, fraction) => {
      const counts = Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, () => 0)
      for (const latency of latencies) counts[classOf(latency)]!++
      const sorted = latencies.toSorted((a, b) => a - b)
      const exact = sorted[Math.max(1, Math.ceil(fraction * sorted.length)) - 1]!
      const found = percentile(counts, LATENCY_BOUNDS_MS, fraction)!
      const at = Math.min(classOf(exact), LATENCY_BOUNDS_MS.length - 1)
      assert.ok(found <= LATENCY_BOUNDS_MS[at]! && found >= (LATENCY_BOUNDS_MS[at - 1] ?? 0), `${found} for ${exact}`)
    }),
  )
})

test('nothing counted has no percentile', () => {
  assert.equal(percentile([0, 0], [10], 0.5), null)
})

test('what is beyond the last bound counts as the last bound', () => {
  assert.equal(percentile([0, 3], [10], 0.5), 10)
})
