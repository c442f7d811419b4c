// The composition root: makes every part from the configuration, starts them in order and stops them in reverse. Only this file
// constructs; what local mode brings up beside the hub is handed to it.
import { randomUUIDv7 } from 'node:crypto'
import { hostname } from 'node:os'
import { systemClock } from './base/clock.ts'
import { createLifecycle } from './base/lifecycle.ts'
import type { Lifecycle } from './base/lifecycle.ts'
import type { Log } from './base/log.ts'
import { buildInfo, createRegistry } from './base/metrics.ts'
import type { Registry } from './base/metrics.ts'
import type { Service } from './base/service.ts'
import { Troubles } from './base/troubles.ts'
import { openTracer } from './base/tracing.ts'
import type { Tracer } from './base/tracing.ts'
import { VERSION } from './base/version.ts'
import type { Config } from './config.ts'
import { createAuthentication, type Authentication } from './control/auth/kinds.ts'
import type { ReadinessCheck } from './control/routes/health.ts'
import type { StreamView } from './control/routes/operators.ts'
import { Arrivals } from './control/arrivals.ts'
import { pullMetrics } from './control/metrics.ts'
import { createCounter, REDIS_AWAY } from './control/limits/counter.ts'
import { FailedLogins } from './control/limits/failed-logins.ts'
import { burstQuota, createRateLimits, type RateLimits } from './control/limits/rate-limits.ts'
import { connectRedis, type SharedCounts } from './control/limits/redis.ts'
import { createServer } from './control/server.ts'
import type { ControlServer } from './control/server.ts'
import { webhookRules } from './control/sink-rules.ts'
import { destinationCache, openDestination } from './dispatch/destination-cache.ts'
import type { DestinationDeps } from './dispatch/destination-cache.ts'
import { Dispatcher } from './dispatch/dispatcher.ts'
import { dispatchMetrics } from './dispatch/metrics.ts'
import { keepDeadLetters } from './ingest/dead-letters.ts'
import { ingest } from './ingest/ingest.ts'
import type { IngestDeps } from './ingest/ingest.ts'
import { deadLetterMetrics, ingestMetrics } from './ingest/metrics.ts'
import { match } from './matching/match.ts'
import { openKeyRing } from './secrets/keyring.ts'
import type { KekSource } from './secrets/keyring.ts'
import { createSecretBox } from './secrets/secrets.ts'
import { closeSinks, createSinks } from './sinks/registry.ts'
import { hasActiveApiKey } from './store/api-keys.ts'
import { connectionBudget } from './store/connection-budget.ts'
import { poolMetrics } from './store/pool-metrics.ts'
import { createPool } from './store/pool.ts'
import type { Pool } from './store/pool.ts'
import { NoticeListener, notifier } from './store/ready-channel.ts'
import { isReachable, schemaReady } from './store/schema-gate.ts'
import { tenantStore } from './store/tenant.ts'
import { kafkaConnection } from './stream/connection.ts'
import { createKafkaStream } from './stream/kafka.ts'
import { progressProblem } from './stream/progress.ts'
import { createReconciler } from './stream/reconciler.ts'
import type { Reconciler } from './stream/reconciler.ts'
import type { Stream } from './stream/stream.ts'
import { deadLetterSource, factSource } from './stream/topics.ts'
import { catalogChore } from './upkeep/catalog.ts'
import { manifestsChore } from './upkeep/manifests.ts'
import { watchBacklog } from './upkeep/backlog.ts'
import {
  alignChore,
  deadLetterDaysChore,
  deadLetterPruneChore,
  expiredSecretsChore,
  idempotencyChore,
  sweepChore,
} from './upkeep/chores.ts'
import { growthMetrics, guardChore, healthHoursChore, partitionChore, retentionChore } from './upkeep/growth.ts'
import { upkeepMetrics } from './upkeep/metrics.ts'
import { Replays } from './upkeep/replays.ts'
import { missingKeysCheck } from './upkeep/sealing-keys.ts'
import { Upkeep, UPKEEP_LOCK } from './upkeep/upkeep.ts'

/** What is not in the configuration as such: made or found before the parts are. */
export interface Surroundings {
  log: Log
  dsn: string
  brokers: readonly string[]
  /** The sealing key's source first. */
  keks: readonly KekSource[]
  /** Aborts when a stop need not wait for balancers to see it. */
  impatient: AbortSignal
}

