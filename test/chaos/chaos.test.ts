// The short form of `npm run chaos`: each fault once, on a real Kafka and a real PostgreSQL.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { realKafka } from '../support/kafka.ts'
import { runChaos } from './run.ts'

test(
  'whatever breaks, every committed event is in the inbox once, in order, and delivered',
  { timeout: 300_000 },
  async (t) => {
    if (!realKafka(t)) return // it brings a broker of its own, to kill: this only tells whether one can be had
    const { faults, repeatedAtReceiver, events, aborted, deliveries, ...wrong } = await runChaos({
      seed: 4,
      faults: 8,
      say: (line) => t.diagnostic(line),
    })
    t.diagnostic(`${events} events, ${aborted} in aborted transactions, ${repeatedAtReceiver} received more than once`)
    assert.deepEqual(wrong, {
      lost: 0,
      ghosts: 0,
      disordered: 0,
      lag: 0,
      undelivered: 0,
      doubled: 0,
      regressions: 0,
      crashed: 0,
    })
    assert.ok(events > 1_000 && aborted > 0)
    assert.equal(deliveries, events)
    assert.equal(Object.keys(faults).length, 8)
  },
)
