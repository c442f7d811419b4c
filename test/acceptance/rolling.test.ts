// Rolling restarts under load, in their short form: `npm run rolling` is the long one, at 500 events a second. See test/rolling for what
// the balancer does.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { RunningKafka } from '../../dev/kafka.ts'
import { runRolling, type Shape } from '../rolling/run.ts'
import { testDatabase } from '../support/database.ts'
import { realKafka, startKafka } from '../support/kafka.ts'

const NAMES = {
  all: 'two replicas that do everything',
  split: 'one that ingests and two that deliver',
} satisfies Record<Shape, string>

describe('restarted one by one under load', async () => {
  // One for both. The second shape's hubs find the first one's events in it, of tenants who have no subscription with them.
  let kafka: Promise<RunningKafka> | null = null
  after(async () => await (await kafka)?.stop())
  for (const [shape, name] of Object.entries(NAMES) as [Shape, string][]) {
    it(`${name} lose nothing, send nothing twice, and refuse nobody`, async (t) => {
      if (!realKafka(t)) return
      const { brokers } = await (kafka ??= startKafka())
      const { dsn } = await testDatabase()
      const dataDir = await mkdtemp(join(tmpdir(), 'rolling-'))
      t.after(() => rm(dataDir, { recursive: true, force: true }))
      const say = (line: string): void => t.diagnostic(line)
      const result = await runRolling({ shape, dsn, brokers, dataDir, eventsPerSecond: 200, rounds: 1, say })
      t.diagnostic(JSON.stringify(result))
      const { lost, duplicates, failedRequests, uncleanExits } = result
      const none = { lost: 0, duplicates: 0, failedRequests: 0, uncleanExits: 0 }
      assert.deepEqual({ lost, duplicates, failedRequests, uncleanExits }, none)
      assert.ok(result.events > 200 && result.requests > 100, 'there was a load')
    })
  }
})
