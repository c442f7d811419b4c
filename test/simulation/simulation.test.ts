// The delivery engine through a few hundred simulated worlds: weeks of bursts, outages, edits, crashes and frozen processes, with
// every rule checked after every step. `npm run simulate` runs as many more as one likes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../support/database.ts'
import { drawPlan } from './plan.ts'
import { runPlan } from './run.ts'
import { runSeeds } from './seeds.ts'
import { report } from './shrink.ts'

const SEEDS_A_TEST = 50

for (const from of [1, 51, 101, 151]) {
  test(`worlds ${from} to ${from + SEEDS_A_TEST - 1}: nothing happens that must not`, async () => {
    await using first = await testDatabase()
    await using second = await testDatabase()
    const found: string[] = []
    const onFailure = (failure: Parameters<typeof report>[0]): boolean => {
      found.push(report(failure))
      return false
    }
    const pools = [first.pool, second.pool]
    const sum = await runSeeds({ pools, from, seeds: SEEDS_A_TEST, shrinking: true, onFailure })
    assert.deepEqual(found, [])
    assert.ok(sum.attempts > sum.deliveries, 'some attempts failed')
  })
}

test('a seed is a world: run again, the same happens', async () => {
  await using database = await testDatabase()
  for (const seed of [7, 11]) {
    const first = await runPlan(drawPlan(seed), database.pool)
    const second = await runPlan(drawPlan(seed), database.pool)
    assert.deepEqual(second.history, first.history)
  }
})