export interface App extends Lifecycle {
  /** Where the API listens, once started. */
  address(): { host: string; port: number }
}

/** The hub, made and not started. Rejects when a key or a certificate that is configured cannot be read. */
export async function createApp(config: Config, surroundings: Surroundings): Promise<App> {
  const { log, dsn, keks } = surroundings
  const stopping = new AbortController()
  const registry = createRegistry({ processMetrics: true })
  buildInfo(registry, { version: VERSION, role: config.role })
  const pools = createPools(config, surroundings)
  poolMetrics(registry, Object.fromEntries(Object.entries(pools).filter(([, pool]) => pool !== null)))
  const ring = await openKeyRing(keks, { clock: systemClock })
  const secrets = createSecretBox(ring)
  const { allowPrivateSinks: allowPrivate, proxy } = config
  const sinks = createSinks({ webhook: { allowPrivate, proxy, userAgentVersion: VERSION, log } })
  const open = { sinks, secrets, clock: systemClock, log }
  const tracer = config.traces && (await openTracer({ ...config.traces, serviceVersion: VERSION, log }))

  const dispatcher =
    pools.dispatch &&
    createDispatcher(config, {
      log,
      registry,
      tracer,
      pool: pools.dispatch,
      destinations: { ...open, pool: pools.dispatch },
    })
  const onWoken = dispatcher ? () => dispatcher.wake() : notifier('ready', pools.ingest ?? pools.control, systemClock)
  const arrivals = new Arrivals({ db: pools.control, clock: systemClock })
  const told = { onWoken, onStored: storedNotifier(pools, arrivals) }
  const ingestDeps = { pool: pools.control, clock: systemClock, log, tracer, metrics: ingestMetrics(registry), ...told }
  const streams =
    pools.ingest && (await createStreams(config, { ...surroundings, registry, ...ingestDeps, pool: pools.ingest }))
  const destinations = { ...open, pool: pools.control }
  const running = (): boolean => lifecycle.running()
  const limits = await createLimits(config, log)
  const authSettings = { ...config.auth, tenantId: config.tenantId }
  const authentication = createAuthentication(authSettings, { pool: pools.control, clock: systemClock, log })
  const missingKeys = missingKeysCheck(pools.control, { ring, clock: systemClock })
  const secretsCheck = { name: 'secrets', advisory: true, check: missingKeys }
  const parts = { dispatcher, ingestDeps, streams, limits, authentication, secretsCheck }
  const served = { log, registry, destinations, running, arrivals, ...parts }
  const control = createControl(config, { ...served, stopping: stopping.signal })
  const lifecycle: Lifecycle = createLifecycle({
    clock: systemClock,
    log,
    stopping,
    stages: [
      [limits.shared],
      [control],
      [gate(config, pools.control, { log, signal: stopping.signal, migrateDsn: config.env === 'local' ? dsn : null })],
      [
        authentication.apiKeys,
        preStopDrain(config, surroundings.impatient),
        createUpkeep(config, { dsn, log, registry, dispatcher }),
        dispatcher && noticeListener(dsn, dispatcher, arrivals),
        dispatcher,
        dispatcher &&
          pools.dispatch &&
          new Replays({ pool: pools.dispatch, clock: systemClock, log, onQueued: () => dispatcher.wake() }),
        streams && streams.facts,
        streams && streams.deadLetters,
        streams && config.reconciler.enabled ? streams.reconciler : null,
      ],
    ],
    closing: [
      { name: 'traces', close: async () => await tracer?.close() },
      { name: 'sinks', close: () => closeSinks(sinks) },
      { name: 'authentication', close: () => authentication.close() },
      { name: 'database', close: async () => void (await Promise.all(everyPool(pools).map((pool) => pool.end()))) },
    ],
  })
  return { ...lifecycle, address: () => control.address() }
}

/** This replica's own readers need no notice to be told by. */
function storedNotifier(pools: Pools, arrivals: Arrivals): () => void {
  const notify = notifier('stored', pools.ingest ?? pools.control, systemClock)
  return () => {
    arrivals.tell()
    notify()
  }
}

function noticeListener(dsn: string, dispatcher: Dispatcher, arrivals: Arrivals): NoticeListener {
  return new NoticeListener({
    dsn,
    clock: systemClock,
    on: { ready: () => dispatcher.wake(), stored: () => arrivals.tell() },
  })
}

