import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import {
  CLOSED,
  COOL_DOWN_JITTER,
  FIRST_COOL_DOWN_MS,
  LONGEST_COOL_DOWN_MS,
  OPENS_AFTER_FAILURES,
  admit,
  afterOutcome,
  startProbe,
  type BreakerState,
} from '../../src/dispatch/breaker.ts'

const NOW = 1_000_000
const least = () => 0
const most = () => 1 - 2 ** -53

const failed = (now = NOW, random = least) => ({ delivered: false, probe: true, now, random })
const delivered = (now = NOW, random = least) => ({ delivered: true, probe: true, now, random })

function afterFailures(count: number, breaker: BreakerState = CLOSED): BreakerState {
  return Array.from({ length: count }).reduce<BreakerState>((state) => afterOutcome(state, failed()), breaker)
}

const OPEN = afterFailures(OPENS_AFTER_FAILURES)

describe('closed', () => {
  test('lets everything pass', () => {
    assert.equal(admit(CLOSED, NOW), 'pass')
    assert.equal(admit(afterFailures(4), NOW), 'pass')
  })

  test('stays closed after four failures in a row and opens at the fifth', () => {
    assert.deepEqual(afterFailures(4), { state: 'closed', failures: 4, opened: 0, blockedUntil: null })
    assert.deepEqual(afterFailures(5), { state: 'open', failures: 5, opened: 1, blockedUntil: NOW + 30_000 })
  })

  test('counts failures in a row only: a success between them starts anew', () => {
    const interrupted = afterOutcome(afterFailures(4), delivered())
    assert.deepEqual(interrupted, CLOSED)
    assert.equal(afterFailures(4, interrupted).state, 'closed')
  })
})

describe('open', () => {
  test('sheds until the cool-down has passed, and not a millisecond longer', () => {
    assert.deepEqual(admit(OPEN, NOW), { shedUntil: NOW + 30_000 })
    assert.deepEqual(admit(OPEN, NOW + 29_999), { shedUntil: NOW + 30_000 })
    assert.equal(admit(OPEN, NOW + 30_000), 'probe')
  })

  test('is not prolonged by failures of attempts that were in the air', () => {
    assert.deepEqual(afterOutcome(OPEN, failed(NOW + 10_000)), OPEN)
  })

  test('is closed by a success of an attempt that was in the air', () => {
    assert.deepEqual(afterOutcome(OPEN, delivered()), CLOSED)
  })
})

describe('half open', () => {
  const probing = startProbe(OPEN, NOW + 40_000)

  test('sheds everything else while the probe is in the air', () => {
    assert.equal(probing.state, 'half_open')
    assert.deepEqual(admit(probing, NOW + 39_999), { shedUntil: NOW + 40_000 })
  })

  test('sends another probe when the first has not answered in its time', () => {
    assert.equal(admit(probing, NOW + 40_000), 'probe')
  })

  test('closes on a success', () => {
    assert.deepEqual(afterOutcome(probing, delivered()), CLOSED)
  })

  test('is not opened again, nor closed, by the failure of an attempt that was in the air', () => {
    assert.deepEqual(afterOutcome(probing, { ...failed(), probe: false }), probing)
  })

  test('is closed by a success of an attempt that was in the air', () => {
    assert.deepEqual(afterOutcome(probing, { ...delivered(), probe: false }), CLOSED)
  })

  test('opens for twice as long on one failure', () => {
    assert.deepEqual(afterOutcome(probing, failed()), {
      state: 'open',
      failures: 6,
      opened: 2,
      blockedUntil: NOW + 60_000,
    })
  })
})

describe('the cool-down', () => {
  test('doubles with each opening in a row from 30 s to 10 min, and stays there', () => {
    assert.deepEqual(coolDowns(8, least), [30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000])
  })

  test('is at most a fifth longer by jitter', () => {
    assert.deepEqual(coolDowns(6, most), [35_999, 71_999, 143_999, 287_999, 575_999, 719_999])
  })

  test('starts over at 30 s after the breaker was closed', () => {
    const reopened = afterFailures(5, afterOutcome(afterFailures(5), delivered()))
    assert.equal(reopened.blockedUntil, NOW + 30_000)
  })
})

describe('over any history', () => {
  const step = fc.record({
    passes: fc.nat(1_000_000),
    delivered: fc.boolean(),
    straggler: fc.boolean(),
    drawn: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  })

  test('a success closes, an open one never lets through early, and its cool-down stays within its bounds', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let now = NOW
        let breaker = CLOSED
        for (const { passes, delivered: success, straggler, drawn } of steps) {
          now += passes
          const admission = admit(breaker, now)
          if (typeof admission === 'object') assert.ok(now < admission.shedUntil)
          if (admission === 'probe') {
            assert.ok(breaker.blockedUntil! <= now)
            breaker = startProbe(breaker, now + 60_000)
            assert.notEqual(admit(breaker, now), 'probe', 'one probe at a time')
          }
          const before = breaker
          const probe = admission === 'probe' && !straggler
          breaker = afterOutcome(breaker, { delivered: success, probe, now, random: () => drawn })
          assertSound(before, breaker, { success, probe, now })
        }
      }),
    )
  })
})

function coolDowns(count: number, random: () => number): number[] {
  let breaker: BreakerState = { ...CLOSED, failures: 4 }
  return Array.from({ length: count }, () => {
    breaker = afterOutcome(startProbeUnlessClosed(breaker), failed(NOW, random))
    return breaker.blockedUntil! - NOW
  })
}

function startProbeUnlessClosed(breaker: BreakerState): BreakerState {
  return breaker.state === 'closed' ? breaker : startProbe(breaker, NOW)
}

function assertSound(
  before: BreakerState,
  after: BreakerState,
  outcome: { success: boolean; probe: boolean; now: number },
): void {
  if (outcome.success) return assert.deepEqual(after, CLOSED)
  if (after.state === 'closed') return assert.ok(after.failures < OPENS_AFTER_FAILURES)
  if (before.state === 'open' || (before.state === 'half_open' && !outcome.probe))
    return assert.deepEqual(after, before)
  assert.equal(after.state, 'open')
  const doubled = FIRST_COOL_DOWN_MS * 2 ** (after.opened - 1)
  const shortest = Math.min(doubled, LONGEST_COOL_DOWN_MS)
  assert.equal(after.opened, before.opened + 1)
  assert.ok(after.blockedUntil! - outcome.now >= shortest)
  assert.ok(after.blockedUntil! - outcome.now <= shortest * (1 + COOL_DOWN_JITTER))
}
