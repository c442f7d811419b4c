// `npm run simulate -- --seeds N --from K`: runs the delivery engine through N simulated worlds; see test/simulation/. A seed that
// fails is shortened to the least that still shows it, and printed. --keep-going: also look at the seeds after it; --no-shrink:
// print it as it is.
import { parseArgs } from 'node:util'
import { testDatabase } from '../test/support/database.ts'
import { joinTestServer } from '../test/support/server.ts'
import { runSeeds } from '../test/simulation/seeds.ts'
import { report } from '../test/simulation/shrink.ts'

const AT_ONCE = 2

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    'keep-going': { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
  },
})

const server = await joinTestServer()
process.env['TEST_POSTGRES_DSN'] = server.adminDsn
const databases = await Promise.all(Array.from({ length: AT_ONCE }, testDatabase))
const started = Date.now()
const sum = await runSeeds({
  pools: databases.map(({ pool }) => pool),
  from: Number(values.from),
  seeds: Number(values.seeds),
  shrinking: !values['no-shrink'],
  onFailure: (failure) => {
    process.exitCode = 1
    console.log(report(failure))
    return values['keep-going']
  },
})
const seconds = ((Date.now() - started) / 1000).toFixed(1)
console.log(
  `${sum.worlds} worlds of ${Math.round(sum.days)} days: ${sum.deliveries} deliveries, ${sum.attempts} attempts, ${sum.steps} steps in ${seconds} s`,
)
for (const database of databases) await database.drop()
await server.leave()
process.exit()
