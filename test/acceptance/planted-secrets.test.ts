// The grep: a whole hub, with a secret of its own in every place where one can be, through successes and failures of every kind; and
// then a search for each of them, in every form, in all that the hub has said, handed over and stored. To plant one more: a line in
// `before`, where it is used, and one in `secrets`.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { selfSigned } from '../support/certificate.ts'
import { startProgram } from '../support/cli.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { AUDIENCE, keyServer } from '../support/key-server.ts'
import { distinctive, formsOf, leaks, planted, type Haystack, type Place, type Planted } from '../support/planted.ts'
import { startReceiver } from '../support/receiver.ts'
import { uuid7 } from '../support/fixtures.ts'

const TENANT = 'acme'
const KEK = randomBytes(32)
/** Texts that are planted as they are. */
const text = {
  database: distinctive('database'),
  scram: distinctive('scram'),
  redis: distinctive('redis'),
  collector: distinctive('collector'),
  wrongBearer: distinctive('wrong-bearer'),
  wrongKey: `shk_0123456789ab_${distinctive('wrong-key')}`,
  bearer: distinctive('sink-bearer'),
  password: distinctive('sink-password'),
  apiKey: distinctive('sink-api-key'),
  client: distinctive('sink-client-secret'),
  accessToken: distinctive('access-token'),
  header: distinctive('sink-header'),
  query: distinctive('url-query'),
  body: distinctive('event-body'),
}
/** Made by the hub, or of it. */
const made: Record<string, Buffer> = { kek: KEK, 'kek as text': Buffer.from(KEK.toString('base64')) }
const haystacks: Haystack[] = []
const statuses = new Map<number, number>()
const stack = new AsyncDisposableStack()
let database: TestDatabase
let env: Record<string, string>

/** Its owner reads it in the API, and it is what is stored; to everybody else it is nothing. */
const OF_THE_TENANT: readonly Place[] = ['api', 'database']

function secrets(): Planted[] {
  const plain = Object.entries(text).map(([name, value]) =>
    planted(name, value, name === 'query' || name === 'body' ? OF_THE_TENANT : []),
  )
  return [...plain, ...Object.entries(made).map(([name, value]) => planted(name, value))]
}

before(async () => {
  database = await testDatabase()
  const collected: Buffer[] = []
  const collector = createServer(
    (request, response) => void buffer(request).then((body) => (collected.push(body), response.end())),
  )
  await once(collector.listen(0, '127.0.0.1'), 'listening')
  stack.defer(() => void collector.close())
  const issuer = stack.use(await keyServer(Date.now))
  env = {
    STREAMING_HUB_POSTGRES_DSN: await dsnWithPassword(database.dsn),
    // Nobody is there: what it says of that is looked through as well.
    STREAMING_HUB_KAFKA_BROKERS: '127.0.0.1:1',
    STREAMING_HUB_KAFKA_SCRAM_MECHANISM: 'SCRAM-SHA-256',
    STREAMING_HUB_KAFKA_SCRAM_USERNAME: 'hub',
    STREAMING_HUB_KAFKA_SCRAM_PASSWORD: text.scram,
    STREAMING_HUB_REDIS_ADDRESS: '127.0.0.1:1',
    STREAMING_HUB_REDIS_PASSWORD: text.redis,
    STREAMING_HUB_REDIS_TLS: 'false',
    STREAMING_HUB_ALLOW_RATELIMIT_FAIL_OPEN: 'true',
    STREAMING_HUB_RATE_LIMIT_MAX: '100000',
    STREAMING_HUB_AGGRESSIVE_RATE_LIMIT_MAX: '100000',
    STREAMING_HUB_RATE_LIMIT_FAILED_AUTH_MAX: '100000',
    STREAMING_HUB_KEK_REF: 'PLANTED_KEK',
    PLANTED_KEK: KEK.toString('base64'),
    STREAMING_HUB_AUTH_JWKS_URL: issuer.url,
    STREAMING_HUB_AUTH_ISSUER: issuer.issuer,
    STREAMING_HUB_AUTH_AUDIENCE: AUDIENCE,
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    STREAMING_HUB_SWAGGER_ENABLED: 'true',
    STREAMING_HUB_LOG_LEVEL: 'trace',
    STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: '0s',
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    OTEL_EXPORTER_OTLP_HEADERS: `x-api-key=${text.collector}`,
  }
  made['tenant API key'] = await newKey(
    '--tenant',
    TENANT,
    '--scope',
    'subscriptions:read',
    'subscriptions:write',
    'events:read',
    'events:ingest',
  )
  made['admin API key'] = await newKey('--scope', 'admin')
  made['JWT'] = Buffer.from(await issuer.sign({ scope: 'subscriptions:read events:read', tenant_id: TENANT }))
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  const hub = stack.use(startProgram(['serve'], { ...env, STREAMING_HUB_HTTP_LISTEN_ADDR: `127.0.0.1:${port}` }))
  await until(async () => (await fetch(`${url}/healthz`)).ok, `it serves: ${hub.output()}`)
  openapi = await (await fetch(`${url}/openapi.json`)).json()
  await useIt()
  await walkAllRoutes()
  await cutTheDatabase(walkAllRoutes)
  await collect()
  hub.signal('SIGTERM')
  await hub.ended
  hub
    .output()
    .split('\n')
    .forEach((line, at) => haystacks.push({ place: 'log', what: `line ${at}`, text: Buffer.from(line) }))
  collected.forEach((body, at) => haystacks.push({ place: 'trace', what: `export ${at}`, text: body }))
})
after(() => stack.disposeAsync())

