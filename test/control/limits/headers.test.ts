import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rateLimitHeaders, retryAfter } from '../../../src/control/limits/headers.ts'
import { burstQuota } from '../../../src/control/limits/rate-limits.ts'

test('the fields name each limit, what is left of it, and when it begins anew', () => {
  const key = { name: 'default-key', max: 500, windowMs: 60_000 }
  const tenant = { name: 'default-tenant', max: 2_000, windowMs: 60_000 }
  assert.deepEqual(
    rateLimitHeaders([
      { limit: key, allowed: true, remaining: 499, resetMs: 59_001 },
      { limit: tenant, allowed: true, remaining: 0, resetMs: 0 },
    ]),
    {
      'ratelimit-policy': '"default-key";q=500;w=60, "default-tenant";q=2000;w=60',
      ratelimit: '"default-key";r=499;t=60, "default-tenant";r=0;t=0',
    },
  )
  assert.deepEqual(rateLimitHeaders([]), {})
})

test('nobody is told to come again at once, or too early', () => {
  assert.deepEqual([0, 1, 1_000, 1_001].map(retryAfter), [1, 1, 1, 2])
})

test('a burst that refills at a rate is a window of whole seconds, which takes the burst and no more than the rate', () => {
  assert.deepEqual(burstQuota({ perSecond: 100, burst: 200 }), { max: 200, windowMs: 2_000 })
  assert.deepEqual(burstQuota({ perSecond: 100, burst: 1 }), { max: 100, windowMs: 1_000 })
  assert.deepEqual(burstQuota({ perSecond: 100, burst: 250 }), { max: 300, windowMs: 3_000 })
  assert.deepEqual(burstQuota({ perSecond: 1, burst: 10 }), { max: 10, windowMs: 10_000 })
})