interface Pools {
  control: Pool
  /** Null where the role does not do that work. */
  ingest: Pool | null
  dispatch: Pool | null
}

/** Each part of the work has connections of its own: see store/connection-budget.ts. */
function createPools({ role, postgres }: Config, { dsn, log }: Surroundings): Pools {
  const onError = (error: Error): void => log.warn({ err: error.message }, 'an idle database connection broke')
  const budget = connectionBudget(role, postgres.maxConnections)
  const poolOf = (part: 'control' | 'ingest' | 'dispatch'): Pool =>
    createPool({ dsn, maxConnections: budget[part], applicationName: connectionName(part), onError })
  return {
    control: poolOf('control'),
    ingest: budget.ingest > 0 ? poolOf('ingest') : null,
    dispatch: budget.dispatch > 0 ? poolOf('dispatch') : null,
  }
}

function everyPool(pools: Pools): Pool[] {
  return [pools.control, pools.ingest, pools.dispatch].filter((pool) => pool !== null)
}

/** What pg_stat_activity shows: the part, and which replica's. PostgreSQL keeps 63 bytes; a host's end is what tells it from others. */
function connectionName(part: string): string {
  const owner = `/${process.pid}`
  const before = `streaming-hub ${part} `
  return before + hostname().slice(-(63 - before.length - owner.length)) + owner
}

function createDispatcher(
  config: Config,
  made: { log: Log; registry: Registry; tracer: Tracer | null; pool: Pool; destinations: DestinationDeps },
): Dispatcher {
  return new Dispatcher({
    pool: made.pool,
    clock: systemClock,
    log: made.log,
    metrics: dispatchMetrics(made.registry),
    tracer: made.tracer,
    random: Math.random,
    destinationOf: destinationCache(made.destinations),
    options: {
      ...config.dispatch,
      autodisable: autodisableOf(config),
    },
  })
}

function autodisableOf({ autodisable }: Config): { enabled: boolean; windowMs: number; spreadMs: number } {
  const { enabled, failureWindowMs, failureSpreadMs } = autodisable
  return { enabled, windowMs: failureWindowMs, spreadMs: failureSpreadMs }
}

interface Streams {
  facts: Stream
  deadLetters: Stream
  reconciler: Reconciler
}

async function createStreams(
  config: Config,
  made: IngestDeps & { registry: Registry; brokers: readonly string[] },
): Promise<Streams> {
  const { log, registry, pool, brokers } = made
  const clientId = `streaming-hub ${hostname()} ${process.pid}`
  const connection = await kafkaConnection({ ...config.kafka, brokers, clientId }, systemClock)
  const common = {
    connection,
    log,
    clock: systemClock,
    metrics: registry,
    ...(config.env === 'local' && { timings: LOCAL_TIMINGS }),
  }
  const facts = createKafkaStream({
    ...common,
    name: 'facts',
    groupId: config.kafka.group,
    accepts: (topic) => factSource(topic) !== null,
    handler: async ({ records }, revoked) => {
      revoked.throwIfAborted()
      await ingest(records, made)
    },
  })
  const deadLetterDeps = { pool, clock: systemClock, metrics: deadLetterMetrics(registry) }
  const deadLetters = createKafkaStream({
    ...common,
    name: 'dead letters',
    groupId: config.kafka.dlqGroup,
    accepts: (topic) => deadLetterSource(topic) !== null,
    memoryBytes: DEAD_LETTER_BYTES,
    handler: async ({ topic, partition, records }, revoked) => {
      revoked.throwIfAborted()
      await keepDeadLetters({ source: deadLetterSource(topic) ?? '', topic, partition, records }, deadLetterDeps)
    },
  })
  const { intervalMs: everyMs } = config.reconciler
  const watched = { facts, deadLetters, everyMs, clock: systemClock, log, metrics: registry }
  return { facts, deadLetters, reconciler: createReconciler(connection, watched) }
}

/** They come in small numbers, and are in no hurry: sixteen of the largest records at a time. */
const DEAD_LETTER_BYTES = 16 << 20

/** Whoever tries the hub out restarts it often: a member that was killed is missed after six seconds, the least that Kafka allows. */
const LOCAL_TIMINGS = { sessionTimeoutMs: 6_000, rebalanceTimeoutMs: 10_000, heartbeatIntervalMs: 1_000 }