test('no secret is found where it must not be', (t) => {
  const all = secrets()
  const count = (place: Place): number => haystacks.filter((haystack) => haystack.place === place).length
  for (const place of ['log', 'trace', 'metrics', 'api', 'cli', 'database'] as const) assert.ok(count(place) > 0, place)
  for (const status of [200, 201, 400, 401, 404, 503]) assert.ok(statuses.has(status), `${status} is among the answers`)
  assert.deepEqual(leaks(all, haystacks), [])
  const forms = all.reduce((sum, { value }) => sum + Object.keys(formsOf(value)).length, 0)
  const answers = [...statuses].map(([status, times]) => `${times} × ${status}`).join(', ')
  t.diagnostic(`${all.length} secrets in ${forms} forms × ${haystacks.length} places: ${count('log')} log lines, ${count('trace')} exports of spans,
    ${count('api')} answers (${answers}), ${count('cli')} commands, ${count('database')} tables, the metrics`)
})

test('a leak of any of them, in any form, anywhere, would have been found', () => {
  for (const secret of secrets())
    for (const [form, written] of Object.entries(formsOf(secret.value))) {
      const place = secret.allowed.includes('api') ? 'log' : 'api'
      const leak = { place, what: 'planted', text: Buffer.from(`…${written}…`, 'latin1') } as const
      assert.ok(leaks([secret], [leak]).length > 0, `${secret.name}, ${form}`)
    }
})

test('what receivers sent back was recorded, without the secrets in it', async () => {
  const { rows } = await database.pool.query<{ response: Buffer }>("select response from attempt where response <> ''")
  assert.ok(rows.some(({ response }) => response.includes('your secret is whsec_***')))
  assert.ok(rows.some(({ response }) => /authorization":"(Bearer|Basic) \*\*\*/.test(response.toString())))
})

/** A user of its own, who logs in by a password that is planted. */
async function dsnWithPassword(dsn: string): Promise<string> {
  const user = `planted_${randomBytes(6).toString('hex')}`
  await database.pool.query(`create role ${user} login superuser password '${text.database}'`)
  // The database that holds what it owns is dropped before.
  stack.defer(async () => await asAdmin((admin) => admin.query(`drop role ${user}`)))
  return Object.assign(new URL(dsn), { username: user, password: text.database }).href
}

async function newKey(...args: string[]): Promise<Buffer> {
  const output = await runCommand(env, 'keys', 'create', '--name', 'planted', ...args)
  // The one place where it is shown.
  const key = /^shk_\S+$/m.exec(output)?.[0] ?? assert.fail(output)
  return Buffer.from(key)
}

async function runCommand(given: Record<string, string>, ...args: string[]): Promise<string> {
  await using program = startProgram(args, given)
  await program.ended
  return program.output()
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
  for (const limit = Date.now() + 60_000; !(await holds().catch(() => false)); await delay(20))
    assert.ok(Date.now() < limit, `never: ${what}`)
}

