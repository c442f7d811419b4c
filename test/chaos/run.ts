// A fault run on a real Kafka, a real PostgreSQL and hubs in processes of their own: producers write numbered events while hubs are
// killed, paused, stopped and added, the database is stopped, killed and cut off, and the broker is restarted. At the end all is
// healed, and what a plain consumer reads from Kafka must be exactly what the hub has: each event once, in order, delivered.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { interruptible } from '../../dev/interruptible.ts'
import { startKafka } from '../../dev/kafka.ts'
import type { RunningKafka } from '../../dev/kafka.ts'
import { ensureServer } from '../../dev/postgres.ts'
import type { Server } from '../../dev/postgres.ts'
import { silentLog } from '../../src/base/log.ts'
import { spawnHub } from '../support/hub.ts'
import { seededRandom } from '../support/random.ts'
import { FAULTS } from './faults.ts'
import type { FaultName } from './faults.ts'
import { startProducers, TENANTS } from './producers.ts'
import type { Sent } from './producers.ts'
import { readKafka, watchOffsets } from './truth.ts'

export interface ChaosOptions {
  seed: number
  /** How many faults; each kind comes once before one comes twice. */
  faults: number
  say: (line: string) => void
}

export interface ChaosResult {
  faults: Record<string, number>
  events: number
  aborted: number
  /** Committed events that are not in the inbox. */
  lost: number
  /** Events of aborted transactions that are. */
  ghosts: number
  /** Partitions in which the arrival sequence does not follow the offsets. */
  disordered: number
  /** Committed offsets that went back. */
  regressions: number
  /** Hubs that ended by themselves. */
  crashed: number
  lag: number
  deliveries: number
  /** Deliveries that the receiver never had. */
  undelivered: number
  /** Deliveries that are there twice, in the history or beside it. */
  doubled: number
  repeatedAtReceiver: number
}

export type Hub = ReturnType<typeof spawnHub>

export interface World {
  kafka: RunningKafka
  postgres: { server: Server; dataDir: string }
  hubs: Hub[]
  addHub: () => Hub
  random: () => number
}

/** Runs the whole of it; whatever happens, nothing of it is left running. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  await using stack = interruptible()
  const random = seededRandom(options.seed)
  const directory = await mkdtemp(join(tmpdir(), 'chaos-'))
  stack.defer(() => rm(directory, { recursive: true, force: true }))
  const kafka = await startKafka()
  stack.defer(() => kafka.stop())
  const dataDir = join(directory, 'postgres')
  const postgres = { server: await ensureServer({ dataDir, log: silentLog }), dataDir }
  stack.defer(async () => (await ensureServer({ dataDir, log: silentLog })).stop())
  const receiver = await startReceiver()
  stack.defer(() => receiver.stop())
  const hubs: Hub[] = []
  const crashed: Hub[] = []
  const addHub = (): Hub => {
    const hub = spawnHub({
      STREAMING_HUB_POSTGRES_DSN: postgres.server.dsn,
      STREAMING_HUB_KAFKA_BROKERS: kafka.brokers.join(),
      STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
      STREAMING_HUB_DATA_DIR: directory,
      STREAMING_HUB_LOG_LEVEL: 'error',
    })
    hubs.push(hub)
    hub.process.once('exit', (code, signal) => {
      if (!hubs.includes(hub)) return // a fault ended it
      crashed.push(hub)
      hubs.splice(hubs.indexOf(hub), 1)
      options.say(`a hub ended by itself (${code ?? signal}): ${hub.lines.slice(-20).join('\n')}`)
    })
    return hub
  }
  stack.defer(async () => void (await Promise.all(hubs.splice(0).map((hub) => hub.kill()))))
  await subscribe(await addHub().url, receiver.url)
  addHub()

  const producers = await startProducers(kafka.brokers, options.seed)
  const offsets = watchOffsets(kafka.brokers)
  const world: World = { kafka, postgres, hubs, addHub, random }
  const faults = await injectFaults(world, options)
  const sent = await producers.stop()
  options.say(`healed; ${sent.aborted.size} events in aborted transactions`)
  if (hubs.length === 0) addHub()
  const result = await compare({ world, receiver, sent })
  return { ...result, faults, regressions: await offsets.stop(), crashed: crashed.length }
}

async function injectFaults(world: World, { faults, say }: ChaosOptions): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const names = Object.keys(FAULTS) as FaultName[]
  let bag: FaultName[] = []
  for (let n = 0; n < faults; n++) {
    if (bag.length === 0) bag = names.toSorted(() => world.random() - 0.5)
    const name = bag.pop()!
    await delay(1_000 + world.random() * 3_000)
    say(`fault ${n + 1}: ${name}`)
    await FAULTS[name](world)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

// --- the receiver ---------------------------------------------------------------------------------------------------------

async function startReceiver() {
  const had = new Map<string, number>()
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      if (request.headers['x-lerian-event-type'] === 'hub.verification') {
        return response.end((JSON.parse(body.toString()) as { challenge: string }).challenge)
      }
      const id = String(request.headers['x-lerian-event-id'])
      had.set(id, (had.get(id) ?? 0) + 1)
      return response.end('ok')
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const stop = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, had, stop }
}

async function subscribe(api: string, url: string): Promise<void> {
  for (const tenant of TENANTS) {
    const call = async (path: string, body: object): Promise<{ id: string }> => {
      const headers = { 'x-tenant-id': tenant, 'content-type': 'application/json' }
      const response = await fetch(`${api}/v1/subscriptions${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
      assert.ok(response.ok, `${response.status} ${await response.clone().text()}`)
      return (await response.json()) as { id: string }
    }
    // A short time-out makes a short lease: what a killed hub had in the air is tried again while the run waits.
    const { id } = await call('', { name: tenant, event_types: ['*'], sink: { kind: 'webhook', url, timeout: '1s' } })
    await call(`/${id}/verify`, {})
  }
}

// --- the comparison -------------------------------------------------------------------------------------------------------

/** How long the hubs may take to catch up once all is healed: sessions and leases of the dead have to run out first. */
const CATCH_UP_MS = 120_000

