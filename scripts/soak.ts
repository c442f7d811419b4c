// `npm run soak -- --minutes 60 --rate 300`: a long run of one hub, and the table of how it went; a minute of it is a test too, which shows that all
// of it works. Exits with 1 when something is not flat: see test/soak/flat.ts for the rules. It keeps about 3 KiB a event on disk,
// 3 GiB for an hour at this rate, and removes it at its end.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { interruptible } from '../dev/interruptible.ts'
import { startKafka } from '../dev/kafka.ts'
import { startLocalPostgres } from '../dev/postgres.ts'
import { silentLog } from '../src/base/log.ts'
import { verdictsOf, type Sample } from '../test/soak/flat.ts'
import { runSoak } from '../test/soak/run.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '300' },
    samples: { type: 'string', default: '12' },
  },
})
const minutes = Number(values.minutes)
const eventsPerSecond = Number(values.rate)
await using running = interruptible()
const dataDir = await mkdtemp(join(tmpdir(), 'soak-'))
running.defer(() => rm(dataDir, { recursive: true, force: true }))
const postgres = await startLocalPostgres({ dataDir, log: silentLog })
running.defer(() => postgres.stop())
const kafka = await startKafka()
running.defer(() => kafka.stop())

console.log(`${minutes} minutes of ${eventsPerSecond} events a second\n`)
console.log('| seconds | finished | waiting | memory MiB | one claim ms | `select 1` ms | hot tables MiB | kept MiB |')
console.log('| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
const onSample = (s: Sample): void => {
  const cells = [
    Math.round(s.seconds),
    s.finished,
    s.waiting,
    Math.round(s.memoryMb),
    s.claimMs.toFixed(2),
    s.selectMs.toFixed(2),
  ]
  console.log(`| ${[...cells, s.hotMb.toFixed(1), Math.round(s.keptMb)].join(' | ')} |`)
}
const samples = await runSoak({
  dsn: postgres.dsn,
  brokers: kafka.brokers,
  dataDir,
  minutes,
  eventsPerSecond,
  samples: Number(values.samples),
  onSample,
})
console.log('\n| | first third | last third | flat | the rule |\n| --- | ---: | ---: | --- | --- |')
for (const { of, first, last, flat, inWords } of verdictsOf(samples)) {
  console.log(`| ${of} | ${first.toFixed(1)} | ${last.toFixed(1)} | ${flat ? 'yes' : 'NO'} | ${inWords} |`)
}
process.exitCode = verdictsOf(samples).every(({ flat }) => flat) ? 0 : 1