/** Calls, and keeps all of the answer to be looked through; what is shown there on purpose is cut out first, and planted. */
async function call(
  method: string,
  path: string,
  given: { key?: Buffer; headers?: Record<string, string>; body?: string; shows?: string } = {},
): Promise<{ status: number; json: Record<string, unknown> }> {
  const { key, headers = {}, body, shows } = given
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(key && { authorization: `Bearer ${key.toString()}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    redirect: 'manual',
    ...(body !== undefined && { body }),
  })
  let said = await answer.text()
  const json = said.startsWith('{') ? (JSON.parse(said) as Record<string, unknown>) : {}
  if (shows !== undefined && typeof json['signing_secret'] === 'string') {
    made[shows] = Buffer.from(json['signing_secret'].replace('whsec_', ''), 'base64')
    said = said.replace(json['signing_secret'], '')
  }
  statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
  const what = `${method} ${path} ${answer.status}`
  haystacks.push({
    place: path === '/metrics' ? 'metrics' : 'api',
    what,
    text: Buffer.from(JSON.stringify([...answer.headers]) + said),
  })
  return { status: answer.status, json }
}

const ids = { subscription: '', delivery: '', event: '' }

/** Subscriptions with every kind of credential, to a receiver that sends back all that it gets and knows; events, failures, rotations. */
async function useIt(): Promise<void> {
  const key = made['tenant API key']!
  const answers = { failing: false }
  const receiver = stack.use(
    await startReceiver((response, { headers, body, path }) => {
      if (path === '/token') {
        const token = { access_token: text.accessToken, token_type: 'Bearer', expires_in: 300 }
        return response.setHeader('content-type', 'application/json').end(JSON.stringify(token))
      }
      const challenge = /"challenge":"([^"]+)"/.exec(body.toString())?.[1]
      if (challenge) return response.end(challenge)
      response.statusCode = answers.failing ? 500 : 200
      const own = made[`signing secret ${/^\/(\w+)/.exec(path)?.[1]}`] ?? Buffer.from('')
      return response.end(
        `your secret is whsec_${own.toString('base64')} ${JSON.stringify(headers).replaceAll(text.query, '')}`,
      )
    }),
  )
  const base = `http://127.0.0.1:${receiver.port}`
  const auths = {
    bearer: { kind: 'bearer', token: text.bearer },
    basic: { kind: 'basic', username: 'hub', password: text.password },
    api_key: { kind: 'api_key', header: 'x-receiver-key', value: text.apiKey },
    oauth2: { kind: 'oauth2', token_url: `${base}/token`, client_id: 'hub', client_secret: text.client },
  }
  for (const [name, auth] of Object.entries(auths)) {
    const headers = { 'x-secret': { value: text.header, secret: true }, 'x-plain': 'plain' }
    const sink = { kind: 'webhook', url: `${base}/${name}?token=${text.query}`, headers, auth }
    const body = JSON.stringify({ name, event_types: ['*'], retry_schedule: ['0s'], sink })
    const created = await call('POST', '/v1/subscriptions', { key, body, shows: `signing secret ${name}` })
    assert.equal(created.status, 201, JSON.stringify(created.json))
    ids.subscription = String(created.json['id'])
    await until(
      async () =>
        (await call('GET', `/v1/subscriptions/${ids.subscription}`, { key })).json['verification_state'] === 'active',
      name,
    )
  }
  // One where nobody listens.
  const { cert, key: privateKey } = selfSigned('acme')
  made['private key'] = Buffer.from(privateKey.trim())
  made['middle of the private key'] = Buffer.from(privateKey.split('\n')[2] ?? '')
  const identity = { kind: 'mtls', certificate: cert, private_key: privateKey }
  const dead = { kind: 'webhook', url: `https://127.0.0.1:1/?token=${text.query}`, auth: identity }
  const unreachable = JSON.stringify({ name: 'dead', event_types: ['*'], sink: dead })
  const refused = await call('POST', '/v1/subscriptions', { key, body: unreachable, shows: 'signing secret dead' })
  assert.equal(refused.status, 201, JSON.stringify(refused.json))
  await call('POST', `/v1/subscriptions/${ids.subscription}/rotate-secret`, {
    key,
    body: '{}',
    shows: 'signing secret rotated',
  })
  for (const failing of [false, true]) {
    answers.failing = failing
    ids.event = uuid7()
    await call('POST', '/v1/ingest', {
      key,
      headers: eventHeaders(ids.event),
      body: JSON.stringify({ note: text.body }),
    })
    const ended = async (): Promise<boolean> => (await database.pool.query('select from delivery')).rowCount === 0
    await until(ended, 'all is delivered or given up')
  }
  // What is not well-formed is said to be, and kept.
  await call('POST', '/v1/ingest', {
    key,
    headers: { ...eventHeaders(uuid7()), 'ce-time': 'now' },
    body: JSON.stringify({ note: text.body }),
  })
  const { json } = await call('GET', `/v1/subscriptions/${ids.subscription}/deliveries`, { key })
  ids.delivery = (json['items'] as { id: string }[])[0]!.id
}

function eventHeaders(id: string): Record<string, string> {
  const of = {
    source: 'lender',
    type: 'studio.lerian.lender.loan.approved',
    resourcetype: 'loan',
    eventtype: 'approved',
  }
  const attributes = {
    specversion: '1.0',
    id,
    ...of,
    schemaversion: '1.0.0',
    tenantid: TENANT,
    time: '2026-01-01T00:00:00Z',
  }
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value]))
}

