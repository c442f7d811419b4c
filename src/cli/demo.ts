// `streaming-hub demo`: a hub of its own in local mode, three applications that write facts to Kafka, three customers that receive
// them, one of whom fails every third time. All of it is the real thing, on loopback; Ctrl-C ends it and leaves nothing behind.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startProducer, type Script } from '../../dev/sample-producer.ts'
import { startReceiver, type Arrival } from '../../dev/sample-receiver.ts'
import { createLog } from '../base/log.ts'
import { loadConfig, type Environment } from '../config.ts'
import { startHub, type Hub } from '../main.ts'
import { arrivalLine } from './arrival.ts'
import { interrupted } from './interrupted.ts'

interface Application {
  source: string
  /** `<resource>.<event>`, written one after the other. */
  facts: string[]
  intervalMs: number
}

interface Customer {
  tenantId: string
  /** What it subscribes to. */
  wants: { origin?: string; event_types: string[] }
  flaky?: true
}

const applications: Application[] = [
  {
    source: 'lender',
    facts: ['loan_application.submitted', 'loan_application.approved', 'loan.disbursed'],
    intervalMs: 700,
  },
  { source: 'matcher', facts: ['match.found', 'exception.opened'], intervalMs: 1100 },
  { source: 'ledger', facts: ['transaction.posted', 'balance.changed'], intervalMs: 500 },
]

const customers: Customer[] = [
  { tenantId: 'acme-bank', wants: { event_types: ['*'] } },
  { tenantId: 'globex-credit', wants: { origin: 'lender', event_types: ['loan_application.*'] }, flaky: true },
  { tenantId: 'initech-pay', wants: { event_types: ['transaction.posted', 'match.found'] } },
]

interface Tally {
  written: number
  taken: number
  failed: number
}

/** Runs until SIGINT or SIGTERM, or until a producer fails. */
export async function demo(env: Environment): Promise<void> {
  const stopping = interrupted()
  const tally: Tally = { written: 0, taken: 0, failed: 0 }
  await using running = new AsyncDisposableStack()
  const hub = await startDemoHub(env, running)
  console.log(`The API is at ${hub.url}, the broker at ${hub.brokers.join(', ')}. Ctrl-C ends the demo.\n`)
  for (const customer of customers) await startCustomer(customer, { hub, running, tally })
  const applicationsFinished = await Promise.all(
    applications.map((each) => startApplication(each, { hub, running, tally })),
  )
  await Promise.race([stopping, ...applicationsFinished.map((finished) => finished())])
  console.log(
    `\n${tally.written} facts written; ${tally.taken} deliveries taken, ${tally.failed} failed on purpose and scheduled again.`,
  )
}

async function startDemoHub(env: Environment, running: AsyncDisposableStack): Promise<Hub> {
  const dataDir = await mkdtemp(join(tmpdir(), 'streaming-hub-demo-'))
  running.defer(() => rm(dataDir, { recursive: true, force: true }))
  const config = loadConfig({
    STREAMING_HUB_LOG_LEVEL: 'error',
    STREAMING_HUB_HTTP_LISTEN_ADDR: '127.0.0.1:0',
    ...env,
    STREAMING_HUB_ENV: 'local',
    STREAMING_HUB_ROLE: 'all',
    STREAMING_HUB_DATA_DIR: dataDir,
    STREAMING_HUB_POSTGRES_DSN: '',
    STREAMING_HUB_KAFKA_GROUP: 'streaming-hub-demo',
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
  })
  console.log('Starting a hub …')
  const hub = await startHub(config, createLog(config.logLevel))
  const files = hub.local?.databaseDirectory
  running.defer(async () => {
    await hub.stop()
    if (files) await rm(files, { recursive: true, force: true })
  })
  return hub
}

interface Surroundings {
  hub: Hub
  running: AsyncDisposableStack
  tally: Tally
}

/** A receiver, and the subscription that brings it what it wants. */
async function startCustomer(
  { tenantId, wants, flaky }: Customer,
  { hub, running, tally }: Surroundings,
): Promise<void> {
  let events = 0
  const receiver = await startReceiver({
    port: 0,
    fails: () => flaky === true && ++events % 3 === 2,
    onArrival: (arrival) => {
      if (arrival.kind === 'event') count(arrival, tally)
      console.log(`  → ${tenantId.padEnd(13)}  ${arrivalLine(arrival)}`)
    },
  })
  running.defer(() => receiver.stop())
  const call = apiOf(hub.url, tenantId)
  const sink = { kind: 'webhook', url: receiver.url }
  const { id, signing_secret } = await call('/v1/subscriptions', { name: `${tenantId} demo`, ...wants, sink })
  receiver.trust(String(signing_secret))
  const { verified, error_detail } = await call(`/v1/subscriptions/${String(id)}/verify`)
  if (verified !== true) throw new Error(`${tenantId}'s receiver was not verified: ${String(error_detail)}`)
}

function count({ answered }: Arrival, tally: Tally): void {
  if (answered === 200) tally.taken += 1
  else tally.failed += 1
}

async function startApplication(
  { source, facts, intervalMs }: Application,
  { hub, running, tally }: Surroundings,
): Promise<() => Promise<void>> {
  const producer = await startProducer({
    brokers: [...hub.brokers],
    source,
    tenants: customers.map(({ tenantId }) => tenantId),
    script: scriptOf(facts),
    intervalMs,
    onSent: ({ tenantId, resource, event }) => {
      tally.written += 1
      console.log(`${source.padEnd(7)} wrote ${resource}.${event} for ${tenantId}`)
    },
  })
  running.defer(() => producer.stop())
  return () => producer.finished
}

/** Each tenant gets the first fact, then each the second, and so on around. */
function scriptOf(facts: string[]): Script {
  return (step) => {
    const round = Math.floor(step / customers.length)
    const [resource = '', event = ''] = (facts[round % facts.length] ?? '').split('.')
    return { resource, event, data: { id: `${resource}-${round}`, amount: `${100 + round}.00`, currency: 'BRL' } }
  }
}

function apiOf(url: string, tenantId: string) {
  return async (path: string, body: unknown = {}): Promise<Record<string, unknown>> => {
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-tenant-id': tenantId },
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`POST ${path} was answered with ${answer.status}: ${await answer.text()}`)
    return (await answer.json()) as Record<string, unknown>
  }
}
