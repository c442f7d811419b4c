// `npm run simulate -- --seeds N --from K`: runs the delivery engine through N simulated worlds; see test/simulation/. A seed that
// fails is shortened to the least that still shows it, and printed.
import { parseArgs } from 'node:util'
import { testDatabase } from '../test/support/database.ts'
import { joinTestServer } from '../test/support/server.ts'
import { drawPlan } from '../test/simulation/plan.ts'
import { runPlan } from '../test/simulation/run.ts'
import { report, shrink } from '../test/simulation/shrink.ts'

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
const database = await testDatabase()
const [from, seeds] = [Number(values.from), Number(values.seeds)]
const started = Date.now()
const sum = { worlds: 0, steps: 0, attempts: 0, deliveries: 0, days: 0 }
for (let seed = from; seed < from + seeds; seed++) {
  const plan = drawPlan(seed)
  const result = await runPlan(plan, database.pool)
  sum.worlds++
  sum.steps += result.steps
  sum.attempts += result.attempts
  sum.deliveries += result.deliveries
  sum.days += result.virtualMs / 86_400_000
  if (!result.violation) continue
  process.exitCode = 1
  const isWhole = values['no-shrink']
  console.log(report(isWhole ? { plan, result, tried: 1 } : await shrink(plan, result, database.pool)))
  if (!values['keep-going']) break
}
const seconds = (Date.now() - started) / 1000
console.log(
  `${sum.worlds} worlds, ${Math.round(sum.days)} days, ${sum.deliveries} deliveries, ${sum.attempts} attempts, ${sum.steps} steps in ${seconds.toFixed(1)} s`,
)
await database.drop()
await server.leave()
process.exit()