/** Beyond the subscription's time-out: to be taken up, and recorded. */
const TEST_WAIT_MS = 5_000

interface Limits {
  /** Null where each process counts by itself. */
  shared: SharedCounts | null
  rateLimits: RateLimits
  failedLogins: FailedLogins
  check: ReadinessCheck
}

async function createLimits({ redis, rateLimits, pull }: Config, log: Log): Promise<Limits> {
  const troubles = new Troubles(log, systemClock)
  const shared = redis && (await connectRedis(redis, troubles))
  const counted = { redis: shared && shared.redis, troubles }
  const failedAuth = createCounter({ name: 'failed-auth', ...rateLimits.failedAuth }, counted, true)
  return {
    shared,
    rateLimits: createRateLimits({ ...rateLimits, pull: burstQuota(pull) }, counted),
    failedLogins: new FailedLogins(failedAuth, systemClock),
    check: { name: 'rate_limits', advisory: true, check: () => (troubles.find(REDIS_AWAY) ? REDIS_AWAY : null) },
  }
}

function createControl(
  config: Config,
  made: {
    log: Log
    registry: Registry
    destinations: DestinationDeps
    ingestDeps: IngestDeps
    streams: Streams | null
    limits: Limits
    dispatcher: Dispatcher | null
    authentication: Authentication
    stopping: AbortSignal
    arrivals: Arrivals
    running: () => boolean
    secretsCheck: ReadinessCheck
  },
): ControlServer {
  const {
    log,
    registry,
    destinations,
    ingestDeps,
    streams,
    limits,
    authentication,
    stopping,
    running,
    arrivals,
    secretsCheck,
  } = made
  const { pool, secrets } = destinations
  return createServer({
    listen: { host: config.http.host, port: config.http.port },
    version: VERSION,
    docs: config.http.docsEnabled,
    metrics: config.metricsEnabled ? registry : null,
    registry,
    log,
    pool,
    asTenant: tenantStore(pool),
    clock: systemClock,
    secrets,
    arrivals,
    pullMetrics: pullMetrics(registry, () => arrivals.waiting),
    idempotencyTtlMs: config.idempotency.ttlMs,
    sinkRules: webhookRules({ allowPrivate: config.allowPrivateSinks, clock: systemClock }),
    apiKeys: authentication.apiKeys,
    authenticators: authentication.authenticators,
    probe: async ({ id }, signal) => {
      const { sink, destination } = await openDestination(destinations, id)
      return await sink.probe({ destination, attemptId: randomUUIDv7(), now: systemClock.now() }, signal)
    },
    ingest: (records) => ingest(records, ingestDeps),
    // The routes look within one tenant: its being another is no answer that they could give.
    mismatches: (event, subscription) => {
      const matched = match(event, subscription)
      return matched.matched ? [] : matched.reasons.filter((reason) => reason !== 'tenant')
    },
    rateLimits: limits.rateLimits,
    failedLogins: limits.failedLogins,
    trustedProxies: config.http.trustedProxies,
    stream: streamView(config, streams),
    checks: [lifecycleCheck({ stopping, running }), ...readinessChecks(pool, streams), limits.check, secretsCheck],
    testWaitMs: TEST_WAIT_MS,
    onTest: () => made.dispatcher?.wakeTests(),
    health: { windowMs: config.healthWindowMs, autodisable: autodisableOf(config) },
    stopping,
    upkeepLock: UPKEEP_LOCK,
  })
}

function streamView({ kafka }: Config, streams: Streams | null): StreamView {
  if (!streams) return { lag: () => [], topics: () => [] }
  const { facts, deadLetters, reconciler } = streams
  return {
    lag: () => [
      ...facts.lag().map((lag) => ({ group: kafka.group, ...lag })),
      ...deadLetters.lag().map((lag) => ({ group: kafka.dlqGroup, ...lag })),
    ],
    topics: () => reconciler.topics(),
  }
}

/** A balancer sends nothing to a replica that is not whole yet, or that is about to go. */
function lifecycleCheck({ stopping, running }: { stopping: AbortSignal; running: () => boolean }): ReadinessCheck {
  return {
    name: 'lifecycle',
    check: () => (stopping.aborted ? 'the hub is stopping' : running() ? null : 'the hub is starting'),
  }
}

