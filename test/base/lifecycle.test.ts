import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLifecycle } from '../../src/base/lifecycle.ts'
import { silentLog } from '../../src/base/log.ts'
import type { Service } from '../../src/base/service.ts'
import { manualClock } from '../support/clock.ts'

/** Names what happens in `calls`; its stop lasts until `ends` resolves. */
function part(name: string, calls: string[], ends: Promise<void> = Promise.resolve()): Service {
  return {
    name,
    start: async () => void calls.push(`start ${name}`),
    stop: async () => {
      calls.push(`stop ${name}`)
      await ends
      calls.push(`ended ${name}`)
    },
  }
}

function lifecycle(stages: (Service | null)[][], closing: { name: string; close: () => Promise<void> }[] = []) {
  const clock = manualClock()
  const stopping = new AbortController()
  return { clock, stopping, of: createLifecycle({ clock, log: silentLog, stopping, stages, closing }) }
}

const never = new Promise<void>(() => undefined)
const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve))
}

describe('a lifecycle', () => {
  it('starts in order, stops in reverse, those of one stage together, and closes last', async () => {
    const calls: string[] = []
    const closing = [{ name: 'pool', close: async () => void calls.push('close pool') }]
    const { of, stopping } = lifecycle(
      [[part('api', calls)], [part('gate', calls), null], [part('a', calls), part('b', calls)]],
      closing,
    )
    assert.equal(of.running(), false)
    await of.start()
    assert.equal(of.running(), true)
    const left = of.stop(new AbortController().signal)
    assert.equal(of.running(), false)
    assert.equal(stopping.signal.aborted, true)
    assert.deepEqual(await left, [])
    assert.deepEqual(calls.slice(4), [
      'stop a',
      'stop b',
      'ended a',
      'ended b',
      'stop gate',
      'ended gate',
      'stop api',
      'ended api',
      'close pool',
    ])
    assert.equal(of.stop(new AbortController().signal), left)
  })

  it('leaves a part that hangs behind, and stops the others all the same', async () => {
    const calls: string[] = []
    const closing = [
      { name: 'database', close: () => never },
      { name: 'sinks', close: async () => void calls.push('close sinks') },
    ]
    const stages = [[part('api', calls)], [part('hung', calls, never), part('well', calls)]]
    const { of, clock } = lifecycle(stages, closing)
    await of.start()
    const deadline = new AbortController()
    let ended: readonly string[] | null = null
    void of.stop(deadline.signal).then((left) => (ended = left))
    await turns()
    assert.deepEqual(calls.slice(3), ['stop hung', 'stop well', 'ended well'])
    deadline.abort()
    await turns()
    clock.advance(1_099)
    await turns()
    assert.equal(calls.includes('stop api'), false, 'what was broken off has a moment to be written down')
    clock.advance(1)
    await turns()
    clock.advance(100)
    await turns()
    clock.advance(100)
    await turns()
    assert.deepEqual(ended, ['hung', 'database'])
    assert.deepEqual(calls.slice(6), ['stop api', 'ended api', 'close sinks'])
  })

  it('goes on when a part cannot stop', async () => {
    const calls: string[] = []
    const broken = { ...part('broken', calls), stop: async () => await Promise.reject(new Error('no')) }
    const { of } = lifecycle([[part('api', calls)], [broken]])
    await of.start()
    assert.deepEqual(await of.stop(new AbortController().signal), [])
    assert.ok(calls.includes('ended api'))
  })

  it('told to stop while it starts, starts nothing more, and stops what it has', async () => {
    const calls: string[] = []
    const slow = Promise.withResolvers<void>()
    const gate: Service = { ...part('gate', calls), start: () => slow.promise }
    const { of } = lifecycle([[part('api', calls)], [gate], [part('late', calls)]])
    const started = of.start()
    await turns()
    const stopped = of.stop(new AbortController().signal)
    slow.resolve()
    await started
    assert.deepEqual(await stopped, [])
    assert.equal(of.running(), false)
    assert.equal(calls.includes('start late'), false)
  })
})
