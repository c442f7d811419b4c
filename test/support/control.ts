// A control plane on a test's database: requests are injected, the clock stands still, the probe is scripted. Every answer is
// held against the API's own document, so that no test passes on an answer that the document does not describe.
import assert from 'node:assert/strict'
import { Compile } from 'typebox/compile'
import type { LightMyRequestResponse } from 'fastify'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { ApiKeys } from '../../src/control/auth/api-keys.ts'
import { Arrivals } from '../../src/control/arrivals.ts'
import { pullMetrics } from '../../src/control/metrics.ts'
import type { Authenticator } from '../../src/control/auth/authenticate.ts'
import { localAuthenticator } from '../../src/control/auth/local.ts'
import { FailedLogins } from '../../src/control/limits/failed-logins.ts'
import { PRESSURE } from '../../src/control/overload.ts'
import { createServer, type ControlDeps, type ControlServer } from '../../src/control/server.ts'
import { webhookRules } from '../../src/control/sink-rules.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { match } from '../../src/matching/match.ts'
import { parseKeyRing } from '../../src/secrets/keyring.ts'
import { createSecretBox } from '../../src/secrets/secrets.ts'
import type { Outcome } from '../../src/sinks/sink.ts'
import { tenantStore } from '../../src/store/tenant.ts'
import { manualClock, type ManualClock } from './clock.ts'
import { testDatabase, type TestDatabase } from './database.ts'
import { delivered } from './scripted-sink.ts'

export interface TestControl extends AsyncDisposable {
  server: ControlServer
  database: TestDatabase
  clock: ManualClock
  apiKeys: ApiKeys
  arrivals: Arrivals
  /** What the next probes come to. */
  probe: { outcome: Outcome | (() => Promise<Outcome>); probed: string[] }
  call(request: Call): Promise<Answer>
}

export interface Call {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  url: string
  tenant?: string
  body?: unknown
  headers?: Record<string, string>
  /** Sent as it is, instead of `body`. */
  raw?: string | Buffer
}

export interface Answer {
  status: number
  headers: LightMyRequestResponse['headers']
  /** Parsed where it is JSON; tests name the shape that they expect. */
  body: unknown
  text: string
}

/** What seals and opens its secrets. */
export const testSecrets = createSecretBox(parseKeyRing(Buffer.alloc(32, 7).toString('base64')))

/**
 * A server that is not listening yet, on a database of its own. Beside API keys the `others` let in: by default everybody, as the
 * open local mode does.
 */
export async function testControl(
  given: Partial<ControlDeps> = {},
  others: readonly Authenticator[] = [localAuthenticator({ defaultTenantId: 'default' })],
): Promise<TestControl> {
  const database = await testDatabase()
  const clock = manualClock()
  const probe: TestControl['probe'] = { outcome: delivered, probed: [] }
  const registry = createRegistry({ processMetrics: false })
  const { pool } = database
  const arrivals = new Arrivals({ db: pool, clock })
  const told = { onWoken: () => undefined, onStored: () => arrivals.tell() }
  const ingestDeps = { pool, clock, log: silentLog, metrics: ingestMetrics(registry), ...told }
  const apiKeys = new ApiKeys({ pool, clock, log: silentLog })
  const limit = { name: 'none', max: 2, windowMs: 1_000 }
  const server = createServer({
    listen: { host: '127.0.0.1', port: 0 },
    log: silentLog,
    clock,
    registry,
    metrics: registry,
    pool,
    asTenant: tenantStore(pool),
    version: '0.0.0-test',
    docs: true,
    trustedProxies: [],
    rateLimits: { count: async () => [] },
    failedLogins: new FailedLogins({ add: async () => ({ limit, allowed: true, remaining: 1, resetMs: 0 }) }, clock),
    apiKeys,
    authenticators: [apiKeys, ...others],
    secrets: testSecrets,
    idempotencyTtlMs: 24 * 3_600_000,
    sinkRules: webhookRules({ allowPrivate: false, clock }),
    probe: async (subscription) => {
      probe.probed.push(subscription.sink.url)
      return typeof probe.outcome === 'function' ? await probe.outcome() : probe.outcome
    },
    ingest: async (records) => await ingest(records, ingestDeps),
    mismatches: (event, subscription) => {
      const outcome = match(event, subscription)
      return outcome.matched ? [] : outcome.reasons.filter((reason) => reason !== 'tenant')
    },
    arrivals,
    pullMetrics: pullMetrics(registry, () => arrivals.waiting),
    stream: { lag: () => [], topics: () => [] },
    checks: [],
    testWaitMs: null,
    onTest: () => undefined,
    health: {
      windowMs: 720 * 3_600_000,
      autodisable: { enabled: true, windowMs: 120 * 3_600_000, spreadMs: 12 * 3_600_000 },
    },
    stopping: new AbortController().signal,
    upkeepLock: 'upkeep',
    // The machine that runs the tests may have more to do than it can: 0, it is not looked at.
    pressure: { ...PRESSURE, maxEventLoopDelay: 0 },
    ...given,
  })
  await server.api.ready()
  return {
    server,
    database,
    clock,
    probe,
    apiKeys,
    arrivals,
    call: async (request) => await call(server, request),
    [Symbol.asyncDispose]: async () => {
      await server.stop(AbortSignal.abort())
      await database.drop()
    },
  }
}

async function call({ api }: ControlServer, request: Call): Promise<Answer> {
  const { method = 'GET', url, tenant, body, raw, headers = {} } = request
  const response = await api.inject({
    method,
    url,
    headers: {
      ...(tenant !== undefined && { 'x-tenant-id': Buffer.from(tenant).toString('latin1') }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { payload: JSON.stringify(body) }),
    ...(raw !== undefined && { payload: raw }),
  })
  const answer: Answer = {
    status: response.statusCode,
    headers: response.headers,
    text: response.payload,
    body: /json/.test(String(response.headers['content-type'])) ? response.json<unknown>() : response.payload,
  }
  if ('swagger' in api)
    assertDocumented(api.swagger() as unknown as Document, { method, path: url.split('?')[0] ?? '' }, answer)
  return answer
}

interface Document {
  paths: Record<string, Record<string, Operation>>
  components: object
}

interface Operation {
  responses: Record<string, { content?: Record<string, { schema: object }> }>
}

const compiled = new WeakMap<object, ReturnType<typeof Compile>>()

function assertDocumented(document: Document, called: { method: string; path: string }, answer: Answer): void {
  const operation = operationOf(document, called)
  if (!operation) return
  const documented = operation.responses[String(answer.status)]
  const place = `${called.method} ${called.path} ${answer.status}`
  assert(documented, `${place} is not documented: ${answer.text}`)
  const type = String(answer.headers['content-type']).split(';')[0] ?? ''
  const schema = documented.content?.[type]?.schema
  if (answer.text === '' || type === 'text/plain') return
  assert(schema, `${place} is not documented as ${type}`)
  let check = compiled.get(schema)
  if (!check) compiled.set(schema, (check = Compile({ ...schema, components: document.components } as never)))
  if (!check.Check(answer.body)) assert.fail(`${place}: ${JSON.stringify(check.Errors(answer.body))}: ${answer.text}`)
}

function operationOf({ paths }: Document, { method, path }: { method: string; path: string }): Operation | undefined {
  for (const [template, operations] of Object.entries(paths)) {
    if (new RegExp(`^${template.replace(/\{[^}]+\}/g, '[^/]+')}$`).test(path)) return operations[method.toLowerCase()]
  }
  return undefined
}
