// The real broker that tests run against. `test/run.ts` starts one for the whole run and names it in TEST_KAFKA_BROKERS; where
// none can be had, tests that need it are skipped and say so.
import type { TestContext } from 'node:test'
import { startKafka as startOwnKafka, type KafkaOptions, type RunningKafka } from '../../dev/kafka.ts'

/** The broker that KAFKA_BROKERS names (which is then left alone), else a new one. Rejects with one sentence when it cannot be had. */
export async function startKafka(options: KafkaOptions = {}): Promise<RunningKafka> {
  const given = process.env['KAFKA_BROKERS']
  return given ? foreignKafka(given.split(',')) : startOwnKafka(options)
}

/** The run's broker, or null after the test has been marked as skipped with the reason. */
export function realKafka(t: TestContext): string[] | null {
  const brokers = process.env['TEST_KAFKA_BROKERS']
  if (brokers) return brokers.split(',')
  t.skip('needs a real Kafka: TEST_KAFKA_BROKERS names none')
  return null
}

function foreignKafka(brokers: string[]): RunningKafka {
  return { brokers, listeners: {}, kill: notOurs, resume: notOurs, stop: async () => undefined }
}

async function notOurs(): Promise<never> {
  throw new Error('This Kafka was not started by the tests, so they may not stop it.')
}

/** A real broker of the test's own, because a hub reads every topic of the facts that a broker has; null as `realKafka`. */
export async function ownKafka(t: TestContext): Promise<string[] | null> {
  if (!realKafka(t)) return null
  const kafka = await startOwnKafka()
  t.after(() => kafka.stop())
  return kafka.brokers
}
