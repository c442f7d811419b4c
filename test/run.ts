// `npm test`: brings up what the tests meet for real (PostgreSQL, and Kafka where a chosen test asks for it), runs Node's own
// runner over test/**/*.test.ts, and stops what it started. Arguments: files or folders to run, and any option of `node --test`.
import { spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../src/base/errors.ts'
import { joinTestServer } from './support/server.ts'

// The slowest file takes well under a minute; one that hangs is ended, and fails.
const FILE_TIMEOUT_MS = 300_000

const args = process.argv.slice(2)
const files = await chosenFiles(args.filter((argument) => existsSync(argument)))
const options = args.filter((argument) => !existsSync(argument))

process.exitCode = await main()

async function main(): Promise<number> {
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupt.abort(signal))
  await using running = new AsyncDisposableStack()
  const postgres = await joinTestServer()
  running.defer(() => postgres.leave())
  const brokers = (await mentions(files, 'TEST_KAFKA_BROKERS')) ? await kafka(running) : null
  if (interrupt.signal.aborted) return 130
  return await runTests(
    { TEST_POSTGRES_DSN: postgres.adminDsn, TEST_KAFKA_BROKERS: brokers?.join(',') },
    interrupt.signal,
  )
}

async function chosenFiles(paths: string[]): Promise<string[]> {
  const patterns = (paths.length > 0 ? paths : ['test']).map((path) =>
    statSync(path).isDirectory() ? join(path, '**/*.test.ts') : path,
  )
  return (await Array.fromAsync(glob(patterns))).sort()
}

async function mentions(paths: string[], word: string): Promise<boolean> {
  const texts = await Promise.all(paths.map((path) => readFile(path, 'utf8')))
  return texts.some((text) => text.includes(word))
}

/** The brokers of a real Kafka; null, with the reason printed, where none can be had. In CI that is a failure. */
async function kafka(running: AsyncDisposableStack): Promise<string[] | null> {
  const given = process.env['KAFKA_BROKERS']
  if (given) return given.split(',')
  try {
    const { startKafka } = await import('../dev/kafka.ts')
    const broker = await startKafka()
    running.defer(() => broker.stop())
    return broker.brokers
  } catch (error) {
    if (process.env['CI'] === 'true') throw new Error('CI needs a real Kafka', { cause: error })
    console.log(`No real Kafka, so the tests that need one are skipped: ${messageOf(error)}`)
    return null
  }
}

function runTests(env: Record<string, string | undefined>, interrupt: AbortSignal): Promise<number> {
  const runner = ['--test', '--test-concurrency=2', `--test-timeout=${FILE_TIMEOUT_MS}`, ...options, ...files]
  const child = spawn(process.execPath, runner, { stdio: 'inherit', env: { ...process.env, ...env } })
  interrupt.addEventListener('abort', () => child.kill('SIGTERM'))
  return new Promise((done, fail) => {
    child.once('error', fail)
    child.once('exit', (code) => done(code ?? 130))
  })
}
