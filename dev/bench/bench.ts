// What the benches have in common: a durable PostgreSQL of their own, a receiver, subscriptions, the hub's two engines, and records.
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { destinationCache } from '../../src/dispatch/destination-cache.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { dispatchMetrics } from '../../src/dispatch/metrics.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import type { IngestDeps } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { parseKeyRing } from '../../src/secrets/keyring.ts'
import { createSecretBox, newSigningSecret, SIGNING_SECRET } from '../../src/secrets/secrets.ts'
import { createSinks } from '../../src/sinks/registry.ts'
import type { Sink } from '../../src/sinks/sink.ts'
import { migrate } from '../../src/store/migrate.ts'
import { makePartitions } from '../../src/store/partitions.ts'
import { createPool } from '../../src/store/pool.ts'
import type { Pool } from '../../src/store/pool.ts'
import { interruptible } from '../interruptible.ts'
import { startLocalPostgres } from '../postgres.ts'

export const BODY = Buffer.from(JSON.stringify({ amount: '1234567890.12', note: 'x'.repeat(950) }))

export interface Bench {
  pool: Pool
  postgresPid: number
  receiver: { url: string; process: ChildProcess }
}

/** Runs `work` on a database and a receiver that are gone afterwards. */
export async function withBench(work: (bench: Bench) => Promise<void>): Promise<void> {
  await using running = interruptible()
  const directory = await mkdtemp(join(tmpdir(), 'streaming-hub-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true }))
  const postgres = await startLocalPostgres({ dataDir: directory, log: silentLog })
  running.defer(() => postgres.stop())
  const receiver = fork(new URL('./receiver.ts', import.meta.url))
  running.defer(() => receiver.disconnect())
  const [port] = (await once(receiver, 'message')) as [number]
  await migrate(postgres.dsn)
  const pool = createPool({
    dsn: postgres.dsn,
    maxConnections: 16,
    applicationName: 'bench',
    onError: ({ message }) => console.error(message),
  })
  running.defer(() => pool.end())
  await makePartitions(pool, new Date(), 1)
  const [pid] = (await readFile(join(postgres.directory, 'cluster', 'postmaster.pid'), 'utf8')).split('\n')
  await work({ pool, postgresPid: Number(pid), receiver: { url: `http://127.0.0.1:${port}/`, process: receiver } })
}

/** An active subscription of `tenantId` to the records of this file. */
export async function subscribe(
  pool: Pool,
  given: { tenantId: string; url: string; timeoutMs?: number },
): Promise<void> {
  const { rows } = await pool.query<{ id: string }>('select uuid7(now()) as id')
  const id = rows[0]!.id
  const context = { tenantId: given.tenantId, subscriptionId: id, field: SIGNING_SECRET }
  const sealed = await secretBox().seal(newSigningSecret().text, context)
  const sink = JSON.stringify({ kind: 'webhook', url: given.url, headers: {} })
  await pool.query(SUBSCRIBE, [id, given.tenantId, sink, sealed, given.timeoutMs ?? 30_000, given.url])
}

const SUBSCRIBE = `
with made as (
  insert into subscription (id, tenant_id, name, verification_state, event_types, sink, destination_key, content_mode, ordering,
    timeout_ms, metadata, created_at, updated_at)
  values ($1, $2, 'bench', 'active', '{loan.approved}', $3, $6, 'binary', 'fifo', $5, '{}', now(), now())
), pattern as (insert into subscription_pattern values ($2, 'loan.approved', $1)
), secret as (
  insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at)
  values (uuid7(now()), $1, $2, 'signing_secret', $4, now())
), destination as (insert into destination (tenant_id, destination_key) values ($2, $6) on conflict do nothing
), turn as (insert into tenant_turn (tenant_id) values ($2) on conflict do nothing)
insert into lane (subscription_id, tenant_id, destination_key) values ($1, $2, $6)`

function secretBox() {
  return createSecretBox(parseKeyRing(Buffer.alloc(32, 1).toString('base64')))
}

export function ingestDeps(pool: Pool, onWoken: () => void = () => undefined): IngestDeps {
  const metrics = ingestMetrics(createRegistry({ processMetrics: false }))
  return { pool, clock: systemClock, log: silentLog, metrics, onWoken }
}

/** A dispatcher with the configuration's defaults and the webhook sink, or another one. */
export function dispatching(pool: Pool, other?: Sink) {
  const metrics = dispatchMetrics(createRegistry({ processMetrics: false }))
  const sinks = createSinks({ webhook: { allowPrivate: true, userAgentVersion: 'bench', log: silentLog } })
  const destinationOf = destinationCache({ pool, sinks, secrets: secretBox(), clock: systemClock, log: silentLog })
  const dispatcher = new Dispatcher({
    pool,
    clock: systemClock,
    log: silentLog,
    metrics,
    random: Math.random,
    destinationOf: async (lane) => {
      const opened = await destinationOf(lane)
      return other ? { ...opened, sink: other } : opened
    },
    options: {
      workers: 8,
      claimBatch: 16,
      idleIntervalMs: 250,
      poisonThreshold: 5,
      autodisable: { enabled: true, windowMs: 120 * 3_600_000, spreadMs: 12 * 3_600_000 },
    },
  })
  const stop = async (deadline: AbortSignal = AbortSignal.timeout(10_000)): Promise<void> => {
    await dispatcher.stop(deadline)
    await sinks.webhook.close()
  }
  return { dispatcher, metrics, stop }
}

let made = 0

/** A record of an event that no record before it was of. */
export function record(tenantId: string): IncomingRecord {
  const time = Date.now().toString(16).padStart(12, '0')
  const headers = [
    header('ce-specversion', '1.0'),
    header('ce-id', `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${made.toString(16).padStart(12, '0')}`),
    header('ce-source', 'lender'),
    header('ce-type', 'studio.lerian.lender.loan.approved'),
    header('ce-time', new Date().toISOString()),
    header('ce-schemaversion', '1.0.0'),
    header('ce-resourcetype', 'loan'),
    header('ce-eventtype', 'approved'),
    header('ce-tenantid', tenantId),
  ]
  const position = { partition: 0, offset: BigInt(made++) }
  return { topic: 'lerian.streaming.lender', position, timestamp: Date.now(), key: null, headers, value: BODY }
}

function header(name: string, value: string): [Buffer, Buffer] {
  return [Buffer.from(name), Buffer.from(value)]
}