function readinessChecks(pool: Pool, streams: Streams | null): ReadinessCheck[] {
  const database: ReadinessCheck = {
    name: 'database',
    check: async () => ((await isReachable(pool)) ? null : 'the database cannot be reached'),
  }
  if (!streams) return [database]
  const { facts, deadLetters } = streams
  return [
    database,
    { name: 'stream', check: () => facts.health().problem },
    { name: 'progress', check: () => standstill(facts) },
    {
      name: 'dead_letters',
      // Nothing is delivered of them, so nobody has to be turned away because of them.
      advisory: true,
      check: () => deadLetters.health().problem ?? standstill(deadLetters),
    },
  ]
}

function standstill(stream: Stream): string | null {
  return progressProblem(stream.lag(), systemClock.now())
}

function createUpkeep(
  config: Config,
  made: { dsn: string; log: Log; registry: Registry; dispatcher: Dispatcher | null },
): Upkeep {
  const { dsn, log, registry } = made
  const { sweptLanes } = upkeepMetrics(registry)
  const backlog = watchBacklog({ registry, clock: systemClock })
  const { intervalMs, futureWeeks: weeksAhead, retentionEnabled, retentionHorizonMs } = config.partitions
  const { retentionMs, pruneIntervalMs } = config.deadLetters
  const horizonMs = retentionEnabled ? retentionHorizonMs : null
  const metrics = growthMetrics(registry)
  return new Upkeep({
    dsn,
    holder: connectionName('upkeep'),
    clock: systemClock,
    log,
    onLost: () => {
      metrics.forget()
      backlog.forget()
    },
    chores: [
      partitionChore({ everyMs: intervalMs, weeksAhead }),
      alignChore(() =>
        log.warn('this database was restored: pull cursors go on, and what came before this line may be passed over'),
      ),
      ...(horizonMs === null ? [] : [retentionChore({ everyMs: intervalMs, horizonMs })]),
      healthHoursChore({ everyMs: intervalMs, windowMs: config.healthWindowMs }),
      guardChore({ horizonMs, weeksAhead, metrics, troubles: new Troubles(log, systemClock) }),
      deadLetterDaysChore({ everyMs: pruneIntervalMs }),
      deadLetterPruneChore({
        everyMs: pruneIntervalMs,
        retentionMs,
        onStrays: () => log.error('dead letters lie in no day of their own: retention waits for the last of them'),
      }),
      sweepChore((lanes) => {
        sweptLanes.inc(lanes)
        if (lanes > 0) log.error({ lanes }, 'wake-ups were lost: please report this')
        if (lanes > 0) made.dispatcher?.wake()
      }),
      expiredSecretsChore(),
      idempotencyChore({ everyMs: config.idempotency.reapIntervalMs }),
      backlog.chore,
      catalogChore(),
      manifestsChore({ urls: config.manifests.urls, everyMs: config.manifests.intervalMs }),
    ],
  })
}

/** Its stop lasts until load balancers have seen that this replica is not ready any more: the API serves until all else has stopped. */
function preStopDrain({ shutdown }: Config, impatient: AbortSignal): Service {
  return {
    name: 'pre-stop drain',
    start: async () => undefined,
    stop: (deadline) => systemClock.sleep(shutdown.preStopDrainMs, AbortSignal.any([deadline, impatient])),
  }
}

/**
 * What comes after it in the order starts on a database that answers and has this program's schema, which in local mode it is given;
 * and, elsewhere, when there is a way to get in.
 */
function gate(
  { env, auth }: Config,
  pool: Pool,
  deps: { log: Log; signal: AbortSignal; migrateDsn: string | null },
): Service {
  const needsKeys = env !== 'local' && auth.jwt === null && auth.plugin === null
  return {
    name: 'schema',
    start: () =>
      schemaReady(pool, { clock: systemClock, ...deps, insist: needsKeys ? () => insistOnKeys(pool, env) : null }),
    stop: async () => undefined,
  }
}

async function insistOnKeys(pool: Pool, env: string): Promise<void> {
  if (await hasActiveApiKey(pool, new Date(systemClock.now()))) return
  throw new Error(
    `Nobody could get in: in ${env} there is no active API key, nor another way to authenticate. Make a first key with ` +
      '"streaming-hub keys create --name operators --scope admin", or set STREAMING_HUB_AUTH_JWKS_URL or PLUGIN_AUTH_ENABLED.',
  )
}
