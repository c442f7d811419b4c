import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Admin } from '@platformatic/kafka'
import { realKafka } from '../support/kafka.ts'
import { Watch } from '../support/stream.ts'

const run = promisify(execFile)
const script = join(import.meta.dirname, '../../scripts/kafka.ts')

test('npm run kafka gives a broker that answers, and a killed parent leaves no broker behind', async (t) => {
  if (realKafka(t) === null) return
  const { KAFKA_BROKERS: _one, STREAMING_HUB_KAFKA_BROKERS: _other, ...env } = process.env
  const parent = spawn(process.execPath, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => parent.kill('SIGKILL'))
  let said = ''
  const watch = new Watch()
  parent.stdout.on('data', (text: Buffer) => {
    said += text.toString()
  })
  await watch.until(() => said.includes('Ctrl-C'))
  const broker = /127\.0\.0\.1:\d+/.exec(said)?.[0] ?? ''
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: [broker], retries: 0, connectTimeout: 500 })
  assert.ok(Array.isArray(await admin.listTopics()))
  await admin.close()
  parent.kill('SIGKILL')
  await once(parent, 'exit')
  while ((await listeners(broker)) > 0) await new Promise((resolve) => setImmediate(resolve))
})

test('npm run kafka starts nothing where a broker is given', async () => {
  const env = { ...process.env, KAFKA_BROKERS: 'kafka.example:9092' }
  const { stdout } = await run(process.execPath, [script], { env })
  assert.match(stdout, /kafka\.example:9092/)
  assert.match(stdout, /Nothing was started/)
})

/** 1 while someone accepts connections there, else 0. */
async function listeners(address: string): Promise<number> {
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: [address], retries: 0, connectTimeout: 500 })
  const answered = await admin.listTopics().then(
    () => 1,
    () => 0,
  )
  await admin.close()
  return answered
}
