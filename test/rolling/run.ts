// A rolling restart under load, with real processes on a real Kafka and a real PostgreSQL: one replica after the other is sent SIGTERM,
// waited for, and started again, while producers write, receivers count, and API clients call through a balancer. What must come of
// it: every event is received exactly once, and no request fails.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTcpServer, type AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'
import { interruptible } from '../../dev/interruptible.ts'
import { uuid7 } from '../support/fixtures.ts'
import { startHub, type RunningHub } from '../support/hub.ts'
import { startBalancer, type Balancer } from './balancer.ts'

/** The replicas of an installation, by role. */
export const SHAPES = { all: ['all', 'all'], split: ['ingest', 'delivery', 'delivery'] } as const
export type Shape = keyof typeof SHAPES

export interface RollingOptions {
  shape: Shape
  dsn: string
  brokers: string[]
  /** Shared by the replicas: the key that seals stored secrets lies there. */
  dataDir: string
  eventsPerSecond: number
  /** How often each replica is restarted. */
  rounds: number
  say: (line: string) => void
}

export interface RollingResult {
  restarts: number
  /** Replicas that ended with another code than 0. */
  uncleanExits: number
  /** Written to Kafka, or accepted over HTTP. */
  events: number
  lost: number
  /** Receipts of an event beyond its first one. */
  duplicates: number
  requests: number
  failedRequests: number
  /** Of the others: those that found a replica's port closed, and were sent to another one. */
  retriedRequests: number
  /** From the making of an event to its receipt. */
  p50Ms: number
  p99Ms: number
  slowestMs: number
}

const TENANTS = 100
const TOPIC = 'lerian.streaming.lender'
const PARTITIONS = 8
const BATCH_EVERY_MS = 20
const REQUEST_EVERY_MS = 25
/** So that at any moment some attempts are in the air. */
const RECEIVER_MS = 15
/** Four looks of the balancer. */
const PRE_STOP = '1s'
const CATCH_UP_MS = 60_000
/** Of different failures, those that are told. */
const MOST_REASONS = 5

export async function runRolling(options: RollingOptions): Promise<RollingResult> {
  await using stack = interruptible()
  const receiver = await startReceiver()
  stack.defer(() => receiver.stop())
  const ports = await freePorts(SHAPES[options.shape].length)
  const start = (at: number): Promise<RunningHub> => startReplica(options, at, ports[at] ?? 0)
  const hubs = await Promise.all(ports.map((_, at) => start(at)))
  stack.defer(async () => void (await Promise.all(hubs.map((hub) => hub.kill()))))
  const reasons = new Set<string>()
  const onFailure = (reason: string): void => {
    if (reasons.size < MOST_REASONS && !reasons.has(reason)) options.say(`a request failed: ${reason}`)
    reasons.add(reason)
  }
  const targets = ports.map((port) => `http://127.0.0.1:${port}`)
  const balancer = startBalancer(targets, onFailure)
  stack.defer(() => balancer.stop())
  await allReady(balancer, ports.length)
  await subscribe(balancer, options.shape, receiver.url)

  const producer = await startProducer(options)
  const client = startClient(balancer, options.shape)
  stack.defer(async () => void (await Promise.all([producer.stop(), client.stop()])))
  const exits: (number | null)[] = []
  await delay(1_000)
  for (let restart = 0; restart < options.rounds * ports.length; restart++) {
    const at = restart % ports.length
    exits.push((await hubs[at]?.stop()) ?? null)
    hubs[at] = await start(at)
    await allReady(balancer, ports.length)
    options.say(`${SHAPES[options.shape][at]} replica ${at + 1} restarted`)
  }
  await delay(500)
  const written = new Set([...(await producer.stop()), ...(await client.stop())])
  const missing = (): number => [...written].filter((id) => !receiver.had.has(id)).length
  for (const limit = Date.now() + CATCH_UP_MS; missing() > 0 && Date.now() < limit;) await delay(50)
  // What is sent twice by mistake comes after its first copy.
  await delay(500)
  return resultOf({ exits, written, had: receiver.had, balancer })
}

function resultOf(run: {
  exits: readonly (number | null)[]
  written: Set<string>
  had: Map<string, number[]>
  balancer: Balancer
}): RollingResult {
  const { exits, written, had, balancer } = run
  const times = [...written].map((id) => (had.get(id)?.[0] ?? Infinity) - madeAt(id)).sort((a, b) => a - b)
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0
  return {
    restarts: exits.length,
    uncleanExits: exits.filter((code) => code !== 0).length,
    events: written.size,
    lost: [...written].filter((id) => !had.has(id)).length,
    duplicates: [...had.values()].reduce((sum, receipts) => sum + receipts.length - 1, 0),
    requests: balancer.counts.requests,
    failedRequests: balancer.counts.failed,
    retriedRequests: balancer.counts.retried,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    slowestMs: at(1),
  }
}

/** The time that a UUIDv7 carries, epoch ms. */
function madeAt(id: string): number {
  return parseInt(id.replace('-', '').slice(0, 12), 16)
}

// --- the replicas ---------------------------------------------------------------------------------------------------------

async function startReplica({ shape, dsn, brokers, dataDir }: RollingOptions, at: number, port: number) {
  return await startHub({
    STREAMING_HUB_ROLE: SHAPES[shape][at] ?? '',
    STREAMING_HUB_HTTP_LISTEN_ADDR: `127.0.0.1:${port}`,
    STREAMING_HUB_POSTGRES_DSN: dsn,
    STREAMING_HUB_KAFKA_BROKERS: brokers.join(),
    STREAMING_HUB_KAFKA_GROUP: `rolling-${shape}`,
    STREAMING_HUB_DLQ_GROUP: `rolling-${shape}-dlq`,
    STREAMING_HUB_DATA_DIR: dataDir,
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: PRE_STOP,
  })
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createTcpServer())
  await Promise.all(servers.map((server) => once(server.listen(0, '127.0.0.1'), 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))))
  return ports
}

