import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { errorCatalogue } from '../../src/base/errors.ts'
import type { Authenticator } from '../../src/control/auth/authenticate.ts'
import { problemOf } from '../../src/control/problems.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

const json = { 'content-type': 'application/json' }

describe('every error is a problem', () => {
  test('a path that there is not', async () => {
    assertProblem(await control.call({ url: '/' }), 404, 'not_found')
    assertProblem(await control.call({ method: 'POST', url: '/v1/nothing', body: {} }), 404, 'not_found')
  })

  test('a path with another method', async () => {
    const answer = await control.call({ method: 'DELETE', url: '/v1/subscriptions?limit=1' })
    assertProblem(answer, 405, 'method_not_allowed')
    assert.equal(answer.headers['allow'], 'GET, HEAD, POST')
    const id = '/v1/subscriptions/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'
    assertProblem(await control.call({ method: 'POST', url: id, body: {} }), 405, 'method_not_allowed')
  })

  test('a path that is no URL', async () => {
    assertProblem(await control.call({ url: '/v1/subscriptions/%zz' }), 400, 'invalid_request')
    assertProblem(await control.call({ url: `/v1/subscriptions/${'x'.repeat(5000)}` }), 400, 'invalid_request')
  })

  test('malformed JSON, with the place', async () => {
    const url = '/v1/subscriptions'
    const answer = await control.call({ method: 'POST', url, headers: json, raw: '{"name": }' })
    const { errors } = assertProblem(answer, 400, 'invalid_request')
    assert.equal(errors[0]?.path, '')
    assert.match(errors[0].message, /Unexpected token '}'/)
    assertFaults(await control.call({ method: 'POST', url, headers: json, raw: '{"__proto__": {}}' }), ['/__proto__'])
    assertFaults(await control.call({ method: 'POST', url, headers: json, raw: '' }), [''])
    assertFaults(await control.call({ method: 'POST', url, headers: json, raw: 'null' }), [''])
    assertFaults(await control.call({ method: 'POST', url }), [''])
  })

  test('another content type', async () => {
    const headers = { 'content-type': 'application/xml' }
    const answer = await control.call({ method: 'POST', url: '/v1/subscriptions', headers, raw: '<a/>' })
    assertProblem(answer, 415, 'unsupported_media_type')
  })

  test('a body that is too large', async () => {
    const answer = await control.call({ method: 'POST', url: '/v1/subscriptions', body: { name: 'x'.repeat(300_000) } })
    assertProblem(answer, 413, 'payload_too_large')
  })

  test('a tenant that is none', async () => {
    for (const tenant of ['', ' ', 'x'.repeat(257), 'a\u0085']) {
      assertFaults(await control.call({ url: '/v1/subscriptions', tenant }), ['x-tenant-id'])
    }
    assertFaults(await control.call({ url: '/v1/subscriptions', headers: { 'x-tenant-id': '\u00ff' } }), [
      'x-tenant-id',
    ])
  })

  test('what is no HTTP', async () => {
    await using own = await testControl()
    await own.server.start()
    const socket = connect(own.server.address().port, '127.0.0.1')
    socket.end('NONSENSE\r\n\r\n')
    const answer = await text(socket)
    assert.match(answer, /^HTTP\/1\.1 400 Bad Request\r\ncontent-type: application\/problem\+json\r\n/)
    assert.equal((JSON.parse(answer.split('\r\n\r\n')[1] ?? '') as { code: string }).code, 'invalid_request')
  })

  test('a failure of the hub, whose message stays inside', async () => {
    await using own = await testControl({
      stream: {
        lag: () => {
          throw new Error('s3cr3t')
        },
        topics: () => [],
      },
    })
    const answer = await own.call({ url: '/admin/lag' })
    assertProblem(answer, 500, 'internal')
    assert.ok(!answer.text.includes('s3cr3t'))
  })

  test('a database that is away: 503, and when to come again', async () => {
    await using own = await testControl()
    await own.database.drop()
    const answer = await own.call({ url: '/v1/subscriptions' })
    assertProblem(answer, 503, 'unavailable')
    assert.ok(Number(answer.headers['retry-after']) > 0)
  })

  test('each code has its own status, so that both say the same; but for those of idempotency keys', () => {
    const others = Object.entries(errorCatalogue).filter(([code]) => !code.startsWith('idempotency_'))
    const statuses = others.map(([, { status }]) => status)
    assert.equal(new Set(statuses).size, statuses.length)
  })

  test('a connection error of the database is not taken for a failure of the hub', () => {
    const refused = Object.assign(new AggregateError([Object.assign(new Error('x'), { code: 'ECONNREFUSED' })]), {})
    for (const error of [
      refused,
      new Error('timeout exceeded when trying to connect'),
      Object.assign(new Error('x'), { code: '57P01' }),
    ]) {
      assert.equal(problemOf(error, 'id').code, 'unavailable')
    }
    for (const error of [Object.assign(new Error('x'), { code: '42601' }), new Error('x'), 'x', null]) {
      assert.equal(problemOf(error, 'id').code, 'internal')
    }
  })
})

describe('request ids', () => {
  test('the caller’s own is kept when it is harmless, else one is made', async () => {
    const given = await control.call({ url: '/healthz', headers: { 'x-request-id': 'abc-1.2_3' } })
    assert.equal(given.headers['x-request-id'], 'abc-1.2_3')
    const bad = await control.call({ url: '/healthz', headers: { 'x-request-id': 'a b"c' } })
    assert.match(String(bad.headers['x-request-id']), /^[0-9a-f-]{36}$/)
  })
})

const accepting = (name: string, scopes: string[]): Authenticator => ({
  name,
  authenticate: async ({ headers }) =>
    headers.authorization === name
      ? { kind: 'api_key', id: name, tenantId: 'acme', isConfined: false, name, scopes: new Set(scopes) as never }
      : null,
})

describe('authentication', () => {
  test('the first authenticator that finds its credential decides; none: 401; without the scope: 403', async () => {
    await using own = await testControl({
      authenticators: [accepting('reader', ['subscriptions:read']), accepting('operator', ['admin'])],
    })
    const call = async (url: string, authorization?: string) =>
      await own.call({ url, ...(authorization && { headers: { authorization } }) })
    assertProblem(await call('/v1/subscriptions'), 401, 'unauthenticated')
    assertProblem(await call('/v1/subscriptions', 'nobody'), 401, 'unauthenticated')
    assert.equal((await call('/v1/subscriptions', 'reader')).status, 200)
    assertProblem(await call('/v1/subscriptions', 'operator'), 403, 'forbidden')
    assertProblem(await call('/admin/quarantine', 'reader'), 403, 'forbidden')
    assert.equal((await call('/admin/quarantine', 'operator')).status, 200)
    assert.equal((await call('/healthz')).status, 200)
  })

  test('without any authenticator nobody gets in', async () => {
    await using own = await testControl({ authenticators: [] })
    assertProblem(await own.call({ url: '/v1/subscriptions', tenant: 'acme' }), 401, 'unauthenticated')
  })

  test('a body is not even read before the caller is known', async () => {
    await using own = await testControl({ authenticators: [] })
    const answer = await own.call({ method: 'POST', url: '/v1/subscriptions', headers: json, raw: '{' })
    assertProblem(answer, 401, 'unauthenticated')
  })
})
