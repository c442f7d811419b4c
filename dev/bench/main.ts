// `npm run bench`: what the hub costs for each event, beside raw baselines of the same run on the same machine: the bare insert of
// the same rows, and the bare posts of the same bodies. Trust the ratios and the CPU µs; the rates are this machine's.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Agent } from 'undici'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { destinationCache } from '../../src/dispatch/destination-cache.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { dispatchMetrics } from '../../src/dispatch/metrics.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { parseKeyRing } from '../../src/secrets/keyring.ts'
import { createSecretBox, newSigningSecret, SIGNING_SECRET } from '../../src/secrets/secrets.ts'
import { createSinks } from '../../src/sinks/registry.ts'
import { migrate } from '../../src/store/migrate.ts'
import { makePartitions } from '../../src/store/partitions.ts'
import { createPool } from '../../src/store/pool.ts'
import type { Pool } from '../../src/store/pool.ts'
import { startLocalPostgres } from '../postgres.ts'
import { cpuOf } from './cpu.ts'

const { values: args } = parseArgs({
  options: {
    events: { type: 'string', default: '20000' },
    tenants: { type: 'string', default: '1000' },
    batch: { type: 'string', default: '200' },
  },
})
const EVENTS = Number(args.events)
const TENANTS = Number(args.tenants)
const BATCH = Number(args.batch)
const BODY = Buffer.from(JSON.stringify({ amount: '1234567890.12', note: 'x'.repeat(950) }))
const MAX_BACKLOG = 3000

interface Bench {
  pool: Pool
  postgresPid: number
  receiver: { url: string; pid: number }
}

interface Figure {
  name: string
  events: number
  seconds: number
  nodeUs: number
  postgresUs: number
  receiverUs: number
}

