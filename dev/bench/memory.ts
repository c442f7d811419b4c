// `npm run bench:memory`: how much memory a hub takes when it has far too much to read: millions of small records that compress well,
// then records of a MiB each, both on 64 partitions of a real Kafka. The hub's heap is limited to what Node allows itself in a container
// of 1 GiB. The peak is the process's, by the kernel's own count (VmHWM). Exits with 1 above the bound.
import { readFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Admin, Producer, type MessageToProduce } from '@platformatic/kafka'
import { silentLog } from '../../src/base/log.ts'
import { startHub } from '../../test/support/hub.ts'
import { interruptible } from '../interruptible.ts'
import { startKafka } from '../kafka.ts'
import { startLocalPostgres } from '../postgres.ts'
import { record } from './bench.ts'

const { values: args } = parseArgs({
  options: {
    records: { type: 'string', default: '5000000' },
    seconds: { type: 'string', default: '60' },
    'bound-mib': { type: 'string', default: '768' },
  },
})
const PARTITIONS = 64
const SMALL_IN_BATCH = 5_000
const LARGE_IN_PARTITION = 12
const HEAP_MIB = 512
const BOUND_MIB = Number(args['bound-mib'])

interface Load {
  name: string
  topic: string
  /** How many times a batch is sent. The same batch: the hub stores its events once, and reads and opens them each time. */
  rounds: number
  batch: MessageToProduce[]
  compression: 'zstd' | 'none'
}

const small: Load = {
  name: `${args.records} records of 300 bytes, zstd`,
  topic: 'lerian.streaming.small',
  rounds: Math.ceil(Number(args.records) / SMALL_IN_BATCH),
  batch: Array.from({ length: SMALL_IN_BATCH }, () => messageOf('small', Buffer.from('{"amount":"1234567890.12"}'))),
  compression: 'zstd',
}
const large: Load = {
  name: `${PARTITIONS * LARGE_IN_PARTITION} records of 1 MiB`,
  topic: 'lerian.streaming.large',
  rounds: PARTITIONS * LARGE_IN_PARTITION,
  batch: [messageOf('large', Buffer.alloc((1 << 20) - 4_096, 'x'))],
  compression: 'none',
}

await using running = interruptible()
const folder = await mkdtemp(join(tmpdir(), 'memory-'))
running.defer(() => rm(folder, { recursive: true, force: true }))
const postgres = await startLocalPostgres({ dataDir: folder, log: silentLog })
running.defer(() => postgres.stop())
const kafka = await startKafka({ properties: { 'message.max.bytes': '2097152' } })
running.defer(() => kafka.stop())

console.log('| lag | read in the time | lag left | peak MiB | bound MiB |\n| --- | ---: | ---: | ---: | ---: |')
for (const load of [small, large]) {
  await produce(load)
  const { peakMib, lagLeft } = await readFor(Number(args.seconds))
  await remove(load.topic)
  const sent = load.rounds * load.batch.length
  console.log(`| ${load.name} | ${sent - lagLeft} | ${lagLeft} | ${Math.round(peakMib)} | ${BOUND_MIB} |`)
  if (peakMib > BOUND_MIB) process.exitCode = 1
}

function messageOf(source: string, value: Buffer): MessageToProduce {
  const { headers } = record('acme')
  const changed: [Buffer, Buffer][] = headers.map(([key, held]) => {
    const text = (held ?? Buffer.alloc(0)).toString().replace('lender', source)
    return [key ?? Buffer.alloc(0), Buffer.from(text)]
  })
  return { topic: `lerian.streaming.${source}`, headers: new Map(changed), value }
}

async function produce({ topic, rounds, batch, compression }: Load): Promise<void> {
  const common = { clientId: 'bench', bootstrapBrokers: kafka.brokers }
  const admin = new Admin(common)
  await admin.createTopics({ topics: [topic], partitions: PARTITIONS, replicas: 1 })
  await admin.close()
  const producer = new Producer({
    ...common,
    compression,
    retries: 20,
    retryDelay: 200,
  })
  for (let round = 0; round < rounds; round++) {
    const partition = round % PARTITIONS
    await producer.send({ messages: batch.map((message) => ({ ...message, partition })), acks: 1 })
  }
  await producer.close()
}

async function remove(topic: string): Promise<void> {
  const admin = new Admin({ clientId: 'bench', bootstrapBrokers: kafka.brokers })
  await admin.deleteTopics({ topics: [topic] })
  await admin.close()
}

/** A hub with roles as in production, for a while, or until nothing is left to read. */
async function readFor(seconds: number): Promise<{ peakMib: number; lagLeft: number }> {
  const hub = await startHub({
    STREAMING_HUB_POSTGRES_DSN: postgres.dsn,
    STREAMING_HUB_DATA_DIR: folder,
    STREAMING_HUB_KAFKA_BROKERS: kafka.brokers.join(),
    STREAMING_HUB_ROLE: 'ingest',
    NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}`,
  })
  let lagLeft = Number.MAX_SAFE_INTEGER
  let peakMib = 0
  for (const end = Date.now() + seconds * 1000; Date.now() < end && lagLeft > 0; await delay(500)) {
    lagLeft = await lagOf(hub.url)
    peakMib = await peakOf(hub.process.pid ?? 0)
  }
  await hub.stop()
  return { peakMib, lagLeft }
}

async function lagOf(url: string): Promise<number> {
  const { items } = (await (await fetch(`${url}/admin/lag`)).json()) as {
    items: { group: string; lag: number | null }[]
  }
  const facts = items.filter(({ group }) => group === 'streaming-hub')
  if (facts.length === 0 || facts.some(({ lag }) => lag === null)) return Number.MAX_SAFE_INTEGER
  return facts.reduce((sum, { lag }) => sum + (lag ?? 0), 0)
}

async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024
}