async function allReady(balancer: Balancer, count: number): Promise<void> {
  for (const limit = Date.now() + CATCH_UP_MS; balancer.inRotation() < count; await delay(20)) {
    if (Date.now() > limit) throw new Error(`a replica does not become ready: ${JSON.stringify(balancer.problems())}`)
  }
}

// --- the load -------------------------------------------------------------------------------------------------------------

function tenantOf(shape: Shape, n: number): string {
  return `${shape}-${n % TENANTS}`
}

async function subscribe(balancer: Balancer, shape: Shape, url: string): Promise<void> {
  const subscribeOne = async (n: number): Promise<void> => {
    const headers = { 'x-tenant-id': tenantOf(shape, n), 'content-type': 'application/json' }
    const body = JSON.stringify({ name: 'rolling', event_types: ['*'], sink: { kind: 'webhook', url } })
    const made = await balancer.send({ method: 'POST', path: '/v1/subscriptions', headers, body })
    const { id } = JSON.parse(made) as { id: string }
    await balancer.send({ method: 'POST', path: `/v1/subscriptions/${id}/verify`, headers, body: '{}' })
  }
  for (let n = 0; n < TENANTS; n += 10) await Promise.all(Array.from({ length: 10 }, (_, at) => subscribeOne(n + at)))
}

function attributesOf(id: string, tenantid: string): Record<string, string> {
  return {
    'ce-specversion': '1.0',
    'ce-id': id,
    'ce-source': 'lender',
    'ce-type': 'studio.lerian.lender.loan.approved',
    'ce-time': new Date(madeAt(id)).toISOString(),
    'ce-schemaversion': '1.0.0',
    'ce-resourcetype': 'loan',
    'ce-eventtype': 'approved',
    'ce-tenantid': tenantid,
  }
}

/** Writes to Kafka until it is stopped; `stop` answers the ids of all that Kafka has acknowledged. */
async function startProducer({ brokers, shape, eventsPerSecond }: RollingOptions) {
  const admin = new Admin({ clientId: 'rolling', bootstrapBrokers: brokers })
  const topics = await admin.listTopics()
  if (!topics.includes(TOPIC)) await admin.createTopics({ topics: [TOPIC], partitions: PARTITIONS, replicas: 1 })
  await admin.close()
  const producer = new Producer({ clientId: 'rolling', bootstrapBrokers: brokers, idempotent: true })
  const written: string[] = []
  const stopping = new AbortController()
  const writing = (async () => {
    const began = Date.now()
    for (let made = 0; !stopping.signal.aborted; await delay(BATCH_EVERY_MS)) {
      const wanted = Math.floor(((Date.now() - began) * eventsPerSecond) / 1000) - made
      if (wanted <= 0) continue
      const messages = Array.from({ length: wanted }, () => messageFor(made++, shape))
      await producer.send({ messages })
      written.push(...messages.map(({ id }) => id))
    }
    await producer.close()
  })()
  return {
    stop: async (): Promise<string[]> => {
      stopping.abort()
      await writing
      return written
    },
  }
}

function messageFor(n: number, shape: Shape) {
  const id = uuid7()
  const headers = new Map(
    Object.entries(attributesOf(id, tenantOf(shape, n))).map(([name, value]) => [
      Buffer.from(name),
      Buffer.from(value),
    ]),
  )
  const value = Buffer.from(JSON.stringify({ id, amount: '1200.00' }))
  return { id, topic: TOPIC, partition: (n % TENANTS) % PARTITIONS, key: Buffer.from(id), value, headers }
}

/** Calls the API until it is stopped: a list, a health, and an event over HTTP, in turns; `stop` answers the ids of accepted events. */
function startClient(balancer: Balancer, shape: Shape) {
  const written: string[] = []
  const stopping = new AbortController()
  const under = new Set<Promise<void>>()
  const call = async (n: number): Promise<void> => {
    const tenant = { 'x-tenant-id': tenantOf(shape, n) }
    if (n % 3 === 0) return void (await balancer.send({ method: 'GET', path: '/v1/subscriptions', headers: tenant }))
    if (n % 3 === 1) return void (await balancer.send({ method: 'GET', path: '/admin/singletons', headers: tenant }))
    const id = uuid7()
    const headers = { ...tenant, ...attributesOf(id, tenant['x-tenant-id']), 'content-type': 'application/json' }
    const answer = await balancer.send({ method: 'POST', path: '/v1/ingest', headers, body: '{"over":"http"}' })
    if (answer.includes('"accepted"')) written.push(id)
  }
  const calling = (async () => {
    for (let n = 0; !stopping.signal.aborted; n++) {
      // A failure is counted by the balancer.
      const calls = call(n).catch(() => undefined)
      under.add(calls)
      void calls.finally(() => under.delete(calls))
      await delay(REQUEST_EVERY_MS)
    }
  })()
  return {
    stop: async (): Promise<string[]> => {
      stopping.abort()
      await calling
      await Promise.all(under)
      return written
    },
  }
}

/** `had`: of each event the times of its receipts. */
async function startReceiver() {
  const had = new Map<string, number[]>()
  const server = createServer((request, response) => {
    const id = String(request.headers['x-lerian-event-id'])
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      if (request.headers['x-lerian-event-type'] === 'hub.verification') {
        response.end((JSON.parse(body) as { challenge: string }).challenge)
      } else {
        had.set(id, [...(had.get(id) ?? []), Date.now()])
        setTimeout(() => response.end('ok'), RECEIVER_MS)
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const stop = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, had, stop }
}
