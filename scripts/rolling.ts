// `npm run rolling -- --rate 500 --rounds 2`: rolling restarts of both shapes of an installation under load, on a real Kafka and a
// real PostgreSQL that come and go with it, and the table of what came of it. Exits with 1 when anything was lost, doubled or refused.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { interruptible } from '../dev/interruptible.ts'
import { startKafka } from '../dev/kafka.ts'
import { runRolling, SHAPES, type RollingResult, type Shape } from '../test/rolling/run.ts'
import { testDatabase } from '../test/support/database.ts'
import { joinTestServer } from '../test/support/server.ts'

const { values } = parseArgs({
  options: { rate: { type: 'string', default: '500' }, rounds: { type: 'string', default: '2' } },
})
const say = (line: string): void => console.error(`${new Date().toISOString()} ${line}`)
const results = await run()
const shapes = [...results.keys()]
console.log(`\n| ${values.rate} events/s | ${shapes.map((shape) => SHAPES[shape].join(' + ')).join(' | ')} |`)
console.log(`| --- | ${shapes.map(() => '---:').join(' | ')} |`)
for (const name of Object.keys(results.get('all') ?? {}) as (keyof RollingResult)[]) {
  console.log(`| ${name} | ${shapes.map((shape) => results.get(shape)?.[name]).join(' | ')} |`)
}
const wrong = [...results.values()].reduce(
  (sum, { lost, duplicates, failedRequests, uncleanExits }) => sum + lost + duplicates + failedRequests + uncleanExits,
  0,
)
process.exit(wrong > 0 ? 1 : 0)

async function run(): Promise<Map<Shape, RollingResult>> {
  await using running = interruptible()
  const dataDir = await mkdtemp(join(tmpdir(), 'rolling-'))
  running.defer(() => rm(dataDir, { recursive: true, force: true }))
  const server = await joinTestServer()
  running.defer(() => server.leave())
  process.env['TEST_POSTGRES_DSN'] = server.adminDsn
  const kafka = await startKafka()
  running.defer(() => kafka.stop())
  const load = { eventsPerSecond: Number(values.rate), rounds: Number(values.rounds) }
  const found = new Map<Shape, RollingResult>()
  for (const shape of Object.keys(SHAPES) as Shape[]) {
    await using database = await testDatabase()
    found.set(shape, await runRolling({ shape, dsn: database.dsn, brokers: kafka.brokers, dataDir, ...load, say }))
  }
  return found
}
