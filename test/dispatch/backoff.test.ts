import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import corpus from '../corpus/retry-after.json' with { type: 'json' }
import { DEFAULT_SCHEDULE_MS, nextDelay, parseSchedule, retryAfterMs } from '../../src/dispatch/backoff.ts'
import { seededRandom } from '../support/random.ts'
import { isUniform } from '../support/statistics.ts'

const NOW = Date.parse(corpus.now)
const HIGHEST_RANDOM = 1 - 2 ** -53

describe('the default curve', () => {
  test('has eight steps, the first at once', () => {
    assert.deepEqual(DEFAULT_SCHEDULE_MS, [0, 5e3, 3e5, 18e5, 72e5, 18e6, 36e6, 36e6])
  })

  test('lasts at most 27 h 35 min 5 s', () => {
    const longest = DEFAULT_SCHEDULE_MS.map((_, failures) =>
      nextDelay({
        schedule: DEFAULT_SCHEDULE_MS,
        failures,
        retryAfter: '9999999',
        now: NOW,
        random: () => HIGHEST_RANDOM,
      }),
    )
    assert.equal(
      longest.reduce<number>((sum, delay) => sum + delay!, 0),
      ((27 * 60 + 35) * 60 + 5) * 1000,
    )
  })

  test('is used up after the eighth failure', () => {
    const least = { schedule: DEFAULT_SCHEDULE_MS, retryAfter: null, now: NOW, random: () => 0 }
    assert.equal(nextDelay({ ...least, failures: 7 }), 0)
    assert.equal(nextDelay({ ...least, failures: 8 }), null)
    assert.equal(nextDelay({ ...least, failures: 9 }), null)
  })
})

describe('full jitter', () => {
  for (const [failures, step] of DEFAULT_SCHEDULE_MS.entries()) {
    if (step === 0) continue
    test(`step ${failures} is uniform between 0 and ${step} ms (Kolmogorov–Smirnov, p > 0.001)`, () => {
      const random = seededRandom(failures)
      const delays = Array.from({ length: 10_000 }, () =>
        nextDelay({ schedule: DEFAULT_SCHEDULE_MS, failures, retryAfter: null, now: NOW, random }),
      ) as number[]
      assert.ok(delays.every((delay) => Number.isInteger(delay) && delay >= 0 && delay <= step))
      assert.ok(isUniform(delays, step))
    })
  }

  test('reaches both ends of the step', () => {
    const ends = { schedule: [5_000], failures: 0, retryAfter: null, now: NOW }
    assert.equal(nextDelay({ ...ends, random: () => 0 }), 0)
    assert.equal(nextDelay({ ...ends, random: () => HIGHEST_RANDOM }), 5_000)
  })

  test('stays a whole number within [0, step], whatever the schedule, the header and the number drawn', () => {
    const steps = fc.array(fc.integer({ min: 0, max: 36_000_000 }), { minLength: 1, maxLength: 12 })
    const draw = fc.double({ min: 0, max: HIGHEST_RANDOM, noNaN: true })
    fc.assert(
      fc.property(steps, fc.nat(12), fc.option(fc.string()), draw, (schedule, failures, retryAfter, drawn) => {
        const delay = nextDelay({ schedule, failures, retryAfter, now: NOW, random: () => drawn })
        if (delay === null) return failures >= schedule.length
        return Number.isInteger(delay) && delay >= 0 && delay <= schedule[failures]!
      }),
    )
  })
})

describe('Retry-After', () => {
  for (const { header, step_ms, least_ms } of corpus.cases) {
    test(`"${header}" asks for at least ${least_ms} of ${step_ms} ms`, () => {
      const least = nextDelay({ schedule: [step_ms], failures: 0, retryAfter: header, now: NOW, random: () => 0 })
      assert.equal(least, least_ms)
    })
  }

  test('never shortens a delay', () => {
    const delay = nextDelay({ schedule: [1_000_000], failures: 0, retryAfter: '1', now: NOW, random: () => 0.9 })
    assert.equal(delay, 900_000)
  })

  test('takes the two obsolete forms of a date', () => {
    assert.equal(retryAfterMs('Thursday, 14-May-26 13:01:00 GMT', NOW), 60_000)
    assert.equal(retryAfterMs('Thu May 14 13:01:00 2026', NOW), 60_000)
    assert.equal(retryAfterMs('Fri Jun  5 13:00:00 2026', NOW), 22 * 86_400_000)
    assert.equal(retryAfterMs('Thursday, 14-May-77 13:01:00 GMT', NOW), 0, 'more than 50 years ahead is 1977')
  })

  test('asks for nothing when it is no date that exists', () => {
    for (const header of [
      '2026-06-01T00:00:00Z',
      'Sun, 31 Feb 2027 13:00:00 GMT',
      'Fri, 14 May 2027 25:00:00 GMT',
      'Fri, 14 May 2027 13:00:00 CET',
      'Fri, 14 Foo 2027 13:00:00 GMT',
      'fri, 14 may 2027 13:00:00 gmt',
      '+30',
      '30s',
      '３０',
      '0x10',
      'NaN',
    ]) {
      assert.equal(retryAfterMs(header, NOW), 0, header)
    }
  })

  test('ignores white space around the value, and bears any number of digits', () => {
    assert.equal(retryAfterMs(' 30\t', NOW), 30_000)
    assert.equal(nextDelay({ schedule: [7], failures: 0, retryAfter: '9'.repeat(400), now: NOW, random: () => 0 }), 7)
  })

  test('absent asks for nothing', () => {
    assert.equal(retryAfterMs(null, NOW), 0)
  })
})

describe('a stored schedule', () => {
  test('is used as it is when it is well-formed', () => {
    for (const schedule of [[0], [0, 5_000, 36_000_000], Array(12).fill(36_000_000)]) {
      assert.deepEqual(parseSchedule(schedule), { schedule, malformed: false })
    }
  })

  test('is the default curve when there is none', () => {
    assert.deepEqual(parseSchedule(null), { schedule: DEFAULT_SCHEDULE_MS, malformed: false })
    assert.deepEqual(parseSchedule(undefined), { schedule: DEFAULT_SCHEDULE_MS, malformed: false })
  })

  test('falls back to the default curve, and says so, when it is malformed', () => {
    for (const stored of [
      [],
      Array(13).fill(1),
      [36_000_001],
      [-1],
      [0.5],
      ['5s'],
      [null],
      [NaN],
      [Infinity],
      [0, [1]],
      {},
      { length: 1, 0: 1 },
      'PT5S',
      5,
      true,
    ]) {
      assert.deepEqual(
        parseSchedule(stored),
        { schedule: DEFAULT_SCHEDULE_MS, malformed: true },
        JSON.stringify(stored),
      )
    }
  })
})
