// Windows, keys, tenants and operators, in one process, by a clock that stands still: the library asks `Date`, which is replaced.
import assert from 'node:assert/strict'
import { beforeEach, describe, mock, test } from 'node:test'
import { silentLog } from '../../../src/base/log.ts'
import { SCOPES, type Principal } from '../../../src/control/auth/principal.ts'
import { createRateLimits, type RateLimitSettings, type Tier } from '../../../src/control/limits/rate-limits.ts'
import { Troubles } from '../../../src/base/troubles.ts'
import { manualClock } from '../../support/clock.ts'

const settings: RateLimitSettings = {
  tiers: {
    relaxed: { max: 5, windowMs: 10_000 },
    default: { max: 3, windowMs: 60_000 },
    aggressive: { max: 1, windowMs: 60_000 },
  },
  tenantFactor: 2,
  pull: { max: 4, windowMs: 2_000 },
  failedAuth: { max: 1, windowMs: 1_000 },
  failOpen: false,
}

function rateLimits(given: Partial<RateLimitSettings> = {}) {
  const limits = createRateLimits(
    { ...settings, ...given },
    { redis: null, troubles: new Troubles(silentLog, manualClock()) },
  )
  /** How many of `times` requests are let in. */
  const admitted = async (limit: Tier | 'pull', who: Principal, options: { times: number; operator?: boolean }) => {
    let letIn = 0
    for (let i = 0; i < options.times; i++) {
      const counts = await limits.count(limit, who, options.operator ?? false)
      if (counts.every(({ allowed }) => allowed)) letIn++
    }
    return letIn
  }
  return { limits, admitted }
}

function key(tenantId: string, name: string): Principal {
  return { kind: 'api_key', id: name, tenantId, isConfined: false, name, scopes: new Set(SCOPES) }
}

beforeEach(() => {
  mock.timers.reset()
  mock.timers.enable({ apis: ['Date'], now: 1_000_000 })
})

describe('a key', () => {
  test('gets its number in a window, and as many in the next', async () => {
    const { admitted } = rateLimits()
    assert.equal(await admitted('default', key('a', 'one'), { times: 10 }), 3)
    mock.timers.tick(59_999)
    assert.equal(await admitted('default', key('a', 'one'), { times: 1 }), 0)
    mock.timers.tick(1)
    assert.equal(await admitted('default', key('a', 'one'), { times: 10 }), 3)
  })

  test('is told what is left and when the window ends', async () => {
    const { limits } = rateLimits()
    await limits.count('default', key('a', 'one'), false)
    mock.timers.tick(10_000)
    const counts = await limits.count('default', key('a', 'one'), false)
    assert.deepEqual(
      counts.map(({ limit: { name }, remaining, resetMs }) => [name, remaining, resetMs]),
      [
        ['default-key', 1, 50_000],
        ['default-tenant', 4, 50_000],
      ],
    )
  })

  test('is counted in each tier by itself', async () => {
    const { admitted } = rateLimits()
    assert.equal(await admitted('aggressive', key('a', 'one'), { times: 3 }), 1)
    assert.equal(await admitted('default', key('a', 'one'), { times: 5 }), 3)
    assert.equal(await admitted('relaxed', key('a', 'one'), { times: 7 }), 5)
    mock.timers.tick(10_000)
    assert.equal(await admitted('relaxed', key('a', 'one'), { times: 7 }), 5)
    assert.equal(await admitted('default', key('a', 'one'), { times: 1 }), 0)
  })

  test('that is over its limit uses up nothing of its tenant’s', async () => {
    const { admitted } = rateLimits()
    assert.equal(await admitted('default', key('a', 'wild'), { times: 100 }), 3)
    assert.equal(await admitted('default', key('a', 'calm'), { times: 3 }), 3)
  })
})

describe('a tenant', () => {
  test('cannot get more by more keys', async () => {
    const { admitted } = rateLimits()
    const all = await Promise.all(
      ['one', 'two', 'three', 'four'].map((name) => admitted('default', key('a', name), { times: 3 })),
    )
    assert.equal(
      all.reduce((sum, count) => sum + count),
      6,
    )
  })

  test('takes nothing from another, however their names look', async () => {
    const { admitted } = rateLimits()
    for (const [tenantId, name] of [
      ['a', 'b'],
      ['a,b', ''],
      ['a","b', ''],
      ['', 'a'],
      ['a:b', 'c'],
      ['a', 'b:c'],
    ] as const) {
      assert.equal(await admitted('aggressive', key(tenantId, name), { times: 2 }), 1, `${tenantId} ${name}`)
    }
  })

  test('pulls at its own rate, whichever keys it uses', async () => {
    const { admitted } = rateLimits()
    assert.equal(await admitted('pull', key('a', 'one'), { times: 3 }), 3)
    assert.equal(await admitted('pull', key('a', 'two'), { times: 3 }), 1)
    assert.equal(await admitted('pull', key('b', 'one'), { times: 3 }), 3)
    mock.timers.tick(2_000)
    assert.equal(await admitted('pull', key('a', 'two'), { times: 9 }), 4)
  })
})

test('an operator is counted apart from the tenant that the key belongs to', async () => {
  const { admitted } = rateLimits()
  assert.equal(await admitted('default', key('a', 'one'), { times: 9 }), 3)
  assert.equal(await admitted('default', key('a', 'one'), { times: 9, operator: true }), 3)
  assert.equal(await admitted('default', key('a', 'two'), { times: 9 }), 3)
  assert.equal(await admitted('default', key('b', 'one'), { times: 9, operator: true }), 3)
})

test('without tiers nothing is counted but pulling', async () => {
  const { limits, admitted } = rateLimits({ tiers: null })
  assert.deepEqual(await limits.count('aggressive', key('a', 'one'), false), [])
  assert.equal(await admitted('pull', key('a', 'one'), { times: 9 }), 4)
})
