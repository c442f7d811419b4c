// `npm test`: brings up what the tests meet for real (PostgreSQL, and Kafka where a chosen test speaks of it), runs Node's own
// runner over test/**/*.test.ts, and stops what it started. Arguments: files or folders to run, and any option of `node --test`.
import { spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../src/base/errors.ts'
import { startKafka } from './support/kafka.ts'
import { joinTestServer } from './support/server.ts'

// The slowest test takes well under a minute. A file ends by itself when nothing of it is left open; one that does not, or that never
// comes back from a loop, holds up the run until the second limit: the runner is then told to stop, and names it. Node's own way
// of ending such files (--test-force-exit) loses the results that they have not handed over yet.
const TEST_LIMIT_MS = 120_000
const RUN_LIMIT_MS = 20 * 60_000

process.exitCode = await main(process.argv.slice(2))

async function main(args: string[]): Promise<number> {
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => interrupt.abort())
  const files = await chosenFiles(args.filter((argument) => existsSync(argument)))
  const options = args.filter((argument) => !existsSync(argument))

  await using running = new AsyncDisposableStack()
  const postgres = await joinTestServer()
  running.defer(() => postgres.leave())
  const brokers = (await speakOfKafka(files)) ? await realKafka(running) : ''
  const env = { ...process.env, TEST_POSTGRES_DSN: postgres.adminDsn, TEST_KAFKA_BROKERS: brokers }
  const limit = AbortSignal.any([interrupt.signal, AbortSignal.timeout(RUN_LIMIT_MS)])
  return await runTests([...options, ...files], env, limit)
}

async function chosenFiles(paths: string[]): Promise<string[]> {
  const patterns = (paths.length > 0 ? paths : ['test']).map((path) =>
    statSync(path).isDirectory() ? join(path, '**/*.test.ts') : path,
  )
  return (await Array.fromAsync(glob(patterns))).sort()
}

async function speakOfKafka(files: string[]): Promise<boolean> {
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  return texts.some((text) => /kafka/i.test(text))
}

/** Its brokers, separated by commas; nothing, with the reason printed, where no Kafka can be had: in CI that is a failure. */
async function realKafka(running: AsyncDisposableStack): Promise<string> {
  try {
    const kafka = await startKafka()
    running.defer(() => kafka.stop())
    return kafka.brokers.join(',')
  } catch (error) {
    if (process.env['CI'] === 'true') throw new Error('CI runs on a real Kafka, and there is none', { cause: error })
    console.log(`No real Kafka, so the tests that need one are skipped: ${messageOf(error)}`)
    return ''
  }
}

function runTests(args: string[], env: NodeJS.ProcessEnv, limit: AbortSignal): Promise<number> {
  if (limit.aborted) return Promise.resolve(130)
  const seeded = `--import=${new URL('./support/seed.ts', import.meta.url).href}`
  const limits = ['--test-concurrency=2', `--test-timeout=${TEST_LIMIT_MS}`]
  const child = spawn(process.execPath, [seeded, '--test', ...limits, ...args], { stdio: 'inherit', env })
  limit.addEventListener('abort', () => child.kill('SIGTERM'))
  return new Promise((done, fail) => {
    child.once('error', fail)
    child.once('exit', (code) => done(code ?? 130))
  })
}