async function main(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'streaming-hub-bench-'))
  const postgres = await startLocalPostgres({ dataDir: directory, log: silentLog })
  const receiver = fork(new URL('./receiver.ts', import.meta.url))
  try {
    const [port] = (await once(receiver, 'message')) as [number]
    await migrate(postgres.dsn)
    const pool = createPool({
      dsn: postgres.dsn,
      maxConnections: 16,
      applicationName: 'bench',
      onError: () => undefined,
    })
    await makePartitions(pool, new Date(), 1)
    const [pidLine] = (await readFile(join(postgres.directory, 'cluster', 'postmaster.pid'), 'utf8')).split('\n')
    const url = `http://127.0.0.1:${port}/`
    const bench = { pool, postgresPid: Number(pidLine), receiver: { url, pid: receiver.pid ?? 0 } }
    await subscribe(bench)
    const figures = [
      await measure(bench, 'raw insert of the same rows', () => rawInsert(bench)),
      await measure(bench, 'ingest: verdict, dedup, match, queue', () => ingestOnly(bench)),
      await measure(bench, 'deliver what is queued', () => deliverOnly(bench)),
      await measure(bench, 'raw posts, 128 in the air', () => rawPosts(bench)),
      await measure(bench, 'ingest and deliver, 1:1', () => together(bench)),
    ]
    print(figures)
    await pool.end()
  } finally {
    receiver.disconnect()
    await postgres.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

async function subscribe({ pool, receiver: { url } }: Bench): Promise<void> {
  const secrets = secretBox()
  for (let tenant = 0; tenant < TENANTS; tenant++) {
    const { rows } = await pool.query<{ id: string }>('select uuid7(now()) as id')
    const id = rows[0]!.id
    const tenantId = `tenant-${tenant}`
    const sealed = await secrets.seal(newSigningSecret().text, { tenantId, subscriptionId: id, field: SIGNING_SECRET })
    await pool.query(SUBSCRIBE, [id, tenantId, JSON.stringify({ kind: 'webhook', url, headers: {} }), sealed])
  }
}

const SUBSCRIBE = `
with made as (
  insert into subscription (id, tenant_id, name, verification_state, event_types, sink, destination_key, content_mode, ordering,
    timeout_ms, metadata, created_at, updated_at)
  values ($1, $2, 'bench', 'active', '{loan.approved}', $3, 'bench', 'binary', 'fifo', 30000, '{}', now(), now())
), pattern as (insert into subscription_pattern values ($2, 'loan.approved', $1)
), secret as (
  insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at)
  values (uuid7(now()), $1, $2, 'signing_secret', $4, now())
), destination as (insert into destination (tenant_id, destination_key) values ($2, 'bench')
), turn as (insert into tenant_turn (tenant_id) values ($2))
insert into lane (subscription_id, tenant_id, destination_key) values ($1, $2, 'bench')`

function secretBox() {
  return createSecretBox(parseKeyRing(Buffer.alloc(32, 1).toString('base64')))
}

async function measure(bench: Bench, name: string, work: () => Promise<void>): Promise<Figure> {
  const used = async () =>
    [process.cpuUsage(), await cpuOf(bench.postgresPid), await cpuOf(bench.receiver.pid)] as const
  const before = await used()
  const started = performance.now()
  await work()
  const seconds = (performance.now() - started) / 1000
  const after = await used()
  const node = after[0].user + after[0].system - before[0].user - before[0].system
  const figure = {
    name,
    events: EVENTS,
    seconds,
    nodeUs: node,
    postgresUs: after[1] - before[1],
    receiverUs: after[2] - before[2],
  }
  process.stderr.write(`${name}: ${Math.round(EVENTS / seconds)}/s\n`)
  return figure
}

// --- the baselines --------------------------------------------------------------------------------------------------------

async function rawInsert({ pool }: Bench): Promise<void> {
  await pool.query(
    'create table raw_event (tenant_id text, ce_id uuid, attributes json, data bytea, primary key (tenant_id, ce_id))',
  )
  const client = await pool.connect()
  for (const batch of batches()) {
    let at = 1
    const offsets = batch.map(({ value }) => (at += value!.length) - value!.length)
    const attributes = batch.map(({ headers }) =>
      JSON.stringify(Object.fromEntries(headers.map(([k, v]) => [String(k).slice(3), String(v)]))),
    )
    await client.query({
      name: 'raw',
      text: `insert into raw_event select t, i, a::json, substring($4::bytea from o for l)
        from unnest($1::text[], $2::uuid[], $3::text[], $5::int[], $6::int[]) r(t, i, a, o, l)`,
      values: [
        batch.map(({ headers }) => String(headers[8]![1])),
        batch.map(({ headers }) => String(headers[1]![1])),
        attributes,
        Buffer.concat(batch.map(({ value }) => value!)),
        offsets,
        batch.map(({ value }) => value!.length),
      ],
    })
  }
  client.release()
}

async function rawPosts({ receiver: { url } }: Bench): Promise<void> {
  const agent = new Agent({ connections: 128 })
  let left = EVENTS
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const { body } = await agent.request({ origin: new URL(url).origin, path: '/', method: 'POST', body: BODY })
      await body.dump()
    }
  }
  await Promise.all(Array.from({ length: 128 }, worker))
  await agent.close()
}

// --- the hub --------------------------------------------------------------------------------------------------------------

async function ingestOnly({ pool }: Bench): Promise<void> {
  const deps = {
    pool,
    clock: systemClock,
    log: silentLog,
    metrics: ingestMetrics(createRegistry({ processMetrics: false })),
    onWoken: () => undefined,
  }
  for (const batch of batches()) await ingest(batch, deps)
}

async function deliverOnly(bench: Bench): Promise<void> {
  const { dispatcher, close } = hub(bench)
  await dispatcher.start()
  await delivered(bench.pool, EVENTS)
  await close()
}

async function together(bench: Bench): Promise<void> {
  const { pool } = bench
  const { dispatcher, metrics, close } = hub(bench)
  await dispatcher.start()
  const deps = {
    pool,
    clock: systemClock,
    log: silentLog,
    metrics: ingestMetrics(createRegistry({ processMetrics: false })),
    onWoken: () => dispatcher.wake(),
  }
  let sent = 0
  for (const batch of batches()) {
    while (sent - (await deliveredSoFar(metrics)) > MAX_BACKLOG) await systemClock.sleep(5)
    await ingest(batch, deps)
    sent += batch.length
  }
  await delivered(pool, 2 * EVENTS)
  await close()
}

