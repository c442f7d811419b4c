import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { after, before, beforeEach, describe, test } from 'node:test'
import { silentLog } from '../../../src/base/log.ts'
import { createAuthentication, type Authentication } from '../../../src/control/auth/kinds.ts'
import { testControl, type Answer, type Call, type TestControl } from '../../support/control.ts'
import { keyServer, type KeyServer } from '../../support/key-server.ts'
import { keyOf } from '../../support/keys.ts'
import { assertProblem } from '../../support/problems.ts'

const LIST = '/v1/subscriptions'
const YES = { status: 200, body: '{"authorized": true}' }

interface Asked {
  method: string | undefined
  url: string | undefined
  authorization: string | undefined
  question: unknown
}

let service: Server
let address: string
let authentication: Authentication
let control: TestControl
let issuer: KeyServer
/** What the service is asked, and what it answers; null: nothing, and it hangs up. */
let asked: Asked[]
let answer: { status: number; body: string } | null

before(async () => {
  service = createServer((request, response) => void serve(request, response))
  await once(service.listen(0, '127.0.0.1'), 'listening')
  address = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
  control = await testControl({}, [{ name: 'plugin', authenticate: async (...given) => await decide(...given) }])
  issuer = await keyServer(() => control.clock.now())
  const { database, clock } = control
  const settings = {
    open: false,
    jwt: null,
    plugin: { address: `${address}/`, tenantClaim: 'tenant_id' },
    tenantId: 'house',
  }
  authentication = createAuthentication(settings, { pool: database.pool, clock, log: silentLog })
})
after(async () => {
  await authentication.close()
  await control[Symbol.asyncDispose]()
  await issuer[Symbol.asyncDispose]()
  service.closeAllConnections()
  service.close()
})
beforeEach(() => {
  asked = []
  answer = YES
})

const decide: Authentication['authenticators'][number]['authenticate'] = async (request, scope) =>
  (await authentication.authenticators.at(-1)?.authenticate(request, scope)) ?? null

const call = async (token: string, given: Partial<Call> = {}): Promise<Answer> =>
  await control.call({ url: LIST, ...given, headers: { authorization: `Bearer ${token}`, ...given.headers } })

describe('the authorization service', () => {
  test('is asked as agreed: the caller’s token, who, what and how', async () => {
    const token = await issuer.sign({})
    assert.equal((await call(token)).status, 200)
    assert.deepEqual(asked, [
      {
        method: 'POST',
        url: '/v1/authorize',
        authorization: `Bearer ${token}`,
        question: { sub: 'ada', resource: 'subscriptions', action: 'read' },
      },
    ])
    asked = []
    await call('opaque', { url: '/admin/tenants' })
    await call('opaque', { url: '/admin/breakers/x/reset', method: 'POST' })
    await call('opaque', { url: '/v1/ingest', method: 'POST' })
    await call('opaque', { url: '/v1/events/019e2713-6fe4-7f94-a675-6d1a78280ce9' })
    assert.deepEqual(
      asked.map(({ question }) => question),
      [
        { sub: 'streaming-hub', resource: 'admin', action: 'read' },
        { sub: 'streaming-hub', resource: 'admin', action: 'write' },
        { sub: 'streaming-hub', resource: 'events', action: 'ingest' },
        { sub: 'streaming-hub', resource: 'events', action: 'read' },
      ],
    )
  })

  test('lets in by a 2xx with authorized: true, and by nothing else', async () => {
    answer = { status: 201, body: '{"authorized": true, "timestamp": "2026-01-01T00:00:00Z"}' }
    assert.equal((await call('opaque')).status, 200)
    assertProblem(await answered({ status: 200, body: '{"authorized": false}' }), 403, 'forbidden')
    assertProblem(await answered({ status: 403, body: '{"authorized": true}' }), 403, 'forbidden')
    assertProblem(await answered({ status: 401, body: '{"authorized": true}' }), 401, 'unauthenticated')
  })

  test('lets nobody in when it cannot be asked, or answers what was not agreed', async () => {
    const bad = [
      null,
      { status: 204, body: '' },
      ...[302, 307, 400, 404, 409, 429, 500, 502, 503].map((status) => ({ status, body: '{"authorized": true}' })),
      ...[
        '',
        'true',
        'null',
        '[]',
        '{}',
        '{"authorized": "true"}',
        '{"authorized": 1}',
        '{"authorised": true}',
        '{"authorized": true',
      ].map((body) => ({ status: 200, body })),
      { status: 200, body: `{"authorized": true, "x": "${'x'.repeat(100_000)}"}` },
    ]
    for (const one of bad) {
      const refused = await answered(one)
      assertProblem(refused, 503, 'unavailable')
      assert.ok(Number(refused.headers['retry-after']) > 0)
    }
  })

  test('is not asked about a request without a token, nor about an API key', async () => {
    assertProblem(await control.call({ url: LIST }), 401, 'unauthenticated')
    const { headers } = await keyOf(control, 'acme')
    assert.equal((await control.call({ url: LIST, headers })).status, 200)
    assertProblem(
      await control.call({ url: LIST, headers: { authorization: `${headers.authorization}x` } }),
      401,
      'unauthenticated',
    )
    assert.deepEqual(asked, [])
  })
})

describe('the tenant of a caller that it lets in', () => {
  test('is the token’s; else that of the installation', async () => {
    assert.equal(await made(await issuer.sign({ tenant_id: 'acme' })), 'acme')
    assert.equal(await made(await issuer.sign({ tenant_id: undefined })), 'house')
    assert.equal(await made('opaque'), 'house')
    assertProblem(await call(await issuer.sign({ tenant_id: ['acme'] })), 401, 'unauthenticated')
  })
})

test('a service that cannot be reached at all lets nobody in', async () => {
  const settings = {
    open: false,
    jwt: null,
    plugin: { address: 'http://127.0.0.1:1', tenantClaim: 'tenant_id' },
    tenantId: 'house',
  }
  const { database, clock } = control
  const away = createAuthentication(settings, { pool: database.pool, clock, log: silentLog })
  await using closed = await testControl({}, [away.authenticators.at(-1)!])
  assertProblem(await closed.call({ url: LIST, headers: { authorization: 'Bearer opaque' } }), 503, 'unavailable')
  await away.close()
})

async function answered(one: typeof answer): Promise<Answer> {
  answer = one
  return await call('opaque')
}

/** The tenant that a subscription gets which the token's bearer makes. */
async function made(token: string): Promise<string> {
  const body = {
    name: token.slice(-20),
    event_types: ['*'],
    sink: { kind: 'webhook', url: 'https://a.example.com/' },
  }
  const { status, text } = await call(token, { method: 'POST', body, headers: { 'x-tenant-id': 'globex' } })
  assert.equal(status, 201, text)
  const { rows } = await control.database.pool.query<{ tenant_id: string }>(
    'select tenant_id from subscription where name = $1',
    [body.name],
  )
  return rows[0]!.tenant_id
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url, headers } = request
  asked.push({ method, url, authorization: headers.authorization, question: await json(request) })
  if (answer === null) return void request.socket.destroy()
  response.writeHead(answer.status, { 'content-type': 'application/json', location: '/elsewhere' }).end(answer.body)
}
