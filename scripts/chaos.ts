// `npm run chaos -- --seed N --faults N`: a fault run on a real Kafka and a real PostgreSQL, and the table of what came of it.
import { parseArgs } from 'node:util'
import { runChaos } from '../test/chaos/run.ts'

const { values } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, faults: { type: 'string', default: '24' } },
})
const { faults, ...figures } = await runChaos({
  seed: Number(values.seed),
  faults: Number(values.faults),
  say: (line) => console.error(`${new Date().toISOString()} ${line}`),
})
console.log(`\nseed ${values.seed}\n\n| fault | times |\n| --- | ---: |`)
for (const [name, times] of Object.entries(faults)) console.log(`| ${name} | ${times} |`)
console.log('\n| what came of it | |\n| --- | ---: |')
for (const [name, count] of Object.entries(figures)) console.log(`| ${name} | ${count} |`)
const { lost, ghosts, disordered, regressions, lag, undelivered, doubled, crashed } = figures
process.exitCode = lost + ghosts + disordered + regressions + lag + undelivered + doubled + crashed > 0 ? 1 : 0