function hub({ pool }: Bench) {
  const metrics = dispatchMetrics(createRegistry({ processMetrics: false }))
  const sinks = createSinks({ webhook: { allowPrivate: true, userAgentVersion: 'bench', log: silentLog } })
  const dispatcher = new Dispatcher({
    pool,
    clock: systemClock,
    log: silentLog,
    metrics,
    random: Math.random,
    destinationOf: destinationCache({ pool, sinks, secrets: secretBox() }),
    options: {
      workers: 8,
      claimBatch: 16,
      idleIntervalMs: 250,
      poisonThreshold: 5,
      autodisable: { enabled: true, windowMs: 1e9, spreadMs: 1e8 },
    },
  })
  const close = async (): Promise<void> => {
    await dispatcher.stop(AbortSignal.timeout(10_000))
    await sinks.webhook.close()
  }
  return { dispatcher, metrics, close }
}

async function deliveredSoFar(metrics: ReturnType<typeof dispatchMetrics>): Promise<number> {
  const { values } = await metrics.attempts.get()
  return values.reduce((sum, { value }) => sum + value, 0)
}

async function delivered(pool: Pool, count: number): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ n: number }>(
      "select count(*) as n from delivery_history where state = 'delivered'",
    )
    if (rows[0]!.n >= count) return assert.equal(rows[0]!.n, count)
    await systemClock.sleep(50)
  }
}

// --- the input ------------------------------------------------------------------------------------------------------------

let made = 0

function* batches(): Generator<IncomingRecord[]> {
  for (let at = 0; at < EVENTS; at += BATCH)
    yield Array.from({ length: Math.min(BATCH, EVENTS - at) }, () => record(made++))
}

function header(name: string, value: string): [Buffer, Buffer] {
  return [Buffer.from(name), Buffer.from(value)]
}

function record(n: number): IncomingRecord {
  const time = Date.now().toString(16).padStart(12, '0')
  const headers = [
    header('ce-specversion', '1.0'),
    header('ce-id', `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${n.toString(16).padStart(12, '0')}`),
    header('ce-source', 'lender'),
    header('ce-type', 'studio.lerian.lender.loan.approved'),
    header('ce-time', new Date().toISOString()),
    header('ce-schemaversion', '1.0.0'),
    header('ce-resourcetype', 'loan'),
    header('ce-eventtype', 'approved'),
    header('ce-tenantid', `tenant-${n % TENANTS}`),
  ]
  return {
    topic: 'lerian.streaming.lender',
    position: { partition: 0, offset: BigInt(n) },
    timestamp: Date.now(),
    key: null,
    headers,
    value: BODY,
  }
}

// --- the report -----------------------------------------------------------------------------------------------------------

function print(figures: Figure[]): void {
  const [rawInserts, ingested, , posts, both] = figures
  console.log(`\n${EVENTS} events of ${TENANTS} tenants, batches of ${BATCH}, bodies of ${BODY.length} bytes\n`)
  console.log(
    '| | events/s | node µs/event | PostgreSQL µs/event | receiver µs/event |\n| --- | ---: | ---: | ---: | ---: |',
  )
  for (const f of figures) {
    const per = (us: number): string => Math.round(us / f.events).toString()
    console.log(
      `| ${f.name} | ${Math.round(f.events / f.seconds)} | ${per(f.nodeUs)} | ${per(f.postgresUs)} | ${per(f.receiverUs)} |`,
    )
  }
  const rate = (f: Figure | undefined): number => (f ? f.events / f.seconds : Number.NaN)
  console.log(`\ningest / raw insert: ${(rate(ingested) / rate(rawInserts)).toFixed(2)}`)
  console.log(`ingest and deliver / raw posts: ${(rate(both) / rate(posts)).toFixed(2)}`)
}

await main()
