import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Partition } from '../../src/stream/partition.ts'
import { progressProblem, STUCK_AFTER_MS } from '../../src/stream/progress.ts'

const start = 1_000_000

/** A partition that is ours since `start`, with everything before offset 10 committed. */
function owned(number = 0): Partition {
  return new Partition({
    topic: 'lerian.streaming.lender',
    topicId: 'id',
    partition: number,
    committed: 10n,
    now: start,
  })
}

/** The broker says at `now` where the log ends. */
function hear(partition: Partition, end: bigint, now: number): void {
  partition.end = end
  partition.note(now)
}

const problem = (partition: Partition, now: number): string | null => progressProblem([partition.lag()], now)

describe('a partition', () => {
  test('with lag is stuck once it has got nothing done for long enough, and no more when it commits', () => {
    const partition = owned()
    hear(partition, 15n, start)
    for (let at = start; at <= start + STUCK_AFTER_MS; at += 5_000) hear(partition, 15n, at)
    assert.equal(problem(partition, start + STUCK_AFTER_MS), null)
    assert.equal(
      problem(partition, start + STUCK_AFTER_MS + 1),
      'no progress in spite of lag: lerian.streaming.lender/0 (5 behind)',
    )
    partition.moveTo({ next: 11n, leaderEpoch: 0 })
    partition.committedAt(11n, start + STUCK_AFTER_MS + 2)
    partition.note(start + STUCK_AFTER_MS + 2)
    assert.equal(problem(partition, start + STUCK_AFTER_MS + 3), null)
  })

  test('that commits now and then is slow and not stuck, however far it is behind', () => {
    const partition = owned()
    let at = start
    hear(partition, 1_000_000n, at)
    for (let offset = 11n; offset < 20n; offset++) {
      at += STUCK_AFTER_MS - 1
      partition.committedAt(offset, at)
      hear(partition, 1_000_000n + offset * 1000n, at)
      assert.equal(problem(partition, at), null)
    }
  })

  test('without lag is never stuck', () => {
    const partition = owned()
    hear(partition, 10n, start)
    assert.equal(problem(partition, start + 100 * STUCK_AFTER_MS), null)
  })

  test('of which nothing was heard for long is not stuck in the moment in which there is something to do', () => {
    const partition = owned()
    hear(partition, 10n, start)
    const later = start + 10 * STUCK_AFTER_MS
    hear(partition, 11n, later)
    assert.equal(problem(partition, later), null)
    assert.equal(problem(partition, later + STUCK_AFTER_MS), null)
    assert.notEqual(problem(partition, later + STUCK_AFTER_MS + 1), null)
  })

  test('whose end the broker has not said is not taken for stuck', () => {
    assert.equal(problem(owned(), start + 100 * STUCK_AFTER_MS), null)
  })
})

test('of many that are stuck a few are named', () => {
  const many = Array.from({ length: 64 }, (_, number) => owned(number))
  for (const partition of many) hear(partition, 11n, start)
  many[1]?.committedAt(11n, start)
  const lags = many.map((partition) => partition.lag())
  const text = progressProblem(lags, start + STUCK_AFTER_MS + 1)
  assert.match(
    String(text),
    /^no progress in spite of lag: (lerian\.streaming\.lender\/(0|2|3|4|5) \(1 behind\)(, )?){5} and 58 more$/,
  )
})
