import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assert as check, constantFrom, integer, property } from 'fast-check'
import { connectionBudget, FEWEST_CONNECTIONS } from '../../src/store/connection-budget.ts'

test('the defaults are divided so', () => {
  assert.deepEqual(connectionBudget('all', 25), { control: 9, ingest: 5, dispatch: 9, upkeep: 1, listener: 1 })
  assert.deepEqual(connectionBudget('ingest', 8), { control: 2, ingest: 5, dispatch: 0, upkeep: 1, listener: 0 })
  assert.deepEqual(connectionBudget('delivery', 16), { control: 5, ingest: 0, dispatch: 9, upkeep: 1, listener: 1 })
})

test('whatever the number, all of it is given out, and each part of the role gets some', () => {
  check(
    property(constantFrom('all', 'ingest', 'delivery'), integer({ min: 0, max: 995 }), (role, more) => {
      const total = FEWEST_CONNECTIONS[role] + more
      const { control, ingest, dispatch, upkeep, listener } = connectionBudget(role, total)
      assert.equal(control + ingest + dispatch + upkeep + listener, total)
      assert.ok(control >= 1)
      assert.equal(ingest >= 1, role !== 'delivery')
      assert.equal(dispatch >= 1, role !== 'ingest')
    }),
  )
})
