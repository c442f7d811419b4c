// `npm run properties -- --requests 10000 --seed 1`: requests made from the API's own document, right and wrong ones, against a hub that
// runs as `npm start` runs it. Prints how each operation answered; exits with 1 when an answer was not what the document says, or the hub
// failed, or one tenant was told of another's.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { interruptible } from '../dev/interruptible.ts'
import { PROPERTY_HUB, runProperties } from '../test/properties/run.ts'
import { reportOf } from '../test/properties/report.ts'
import { startHub } from '../test/support/hub.ts'

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '10000' }, seed: { type: 'string', default: '1' } },
})
await using running = interruptible()
const dataDir = await mkdtemp(join(tmpdir(), 'properties-'))
running.defer(() => rm(dataDir, { recursive: true, force: true }))
const hub = await startHub({ ...PROPERTY_HUB, STREAMING_HUB_DATA_DIR: dataDir })
running.defer(async () => void (await hub.stop()))

const requests = Number(values.requests)
const seed = Number(values.seed)
const report = await runProperties(hub, { requests, seed })
console.log(`${requests} requests, seed ${seed}\n\n${reportOf(report)}`)
process.exitCode = report.complaints.length > 0 ? 1 : 0
