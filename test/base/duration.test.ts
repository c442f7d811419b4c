import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { formatDuration, parseDuration } from '../../src/base/duration.ts'

describe('a duration', () => {
  const readable: [string, number][] = [
    ['0', 0],
    ['0s', 0],
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['12h', 43_200_000],
    ['7d', 604_800_000],
    ['1.5s', 1500],
    ['1h30m', 5_400_000],
  ]
  for (const [text, ms] of readable) it(`${text} is ${ms} ms`, () => assert.equal(parseDuration(text), ms))

  for (const text of ['', '30', 's', '-5s', '5 s', '5S', '1e3s', '5s,', '.5s', '5.s', '9999999999999s', 'infinity'])
    it(`'${text}' is none`, () => assert.equal(parseDuration(text), null))

  it('is read back from its own text', () => {
    fc.assert(fc.property(fc.nat(), (ms) => parseDuration(formatDuration(ms)) === ms))
  })

  it('is written in its largest whole unit', () => {
    assert.deepEqual([0, 250, 1000, 90_000, 86_400_000, 36_000_000].map(formatDuration), [
      '0s',
      '250ms',
      '1s',
      '90s',
      '24h',
      '10h',
    ])
  })
})
