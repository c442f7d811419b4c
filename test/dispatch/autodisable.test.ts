import { test } from 'node:test'
import assert from 'node:assert/strict'
import { isDue } from '../../src/dispatch/autodisable.ts'

const HOUR = 3_600_000
const limits = { windowMs: 120 * HOUR, spreadMs: 12 * HOUR }
const first = Date.parse('2026-05-14T13:00:00Z')

const cases = [
  { says: 'neither: a young streak of one failure', lastsFor: 0, spreadsOver: 0, due: false },
  { says: 'sustained only', lastsFor: 500 * HOUR, spreadsOver: 11 * HOUR, due: false },
  { says: 'spread only', lastsFor: 119 * HOUR, spreadsOver: 119 * HOUR, due: false },
  { says: 'both', lastsFor: 121 * HOUR, spreadsOver: 13 * HOUR, due: true },
  { says: 'exactly at both bounds', lastsFor: 120 * HOUR, spreadsOver: 12 * HOUR, due: true },
  { says: 'a millisecond short of the window', lastsFor: 120 * HOUR - 1, spreadsOver: 12 * HOUR, due: false },
  { says: 'a millisecond short of the spread', lastsFor: 120 * HOUR, spreadsOver: 12 * HOUR - 1, due: false },
]

for (const { says, lastsFor, spreadsOver, due } of cases) {
  test(`${says}: ${due ? 'due' : 'not due'}`, () => {
    const streak = { firstFailureAt: first, lastFailureAt: first + spreadsOver }
    assert.equal(isDue(streak, first + lastsFor, limits), due)
  })
}
