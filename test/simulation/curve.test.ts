// The whole retry curve over ten thousand deliveries that all fail, by the real engine on the real database: every delay that was
// stored is looked at. There are no breaker rows, because an open breaker would hold back attempts, and it is the schedule that
// is looked at here.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pool } from '../../src/store/pool.ts'
import { DEFAULT_SCHEDULE_MS } from '../../src/dispatch/backoff.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { seededRandom } from '../support/random.ts'
import { failed, scriptedSink } from '../support/scripted-sink.ts'
import { isUniform } from '../support/statistics.ts'

const [LANES, EVENTS] = [100, 100]
const LONGEST_MS = ((27 * 60 + 35) * 60 + 5) * 1000

interface Waiting {
  attempts: number
  due: number
}

async function waiting(pool: Pool): Promise<Map<string, Waiting>> {
  const { rows } = await pool.query<Waiting & { id: string }>(
    'select id, attempts, (extract(epoch from due_at) * 1000)::bigint as due from delivery',
  )
  return new Map(rows.map(({ id, attempts, due }) => [id, { attempts, due }]))
}

/** The delays drawn since `before`, by step. Time stood still meanwhile: who was tried more than once had drawn 0. */
function* drawn(
  before: Map<string, Waiting>,
  after: Map<string, Waiting>,
  now: number,
): Generator<[string, number, number]> {
  for (const [id, { attempts, due }] of after) {
    const tried = before.get(id)?.attempts ?? 0
    for (let step = tried + 1; step < attempts; step++) yield [id, step, 0]
    if (attempts > tried) yield [id, attempts, due - now]
  }
}

test('ten thousand failing deliveries: each delay is uniform within its step, and after 27 h 35 min 5 s at most all are dead', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const clock = manualClock()
  const sink = scriptedSink(() => failed())
  const options = { workers: 100, claimBatch: EVENTS, autodisable: { enabled: false, windowMs: 0, spreadMs: 0 } }
  const dispatcher = testDispatcher({ pool, clock, sink, options, random: seededRandom(2026) })
  for (let lane = 0; lane < LANES; lane++) await insertSubscription(pool, { tenantId: 'acme', ordering: 'parallel' })
  await pool.query('delete from destination')
  await arrive(
    pool,
    Array.from({ length: EVENTS }, () => anEvent()),
    new Date(clock.now()),
  )
  const delays = DEFAULT_SCHEDULE_MS.map((): number[] => [])
  const waited = new Map<string, number>()
  for (let before = new Map<string, Waiting>(); ;) {
    await drain(dispatcher)
    const after = await waiting(pool)
    for (const [id, step, delay] of drawn(before, after, clock.now())) {
      delays[step]?.push(delay)
      waited.set(id, (waited.get(id) ?? 0) + delay)
    }
    if (after.size === 0) break
    clock.moveTo(Math.max(...[...after.values()].map(({ due }) => due)))
    await dispatcher.tick()
    before = after
  }
  for (const [step, longest] of DEFAULT_SCHEDULE_MS.entries()) {
    if (step === 0) continue
    // Missing are the few that drew 0 for their last step and were dead before they were looked at.
    assert.ok(delays[step]!.length > LANES * EVENTS - 20)
    assert.ok(delays[step]!.every((delay) => delay >= 0 && delay <= longest))
    assert.ok(isUniform(delays[step]!, longest), `the step of ${longest} ms`)
  }
  assert.equal(sink.attempts.length, LANES * EVENTS * DEFAULT_SCHEDULE_MS.length)
  assert.ok(Math.max(...waited.values()) <= LONGEST_MS)
  const { rows } = await pool.query(
    'select state, reason, attempts, failures, count(*)::integer as deliveries from delivery_history group by 1, 2, 3, 4',
  )
  assert.deepEqual(rows, [
    { state: 'dead_lettered', reason: 'exhausted', attempts: 8, failures: 8, deliveries: LANES * EVENTS },
  ])
})
