// The control plane as it is served, on a bench's database and without what it does not measure: limits, probes, streams.
import { systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/log.ts'
import { createRegistry } from '../../../src/base/metrics.ts'
import { ApiKeys } from '../../../src/control/auth/api-keys.ts'
import { localAuthenticator } from '../../../src/control/auth/local.ts'
import { FailedLogins } from '../../../src/control/limits/failed-logins.ts'
import { createServer, type ControlDeps } from '../../../src/control/server.ts'
import { PRESSURE } from '../../../src/control/overload.ts'
import type { Pool } from '../../../src/store/pool.ts'
import { Arrivals } from '../../../src/control/arrivals.ts'
import { pullMetrics } from '../../../src/control/metrics.ts'
import { webhookRules } from '../../../src/control/sink-rules.ts'
import { parseKeyRing } from '../../../src/secrets/keyring.ts'
import { createSecretBox } from '../../../src/secrets/secrets.ts'
import { tenantStore } from '../../../src/store/tenant.ts'

/** Listens on loopback. */
export async function controlPlane(pool: Pool): Promise<{ origin: string; stop(): Promise<void> }> {
  const registry = createRegistry({ processMetrics: false })
  const clock = systemClock
  const arrivals = new Arrivals({ db: pool, clock })
  const apiKeys = new ApiKeys({ pool, clock, log: silentLog })
  const limit = { name: 'none', max: 2, windowMs: 1_000 }
  const deps: ControlDeps = {
    listen: { host: '127.0.0.1', port: 0 },
    log: silentLog,
    clock,
    registry,
    metrics: null,
    pool,
    asTenant: tenantStore(pool),
    version: 'bench',
    docs: false,
    trustedProxies: [],
    rateLimits: { count: async () => [] },
    failedLogins: new FailedLogins({ add: async () => ({ limit, allowed: true, remaining: 1, resetMs: 0 }) }, clock),
    apiKeys,
    authenticators: [localAuthenticator({ defaultTenantId: 'default' })],
    secrets: createSecretBox(parseKeyRing(Buffer.alloc(32, 1).toString('base64'))),
    idempotencyTtlMs: 24 * 3_600_000,
    sinkRules: webhookRules({ allowPrivate: false, clock }),
    probe: notMeasured,
    ingest: notMeasured,
    mismatches: () => [],
    arrivals,
    pullMetrics: pullMetrics(registry, () => arrivals.waiting),
    stream: { lag: () => [], topics: () => [] },
    checks: [],
    testWaitMs: null,
    onTest: notMeasured,
    health: {
      windowMs: 720 * 3_600_000,
      autodisable: { enabled: true, windowMs: 120 * 3_600_000, spreadMs: 12 * 3_600_000 },
    },
    stopping: new AbortController().signal,
    upkeepLock: 'upkeep',
    pressure: { ...PRESSURE, maxEventLoopDelay: 60_000 },
  }
  const server = createServer(deps)
  await server.start()
  const { host, port } = server.address()
  return { origin: `http://${host}:${port}`, stop: async () => await server.stop(AbortSignal.timeout(5_000)) }
}

function notMeasured(): never {
  throw new Error('this is not measured')
}
