// A long run of one hub in a process of its own, on a real Kafka and a real, durable PostgreSQL: events come at an even rate, a few of the
// answers are failures, and now and then it is looked at. What is kept grows with what has come; nothing else may grow.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'
import { Client } from 'pg'
import { interruptible } from '../../dev/interruptible.ts'
import { uuid7 } from '../support/fixtures.ts'
import { startHub } from '../support/hub.ts'
import type { Sample } from './flat.ts'

export interface SoakOptions {
  dsn: string
  brokers: string[]
  dataDir: string
  minutes: number
  eventsPerSecond: number
  samples: number
  onSample: (sample: Sample) => void
}

const TENANTS = 200
const TOPIC = 'lerian.streaming.lender'
const PARTITIONS = 8
const BATCH_EVERY_MS = 20
/** One answer in so many is a failure, and its delivery is retried. */
const FAILS_EVERY = 50
/** Before the first sample: connections, caches and the compiler have warmed up. */
const WARM_UP_SHARE = 0.15

/** Runs it and answers the samples; whatever happens, nothing of it is left running. */
export async function runSoak(options: SoakOptions): Promise<Sample[]> {
  await using stack = interruptible()
  const receiver = await startReceiver()
  stack.defer(() => receiver.stop())
  const hub = await startHub({
    STREAMING_HUB_POSTGRES_DSN: options.dsn,
    STREAMING_HUB_KAFKA_BROKERS: options.brokers.join(),
    STREAMING_HUB_DATA_DIR: options.dataDir,
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    STREAMING_HUB_LOG_LEVEL: 'error',
  })
  stack.defer(() => hub.kill())
  const db = new Client({ connectionString: options.dsn })
  await db.connect()
  stack.defer(() => db.end())
  for (let n = 0; n < TENANTS; n++) await subscribe(hub.url, `tenant-${n}`, receiver.url)
  const producer = await startProducer(options)
  stack.defer(() => producer.stop())
  return await sampled(options, { url: hub.url, db, failed: producer.failed })
}

async function sampled(
  { minutes, samples: count, onSample }: SoakOptions,
  on: { url: string; db: Client; failed: Promise<never> },
): Promise<Sample[]> {
  const began = Date.now()
  const total = minutes * 60_000
  const samples: Sample[] = []
  let claims = { sum: 0, count: 0 }
  for (let n = 0; n <= count; n++) {
    const at = began + total * (WARM_UP_SHARE + ((1 - WARM_UP_SHARE) * n) / count)
    const selectMs = await Promise.race([selectUntil(at, on.db), on.failed])
    const metrics = await (await fetch(`${on.url}/metrics`)).text()
    const now = { sum: valueOf(metrics, 'hub_claim_seconds_sum'), count: valueOf(metrics, 'hub_claim_seconds_count') }
    const claimMs = ((now.sum - claims.sum) / (now.count - claims.count)) * 1000
    claims = now
    if (n === 0) continue // what the claims of the warm-up took
    const { rows } = await on.db.query<Omit<Sample, 'seconds' | 'memoryMb' | 'claimMs' | 'selectMs'>>(LOOK)
    const memoryMb = valueOf(metrics, 'process_resident_memory_bytes') / (1 << 20)
    const sample = { ...rows[0]!, seconds: (Date.now() - began) / 1000, memoryMb, claimMs, selectMs }
    samples.push(sample)
    onSample(sample)
  }
  return samples
}

/** What `select 1` takes in ms, on the average of once a second until `end`. */
async function selectUntil(end: number, db: Client): Promise<number> {
  let [sum, count] = [0, 0]
  do {
    const began = performance.now()
    await db.query('select 1')
    sum += performance.now() - began
    count++
    await delay(Math.min(1_000, Math.max(0, end - Date.now())))
  } while (Date.now() < end)
  return sum / count
}

function valueOf(metrics: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1])
}

const sizeOf = (tables: string): string =>
  `(select coalesce(sum(pg_total_relation_size(relid)), 0) / 1048576.0 from pg_stat_user_tables where relname ~ '${tables}')::float8`

const LOOK = `
select (select count(*) from delivery_history)::float8 as finished, (select count(*) from delivery)::float8 as waiting,
  ${sizeOf('^(lane|delivery|destination|tenant_turn)$')} as "hotMb",
  ${sizeOf('^(event_inbox|delivery_history|attempt)_')} as "keptMb"`

async function subscribe(api: string, tenant: string, url: string): Promise<void> {
  const headers = { 'x-tenant-id': tenant, 'content-type': 'application/json' }
  const post = async (path: string, body: object): Promise<{ id: string }> => {
    const response = await fetch(`${api}/v1/subscriptions${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as { id: string }
  }
  const retry_schedule = ['0s', '2s', '5s', '5s']
  const { id } = await post('', { name: tenant, event_types: ['*'], retry_schedule, sink: { kind: 'webhook', url } })
  await post(`/${id}/verify`, {})
}

async function startProducer({ brokers, eventsPerSecond }: SoakOptions) {
  const admin = new Admin({ clientId: 'soak', bootstrapBrokers: brokers })
  await admin.createTopics({ topics: [TOPIC], partitions: PARTITIONS, replicas: 1 })
  await admin.close()
  const producer = new Producer({ clientId: 'soak', bootstrapBrokers: brokers, idempotent: true })
  const stopping = new AbortController()
  const failed = Promise.withResolvers<never>()
  const writing = (async () => {
    const began = Date.now()
    for (let made = 0; !stopping.signal.aborted; await delay(BATCH_EVERY_MS)) {
      const wanted = Math.floor(((Date.now() - began) * eventsPerSecond) / 1000) - made
      if (wanted > 0) await producer.send({ messages: Array.from({ length: wanted }, () => message(made++)) })
    }
  })().catch(failed.reject)
  failed.promise.catch(() => undefined)
  const stop = async (): Promise<void> => {
    stopping.abort()
    await writing
    await producer.close()
  }
  return { stop, failed: failed.promise }
}

function message(n: number) {
  const id = uuid7()
  const attributes = {
    specversion: '1.0',
    id,
    source: 'lender',
    type: 'studio.lerian.lender.loan.approved',
    time: new Date().toISOString(),
    schemaversion: '1.0.0',
    resourcetype: 'loan',
    eventtype: 'approved',
    tenantid: `tenant-${n % TENANTS}`,
  }
  const headers = new Map(
    Object.entries(attributes).map(([name, value]) => [Buffer.from(`ce-${name}`), Buffer.from(value)]),
  )
  const value = Buffer.from(JSON.stringify({ id, amount: '1200.00', note: 'x'.repeat(500) }))
  return { topic: TOPIC, partition: (n % TENANTS) % PARTITIONS, key: Buffer.from(id), value, headers }
}

async function startReceiver() {
  let requests = 0
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      if (request.headers['x-lerian-event-type'] === 'hub.verification') {
        response.end((JSON.parse(body) as { challenge: string }).challenge)
      } else {
        response.statusCode = ++requests % FAILS_EVERY === 0 ? 500 : 200
        response.end()
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const stop = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, stop }
}