/** Every operation of the document, by everybody: nobody, wrong credentials, a token, the tenant's and the operators' keys. */
async function walkAllRoutes(): Promise<void> {
  const document = openapi as {
    paths: Record<string, Record<string, { requestBody?: { content: Record<string, { example?: unknown }> } }>>
  }
  const callers = {
    nobody: {},
    bearer: { key: Buffer.from(text.wrongBearer) },
    wrong: { headers: { 'x-api-key': text.wrongKey } },
    jwt: { key: made['JWT']! },
    tenant: { key: made['tenant API key']! },
    admin: { key: made['admin API key']! },
  }
  for (const [path, methods] of Object.entries(document.paths)) {
    const kind = path.includes('deliver') ? 'delivery' : path.includes('event') ? 'event' : 'subscription'
    const at = path.replace(/\{[^}]+\}/g, ids[kind])
    for (const method of Object.keys(methods).map((name) => name.toUpperCase())) {
      if (method === 'DELETE') continue
      // A body that is refused, with secrets where they do not belong.
      const values = {
        overlap: text.password,
        name: [text.bearer],
        event_types: text.client,
        reason: { x: text.header },
      }
      const body = method === 'GET' ? {} : { body: JSON.stringify(values) }
      for (const [name, caller] of Object.entries(callers)) {
        await call(method, at, { ...caller, ...body, shows: `signing secret ${name} ${at}` })
        if (method !== 'GET')
          await call(method, at, { ...caller, body: '{}', shows: `signing secret of {} ${name} ${at}` })
      }
    }
  }
}

let openapi: unknown
let url = ''

async function cutTheDatabase(meanwhile: () => Promise<void>): Promise<void> {
  const name = new URL(database.dsn).pathname.slice(1)
  await asAdmin(async (admin) => {
    await admin.query(`alter database ${name} allow_connections false`)
    await admin.query(CUT, [name])
    try {
      await meanwhile()
    } finally {
      await admin.query(`alter database ${name} allow_connections true`)
    }
  })
}

const CUT = 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()'

async function asAdmin(work: (admin: Client) => Promise<unknown>): Promise<void> {
  const admin = new Client({ connectionString: Object.assign(new URL(database.dsn), { pathname: '/postgres' }).href })
  await admin.connect()
  try {
    await work(admin)
  } finally {
    await admin.end()
  }
}

/** The commands, start errors, and the database as text. */
async function collect(): Promise<void> {
  const malformed = {
    ...env,
    STREAMING_HUB_POSTGRES_DSN: `mysql://hub:${text.database}@db/hub`,
    PLANTED_KEK: text.bearer,
    STREAMING_HUB_REDIS_PASSWORD: `${text.redis}\n`,
    STREAMING_HUB_ROLE: 'x',
  }
  const commands: [string, Record<string, string>, string[]][] = [
    ['doctor', env, ['doctor']],
    ['doctor --json', env, ['doctor', '--json']],
    ['keys list', env, ['keys', 'list']],
    ['keys kek', env, ['keys', 'kek']],
    [
      'keys rotate-kek',
      { ...env, PLANTED_KEK: `${randomBytes(32).toString('base64')},${KEK.toString('base64')}` },
      ['keys', 'rotate-kek'],
    ],
    [
      'keys rotate-kek, without the key',
      { ...env, PLANTED_KEK: randomBytes(32).toString('base64') },
      ['keys', 'rotate-kek', '--json'],
    ],
    ['serve, malformed', malformed, ['serve']],
    ['doctor, malformed', malformed, ['doctor']],
    [
      'serve, without its database',
      { ...env, STREAMING_HUB_POSTGRES_DSN: `postgres://hub:${text.database}@127.0.0.1:1/hub` },
      ['keys', 'list'],
    ],
  ]
  for (const [what, given, args] of commands)
    haystacks.push({ place: 'cli', what, text: Buffer.from(await runCommand(given, ...args)) })
  const { rows } = await database.pool.query<{ name: string }>(
    "select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'",
  )
  for (const { name } of rows) {
    const { rows: all } = await database.pool.query<{ row: string }>(`select t::text as row from ${name} t`)
    haystacks.push({ place: 'database', what: name, text: Buffer.from(all.map(({ row }) => row).join('\n')) })
  }
}
