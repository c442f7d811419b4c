// `npm run mutations -- --records 1000000 --seed 1`: so many spoilt records through ingest into a real PostgreSQL, what became of them, and
// what one takes. Exits with 1 when one is neither stored as an event, nor dropped, nor kept in the quarantine as it came.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { interruptible } from '../dev/interruptible.ts'
import { startLocalPostgres } from '../dev/postgres.ts'
import { silentLog } from '../src/base/log.ts'
import { migrate } from '../src/store/migrate.ts'
import { createPool } from '../src/store/pool.ts'
import { runMutations } from '../test/ingest/mutations.ts'

const { values } = parseArgs({
  options: { records: { type: 'string', default: '1000000' }, seed: { type: 'string', default: '1' } },
})
await using running = interruptible()
const dataDir = await mkdtemp(join(tmpdir(), 'mutations-'))
running.defer(() => rm(dataDir, { recursive: true, force: true }))
const postgres = await startLocalPostgres({ dataDir, log: silentLog })
running.defer(() => postgres.stop())
await migrate(postgres.dsn)
const pool = createPool({
  dsn: postgres.dsn,
  maxConnections: 2,
  applicationName: 'mutations',
  onError: () => undefined,
})
running.defer(() => pool.end())

const records = Number(values.records)
const { outcomes, missing, verdictUs, ingestUs } = await runMutations({ pool, records, seed: Number(values.seed) })
console.log(`${records} records, seed ${values.seed}\n\n| became | records |\n| --- | ---: |`)
for (const name of Object.keys(outcomes).sort()) console.log(`| ${name} | ${outcomes[name]} |`)
console.log(`| missing | ${missing} |`)
console.log(`\na verdict: ${verdictUs.toFixed(1)} µs; all of ingest: ${ingestUs.toFixed(1)} µs`)
process.exitCode = missing > 0 ? 1 : 0
