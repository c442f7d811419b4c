import assert from 'node:assert/strict'
import test from 'node:test'
import * as fc from 'fast-check'
import { isRfc3339 } from '../../src/event/rfc3339.ts'
import { isMoment } from '../support/oracles.ts'

/** Numbers written with `width` digits, most of them usual ones. */
function field(width: number, usual: number[]): fc.Arbitrary<string> {
  const number = fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...usual) }, fc.nat(10 ** width - 1))
  return number.map((each) => String(each).padStart(width, '0'))
}

function mostly(usual: string[], odd: string[]): fc.Arbitrary<string> {
  return fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...usual) }, fc.constantFrom(...odd))
}

test('every moment that Date can write is read', () => {
  fc.assert(
    fc.property(fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }), (date) => {
      assert.ok(isRfc3339(date.toISOString()))
    }),
    { numRuns: 2_000 },
  )
})

test('any mixture of fields in and out of their ranges is judged as an independent reading judges it', () => {
  const date = fc.tuple(field(4, [2024, 2023, 1900, 2000, 0]), field(2, [1, 2, 4, 12]), field(2, [1, 28, 29, 30, 31]))
  const time = fc.tuple(field(2, [0, 12, 23, 15]), field(2, [0, 59, 30]), field(2, [0, 59, 60]))
  const fraction = mostly(['', '.1', '.123456789'], ['.', '.1234567890', ',5', '.1a'])
  const offset = mostly(
    ['Z', 'z', '+00:00', '-00:00', '-08:00', '+23:59'],
    ['', '+24:00', '-00:60', '+0300', '+3:00', ' Z', 'ZZ', '\u{2212}08:00'],
  )
  const separators = fc.tuple(mostly(['T', 't'], [' ', '']), mostly(['-'], ['/', '']), mostly([':'], ['.', '']))
  let accepted = 0
  fc.assert(
    fc.property(date, time, fraction, offset, separators, (days, clock, parts, zone, [t, dash, colon]) => {
      const text = days.join(dash) + t + clock.join(colon) + parts + zone
      assert.equal(isRfc3339(text), isMoment(text), text)
      if (isMoment(text)) accepted++
    }),
    { numRuns: 50_000, seed: 3339 },
  )
  assert.ok(accepted > 5_000, `only ${accepted} valid ones were tried`)
})

test('one changed character is judged as an independent reading judges it', () => {
  const text = fc.constantFrom(
    '2026-05-14T13:47:30.123456789Z',
    '2024-02-29T23:59:60-08:00',
    '1990-12-31T15:59:60-08:00',
  )
  const character = fc.constantFrom(...Array.from('0123456789-+:.TtZz \n\u0000é\u0660'))
  fc.assert(
    fc.property(text, fc.nat(30), character, (sound, at, changed) => {
      const mutated = sound.slice(0, at) + changed + sound.slice(at + 1)
      assert.equal(isRfc3339(mutated), isMoment(mutated), mutated)
    }),
    { numRuns: 20_000 },
  )
})

test('the leap seconds that there have been are moments, and a second later in the day is not', () => {
  for (const text of [
    '1972-06-30T23:59:60Z',
    '2016-12-31T23:59:60Z',
    '2017-01-01T08:59:60+09:00',
    '1990-12-31T15:59:60-08:00',
  ]) {
    assert.ok(isRfc3339(text), text)
  }
  for (const text of [
    '2016-12-31T23:58:60Z',
    '2016-12-30T23:59:60Z',
    '2016-12-31T23:59:60+01:00',
    '2016-12-31T23:59:61Z',
  ]) {
    assert.ok(!isRfc3339(text), text)
  }
})
