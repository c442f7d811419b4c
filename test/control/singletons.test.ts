import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { Upkeep } from '../../src/upkeep/upkeep.ts'
import { testControl } from '../support/control.ts'

test('operators see who does the chores, and how each went the last time, also when nobody does them any more', async (t) => {
  await using control = await testControl()
  const singletons = async (): Promise<Record<string, unknown>[]> => {
    const answer = await control.call({ url: '/admin/singletons' })
    assert.equal(answer.status, 200, answer.text)
    return (answer.body as { items: Record<string, unknown>[] }).items
  }
  assert.deepEqual(await singletons(), [])
  const everyMs = 3_600_000
  const upkeep = new Upkeep({
    dsn: control.database.dsn,
    holder: 'streaming-hub upkeep host/1',
    clock: systemClock,
    log: silentLog,
    chores: [
      { name: 'partitions', everyMs, run: async () => ({ made: 3 }) },
      { name: 'retention', everyMs, run: async () => await Promise.reject(new Error('not now')) },
      { name: 'sweep', everyMs, run: async () => null },
    ],
  })
  t.after(() => upkeep.stop(AbortSignal.abort()))
  await upkeep.start()
  const holder = 'streaming-hub upkeep host/1'
  assert.deepEqual(shown(await singletons()), [
    ['partitions', holder, { made: 3 }, null],
    ['retention', holder, null, 'not now'],
    ['sweep', holder, null, null],
  ])
  await upkeep.stop(new AbortController().signal)
  let left = await singletons()
  while (left[0]?.['holder'] !== null) left = await singletons()
  assert.deepEqual(shown(left)[0], ['partitions', null, { made: 3 }, null])
})

function shown(items: readonly Record<string, unknown>[]): unknown[] {
  return items.map(({ name, holder, last }) => {
    const { done, error } = last as { done: unknown; error: unknown }
    return [name, holder, done, error]
  })
}
