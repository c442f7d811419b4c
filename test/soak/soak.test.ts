// A minute of the long run, on a real Kafka: that all of it works, and that what a minute can show is flat. Memory settles only after some
// minutes, so here it has a bound; how long a claim takes says nothing beside other tests.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { testDatabase } from '../support/database.ts'
import { realKafka, startKafka } from '../support/kafka.ts'
import { verdictsOf } from './flat.ts'
import { runSoak } from './run.ts'

const EVENTS_PER_SECOND = 100
const MOST_MEMORY_MB = 768
const SHOWN_IN_A_MINUTE = ['hot tables', 'kept bytes per delivery', 'waiting deliveries']

test('for a minute, what is kept grows with what has come, and nothing else grows', { timeout: 300_000 }, async (t) => {
  if (!realKafka(t)) return
  const kafka = await startKafka()
  t.after(() => kafka.stop())
  const { dsn } = await testDatabase()
  const dataDir = await mkdtemp(join(tmpdir(), 'soak-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const samples = await runSoak({
    dsn,
    brokers: kafka.brokers,
    dataDir,
    minutes: 1,
    eventsPerSecond: EVENTS_PER_SECOND,
    samples: 9,
    onSample: (sample) => t.diagnostic(JSON.stringify(sample)),
  })
  const last = samples.at(-1)
  assert.ok(last && last.finished > EVENTS_PER_SECOND * 10, 'there was a load')
  for (const { memoryMb } of samples) assert.ok(memoryMb < MOST_MEMORY_MB, `${memoryMb} MiB`)
  for (const { of, first, last: then, flat, inWords } of verdictsOf(samples))
    if (SHOWN_IN_A_MINUTE.includes(of)) assert.ok(flat, `${of}: ${first}, then ${then}; ${inWords}`)
})
