import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdictsOf, type Sample } from './flat.ts'

const flat = (n: number): Sample => ({
  seconds: n,
  finished: n * 1000,
  waiting: 20,
  memoryMb: 100,
  claimMs: 2,
  selectMs: 0.5,
  hotMb: 4,
  keptMb: n,
})
const samples = (of: (n: number) => Partial<Sample>): Sample[] =>
  Array.from({ length: 9 }, (_, at) => ({ ...flat(at + 1), ...of(at + 1) }))
const notFlat = (of: (n: number) => Partial<Sample>): string[] =>
  verdictsOf(samples(of))
    .filter((verdict) => !verdict.flat)
    .map((verdict) => verdict.of)

test('a run that stays as it is is flat, and so is one with a single outlier', () => {
  assert.deepEqual(
    notFlat(() => ({})),
    [],
  )
  assert.deepEqual(
    notFlat((n) => (n === 8 ? { memoryMb: 900, claimMs: 90, hotMb: 900, waiting: 9000 } : {})),
    [],
  )
})

test('claims that take longer because everything does are no growth', () => {
  assert.deepEqual(
    notFlat((n) => ({ claimMs: 2 * n, selectMs: n / 2 })),
    [],
  )
})

test('each kind of growth is found', () => {
  assert.deepEqual(
    notFlat((n) => ({ memoryMb: 100 + 8 * n })),
    ['memory'],
  )
  assert.deepEqual(
    notFlat((n) => ({ claimMs: 2 + n })),
    ['claim latency, in units of `select 1`'],
  )
  assert.deepEqual(
    notFlat((n) => ({ hotMb: 4 + 3 * n })),
    ['hot tables'],
  )
  assert.deepEqual(
    notFlat((n) => ({ keptMb: n * n })),
    ['kept bytes per delivery'],
  )
  assert.deepEqual(
    notFlat((n) => ({ waiting: 150 * n })),
    ['waiting deliveries'],
  )
})
