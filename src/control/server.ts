// The control plane: every route on one server, for every role of the hub. It constructs nothing that others use: what it needs
// is handed over, so it runs in a test as it runs in the hub.
import type { AddressInfo } from 'node:net'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { Registry } from '../base/metrics.ts'
import type { Service } from '../base/service.ts'
import type { SecretBox } from '../secrets/secrets.ts'
import type { Api } from './api.ts'
import { createHttp, type HttpDeps } from './http.ts'
import { httpMetrics, type HttpMetrics } from './metrics.ts'
import { DOCS_PREFIX, openApiOptions } from './openapi.ts'
import { PRESSURE, refuseUnderPressure, type Pressure } from './overload.ts'
import { apiKeyRoutes, type ApiKeyRouteDeps } from './routes/api-keys.ts'
import { breakerRoutes } from './routes/breakers.ts'
import { catalogRoutes } from './routes/catalog.ts'
import { deliveryRoutes } from './routes/deliveries.ts'
import { eventRoutes, type EventRouteDeps } from './routes/events.ts'
import { healthRoutes, type ReadinessCheck } from './routes/health.ts'
import { ingestRoutes, type IngestRouteDeps } from './routes/ingest.ts'
import { manifestRoutes } from './routes/manifests.ts'
import { operatorRoutes, type StreamView } from './routes/operators.ts'
import { pullRoutes, type PullRouteDeps } from './routes/pull.ts'
import { producerDeadLetterRoutes } from './routes/producer-dead-letters.ts'
import { quarantineRoutes } from './routes/quarantine.ts'
import { replayRoutes } from './routes/replays.ts'
import { singletonRoutes, type SingletonDeps } from './routes/singletons.ts'
import { subscriptionActionRoutes } from './routes/subscription-actions.ts'
import { subscriptionHealthRoutes, type SubscriptionHealthDeps } from './routes/subscription-health.ts'
import { subscriptionHistoryRoutes } from './routes/subscription-history.ts'
import { subscriptionRoutes } from './routes/subscriptions.ts'
import { testDeliveryRoutes, type TestDeliveryRouteDeps } from './routes/test-deliveries.ts'
import { Verification, type VerificationDeps } from './verification.ts'

export interface ControlDeps
  extends
    HttpDeps,
    ApiKeyRouteDeps,
    VerificationDeps,
    IngestRouteDeps,
    EventRouteDeps,
    PullRouteDeps,
    SingletonDeps,
    SubscriptionHealthDeps,
    TestDeliveryRouteDeps {
  listen: { host: string; port: number }
  /** Seals new secrets, and the answers that are kept for idempotency keys. */
  secrets: SecretBox
  /** Of the hub, for the API's document. */
  version: string
  /** Serve `/openapi.json` and `/docs`. */
  docs: boolean
  registry: Registry
  /** `PRESSURE` where it is not given. */
  pressure?: Pressure
  /** What `/metrics` serves; null: it is not served. */
  metrics: Registry | null
  stream: StreamView
  checks: readonly ReadinessCheck[]
}

export interface ControlServer extends Service {
  /** The Fastify instance: for tests, which inject requests. */
  readonly api: Api
  /** Where it listens, once started: the port is the one that was given, or a free one for 0. */
  address(): { host: string; port: number }
  /** Resolves when no verification is under way in the background. */
  settled(): Promise<void>
}

export function createServer(deps: ControlDeps): ControlServer {
  const httpCounts = httpMetrics(deps.registry)
  const api = createHttp(deps, httpCounts)
  const verification = new Verification(deps)
  if (deps.docs) addDocs(api, deps.version)
  void api.register(async (scope: Api) => healthRoutes(scope, deps))
  void api.register(async (scope: Api) => addRoutes(scope, { ...deps, verification, httpCounts }))
  let stopped: Promise<void> | null = null
  return {
    name: 'control',
    api,
    start: async () => void (await api.listen(deps.listen)),
    stop: (deadline) => (stopped ??= stop(api, verification, deadline)),
    address: () => addressOf(api),
    settled: () => verification.settled(),
  }
}

async function addRoutes(
  api: Api,
  deps: ControlDeps & { verification: Verification; httpCounts: HttpMetrics },
): Promise<void> {
  await refuseUnderPressure(api, deps.pressure ?? PRESSURE, deps.httpCounts)
  subscriptionRoutes(api, deps)
  subscriptionActionRoutes(api, deps)
  subscriptionHealthRoutes(api, deps)
  testDeliveryRoutes(api, deps)
  subscriptionHistoryRoutes(api, deps)
  deliveryRoutes(api, deps)
  replayRoutes(api, deps)
  eventRoutes(api, deps)
  pullRoutes(api, deps)
  catalogRoutes(api, deps)
  quarantineRoutes(api, deps)
  producerDeadLetterRoutes(api, deps)
  operatorRoutes(api, deps)
  breakerRoutes(api, deps)
  apiKeyRoutes(api, deps)
  singletonRoutes(api, deps)
  manifestRoutes(api, deps)
  // In a scope of its own: it takes bodies of any type, as bytes.
  await api.register(async (scope: Api) => ingestRoutes(scope, deps))
}

function addDocs(api: Api, version: string): void {
  void api.register(swagger, openApiOptions(version))
  void api.register(swaggerUi, {
    routePrefix: DOCS_PREFIX,
    staticCSP: true,
    // Served over plain HTTP too, and without asking anybody else whether the document is valid.
    transformStaticCSP: (policy) => policy.replace(/ ?(upgrade-insecure-requests;|validator\.swagger\.io)/g, ''),
    uiConfig: { validatorUrl: null, deepLinking: true },
  })
  void api.register(async (scope: Api) => {
    scope.get('/openapi.json', { config: { access: 'public' }, schema: { hide: true } }, async () => scope.swagger())
  })
}

/** Requests under way end, and are cut off at the deadline; verifications that nobody waits for have had their time before. */
async function stop(api: Api, verification: Verification, deadline: AbortSignal): Promise<void> {
  const letGo = (): void => {
    verification.cutOff()
    api.server.closeAllConnections()
  }
  deadline.addEventListener('abort', letGo, { once: true })
  try {
    const closed = api.close()
    if (deadline.aborted) letGo()
    await closed
    verification.cutOff()
    await verification.settled()
  } catch (error) {
    api.log.warn({ err: error }, 'the control plane did not close cleanly')
  } finally {
    deadline.removeEventListener('abort', letGo)
  }
}

function addressOf(api: Api): { host: string; port: number } {
  const { address, port } = api.server.address() as AddressInfo
  return { host: address, port }
}