async function compare(given: {
  world: World
  receiver: { had: Map<string, number> }
  sent: Sent
}): Promise<Omit<ChaosResult, 'faults' | 'regressions' | 'crashed'>> {
  const { world, receiver, sent } = given
  const written = new Set([...(await readKafka(world.kafka.brokers)).values()].flat())
  const events = new Set([...written].filter((id) => !sent.aborted.has(id) && !sent.open.has(id)))
  const db = new Client({ connectionString: world.postgres.server.dsn })
  await db.connect()
  const rows = async <T>(text: string): Promise<T[]> => (await db.query(text)).rows as T[]
  const behind = async (): Promise<string | null> => {
    const [now] = await rows<{ events: number; open: number; done: number }>(PROGRESS)
    return now && now.events >= events.size && now.open === 0 ? null : JSON.stringify(now)
  }
  for (const deadline = Date.now() + CATCH_UP_MS; (await behind()) !== null && Date.now() < deadline;) await delay(500)

  const inbox = await rows<{ place: string; id: string; offset: string }>(INBOX)
  const stored = new Set(inbox.map(({ id }) => id))
  const places = Map.groupBy(inbox, ({ place }) => place)
  const delivered = await rows<{ id: string; n: number }>(DELIVERED)
  await db.end()
  return {
    events: events.size,
    aborted: sent.aborted.size,
    lost: [...events].filter((id) => !stored.has(id)).length,
    ghosts:
      [...sent.aborted].filter((id) => stored.has(id)).length + [...stored].filter((id) => !events.has(id)).length,
    disordered: [...places.values()].filter((list) => !isAscending(list)).length,
    lag: await lagOf(world),
    deliveries: delivered.length,
    undelivered: [...events].filter((id) => !receiver.had.has(id)).length,
    doubled: delivered.filter(({ n }) => n > 1).length,
    repeatedAtReceiver: [...receiver.had.values()].filter((n) => n > 1).length,
  }
}

function isAscending(list: readonly { offset: string }[]): boolean {
  return list.every(({ offset }, at) => at === 0 || BigInt(offset) > BigInt(list[at - 1]!.offset))
}

const PROGRESS = `select (select count(*) from event_inbox)::int as events, (select count(*) from delivery)::int as open,
  (select count(*) from delivery_history)::int as done`
const INBOX = `select topic || '/' || kafka_partition as place, ce_id as id, kafka_offset as offset from event_inbox order by seq`
const DELIVERED = `select ce_id as id, count(*)::int as n from
  (select ce_id, subscription_id from delivery union all select ce_id, subscription_id from delivery_history) d group by 1`

/** What the group has not committed yet, by the hubs' own account; a hub that is on its last commit gets a moment. */
async function lagOf({ hubs }: World): Promise<number> {
  let lag = 0
  for (let looks = 0; looks < 20; looks++) {
    const items = await Promise.all(hubs.map(async (hub) => await lagAt(await hub.url)))
    lag = items.flat().reduce((sum, n) => sum + n, 0)
    if (lag === 0) return 0
    await delay(500)
  }
  return lag
}

async function lagAt(url: string): Promise<number[]> {
  const answer = (await (await fetch(`${url}/admin/lag`)).json()) as { items: { lag: number | null }[] }
  return answer.items.map(({ lag }) => lag ?? 1)
}
