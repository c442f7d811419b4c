import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import * as fc from 'fast-check'
import { silentLog } from '../../src/base/log.ts'
import { destinationCache } from '../../src/dispatch/destination-cache.ts'
import type { SinkSettings } from '../../src/event/subscription.ts'
import type { ClaimedLane } from '../../src/store/lanes.ts'
import { authority } from '../support/certificate.ts'
import { subscribe, type CreatedSubscription } from '../support/api.ts'
import { testControl, testSecrets, type Answer, type TestControl } from '../support/control.ts'
import { assertFaults } from '../support/problems.ts'
import { scriptedSink } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

const url = 'https://core.example.com/hooks'

const clients = authority('clients.test')
const [own, another] = [clients.issue('acme'), clients.issue('acme')]

/** Each kind: what is sent, and what reads back. */
const kinds: { auth: Record<string, string>; secret: string }[] = [
  { auth: { kind: 'bearer', token: 'planted-token' }, secret: 'token' },
  { auth: { kind: 'basic', username: 'hub ü', password: 'planted pass: word ü' }, secret: 'password' },
  { auth: { kind: 'api_key', header: 'X-Api-Key', value: 'planted-value' }, secret: 'value' },
  {
    auth: {
      kind: 'oauth2',
      token_url: 'https://login.example.com/token',
      client_id: 'hub',
      client_secret: 'planted-secret',
      scope: 'a b',
      audience: 'https://core.example.com',
      auth_method: 'client_secret_post',
    },
    secret: 'client_secret',
  },
  { auth: { kind: 'mtls', certificate: own.cert, private_key: own.key, ca: clients.cert }, secret: 'private_key' },
]

/** What must be stored and shown nowhere: the names of secrets above, and any line of the key. */
const PLANTED = new RegExp(`planted|PRIVATE KEY|${own.key.split('\n')[1]?.slice(0, 30).replaceAll('+', '\\+')}`)

async function create(sink: object): Promise<CreatedSubscription> {
  return await subscribe(control, 'acme', { sink: { kind: 'webhook', url, ...sink } })
}

async function post(sink: object): Promise<Answer> {
  const body = { name: 'x', event_types: ['*'], sink: { kind: 'webhook', url, ...sink } }
  return await control.call({ method: 'POST', url: '/v1/subscriptions', tenant: 'acme', body })
}

async function patch(id: string, body: object): Promise<Answer> {
  return await control.call({ method: 'PATCH', url: `/v1/subscriptions/${id}`, tenant: 'acme', body })
}

async function changed(id: string, body: object): Promise<Record<string, unknown>> {
  const answer = await patch(id, body)
  assert.equal(answer.status, 200, answer.text)
  return answer.body as Record<string, unknown>
}

async function read(id: string): Promise<{ sink: Record<string, unknown>; verification_state: string }> {
  const answer = await control.call({ url: `/v1/subscriptions/${id}`, tenant: 'acme' })
  return answer.body as { sink: Record<string, unknown>; verification_state: string }
}

/** A replica's cache, which is asked as a claim does it: with the version of the lane. */
function replica(): (id: string) => Promise<SinkSettings> {
  const destinationOf = destinationCache({
    pool: control.database.pool,
    secrets: testSecrets,
    sinks: { webhook: scriptedSink() },
    clock: control.clock,
    log: silentLog,
  })
  return async (id) => {
    const { rows } = await control.database.pool.query('select version from lane where subscription_id = $1', [id])
    const lane = { subscriptionId: id, version: (rows[0] as { version: number }).version } as ClaimedLane
    return (await destinationOf(lane)).destination.sink
  }
}

async function fieldsOf(id: string): Promise<string[]> {
  const { rows } = await control.database.pool.query<{ field: string }>(
    'select field from subscription_secret where subscription_id = $1 order by field',
    [id],
  )
  return rows.map(({ field }) => field)
}

/** Everything of the database that the control plane wrote, as text. */
async function everythingStored(): Promise<string> {
  const { rows } = await control.database.pool.query('select to_json(s) as row from subscription s')
  const secrets = await control.database.pool.query('select to_json(s) as row from subscription_secret s')
  return JSON.stringify([rows, secrets.rows])
}

describe('credentials of a sink', () => {
  for (const { auth, secret } of kinds) {
    test(`of the kind ${auth['kind']} are write-only, and reach what sends`, async () => {
      const answer = await post({ auth })
      assert.equal(answer.status, 201, answer.text)
      assert.doesNotMatch(answer.text, PLANTED)
      const { id } = answer.body as CreatedSubscription
      assert.deepEqual((await read(id)).sink['auth'], { ...auth, [secret]: '***' })
      assert.doesNotMatch(await everythingStored(), PLANTED)
      assert.deepEqual(await fieldsOf(id), ['signing_secret', `sink.auth.${secret}`])
      assert.deepEqual((await replica()(id)).auth, auth)
    })

    test(`of the kind ${auth['kind']} stay when what was read is sent back, and go with null`, async () => {
      const { id } = await create({ auth })
      const { sink } = await read(id)
      await changed(id, { sink })
      await changed(id, { name: 'renamed' })
      await changed(id, { sink: { auth: { [secret]: '***' } } })
      await changed(id, { sink: { url: `${url}/elsewhere?a=b` } })
      assert.deepEqual((await replica()(id)).auth, auth)
      const removed = await changed(id, { sink: { auth: null } })
      assert.equal((removed['sink'] as { auth: unknown }).auth, null)
      assert.deepEqual(await fieldsOf(id), ['signing_secret'])
      assert.equal((await replica()(id)).auth, null)
    })

    test(`of the kind ${auth['kind']} must be given anew after another one`, async () => {
      const { id } = await create({ auth: auth['kind'] === 'bearer' ? kinds[1]?.auth : kinds[0]?.auth })
      assertFaults(await patch(id, { sink: { auth: { ...auth, [secret]: '***' } } }), [`/sink/auth/${secret}`])
      assertFaults(await post({ auth: { ...auth, [secret]: '***' } }), [`/sink/auth/${secret}`])
      await changed(id, { sink: { auth } })
      assert.deepEqual(await fieldsOf(id), ['signing_secret', `sink.auth.${secret}`])
      assert.deepEqual((await replica()(id)).auth, auth)
    })
  }

  for (const { auth, secret } of kinds.slice(0, -1)) {
    test(`of the kind ${auth['kind']} must be given anew for another host`, async () => {
      const { id } = await create({ auth })
      const elsewhere = { url: 'https://thief.example.net/hooks' }
      assertFaults(await patch(id, { sink: elsewhere }), [`/sink/auth/${secret}`])
      await changed(id, { sink: { ...elsewhere, auth: { [secret]: 'other' } } })
      assert.deepEqual((await replica()(id)).auth, { ...auth, [secret]: 'other' })
    })
  }

  test('that change are used with the next claim, on every replica', async () => {
    const { id } = await create({
      auth: { kind: 'bearer', token: 'one' },
      headers: { 'x-t': { value: 'a', secret: true } },
    })
    const replicas = [replica(), replica()]
    for (const settingsOf of replicas) assert.deepEqual((await settingsOf(id)).auth, { kind: 'bearer', token: 'one' })
    await changed(id, { sink: { auth: { token: 'two' }, headers: { 'x-t': { value: 'b' } } } })
    for (const settingsOf of replicas) {
      const { auth, headers } = await settingsOf(id)
      assert.deepEqual(auth, { kind: 'bearer', token: 'two' })
      assert.deepEqual(headers, { 'x-t': { value: 'b', secret: true } })
    }
  })

  test('that change do not ask for a new verification, another address does', async () => {
    const { id } = await create({ auth: { kind: 'bearer', token: 'one' } })
    assert.equal((await read(id)).verification_state, 'active')
    const other = await changed(id, { sink: { auth: { kind: 'basic', username: 'u', password: 'p' } } })
    assert.equal(other['verification_state'], 'active')
    const moved = await changed(id, { sink: { url: `${url}/other` } })
    assert.equal(moved['verification_state'], 'pending')
    await control.server.settled()
  })

  test('are gone with the subscription', async () => {
    const { id } = await create({ auth: kinds[0]?.auth, headers: { 'x-t': { value: 'v', secret: true } } })
    assert.equal((await fieldsOf(id)).length, 3)
    await control.call({ method: 'DELETE', url: `/v1/subscriptions/${id}`, tenant: 'acme' })
    assert.deepEqual(await fieldsOf(id), [])
  })

  test('of another tenant cannot be changed, nor kept', async () => {
    const { id } = await create({ auth: kinds[0]?.auth })
    const body = { sink: { auth: { token: 'stolen' } } }
    const answer = await control.call({ method: 'PATCH', url: `/v1/subscriptions/${id}`, tenant: 'other', body })
    assert.equal(answer.status, 404)
    assert.deepEqual((await replica()(id)).auth, kinds[0]?.auth)
  })

  test('that are refused change nothing, whatever else was asked for', async () => {
    const { id } = await create({ auth: kinds[0]?.auth })
    const body = { sink: { auth: { token: 'new' }, headers: { host: 'x' } } }
    assertFaults(await patch(id, body), ['/sink/headers/host'])
    assert.deepEqual((await replica()(id)).auth, kinds[0]?.auth)
  })

  const faults: [string, unknown, string[]][] = [
    ['no kind', { token: 'x' }, ['/sink/auth/kind']],
    ['an unknown kind', { kind: 'digest', token: 'x' }, ['/sink/auth/kind']],
    ['no object', 'Bearer x', ['/sink/auth']],
    ['a list', [], ['/sink/auth']],
    ['no token', { kind: 'bearer' }, ['/sink/auth/token']],
    ['an empty token', { kind: 'bearer', token: '' }, ['/sink/auth/token']],
    ['a token that ends its header', { kind: 'bearer', token: 'a\r\nx: y' }, ['/sink/auth/token']],
    ['a token of two words', { kind: 'bearer', token: 'Bearer x' }, ['/sink/auth/token']],
    ['a field of another kind', { kind: 'bearer', token: 'x', password: 'y' }, ['/sink/auth/password']],
    ['a user name with a colon', { kind: 'basic', username: 'a:b', password: 'x' }, ['/sink/auth/username']],
    ['no password', { kind: 'basic', username: 'a', password: '' }, ['/sink/auth/password']],
    ['a password with a line end', { kind: 'basic', username: 'a', password: 'x\n' }, ['/sink/auth/password']],
    ['a reserved header', { kind: 'api_key', header: 'Webhook-Id', value: 'x' }, ['/sink/auth/header']],
    ['the connection’s header', { kind: 'api_key', header: 'proxy-x', value: 'x' }, ['/sink/auth/header']],
    ['no header name', { kind: 'api_key', header: 'a b', value: 'x' }, ['/sink/auth/header']],
    ['a value with a space', { kind: 'api_key', header: 'x-key', value: 'x ' }, ['/sink/auth/value']],
  ]
  for (const [what, auth, paths] of faults) {
    test(`have their faults told: ${what}`, async () => assertFaults(await post({ auth }), paths))
  }

  const oauth2 = { kind: 'oauth2', token_url: 'https://login.example.com/', client_id: 'hub', client_secret: 'x' }
  const oauth2Faults: [string, object, string][] = [
    ['plain http', { token_url: 'http://login.example.com/' }, 'token_url'],
    ['a metadata service', { token_url: 'https://169.254.169.254/latest' }, 'token_url'],
    ['a private address', { token_url: 'https://[::ffff:10.0.0.1]/' }, 'token_url'],
    ['this host', { token_url: 'https://localhost/token' }, 'token_url'],
    ['credentials in the URL', { token_url: 'https://u:p@login.example.com/' }, 'token_url'],
    ['no URL', { token_url: 'login' }, 'token_url'],
    ['an empty client', { client_id: '' }, 'client_id'],
    ['a client with a line end', { client_id: 'a\n' }, 'client_id'],
    ['no secret', { client_secret: '' }, 'client_secret'],
    ['a scope with two spaces', { scope: 'a  b' }, 'scope'],
    ['a scope with quotes', { scope: 'a "b"' }, 'scope'],
    ['an empty audience', { audience: '' }, 'audience'],
    ['another way to ask', { auth_method: 'private_key_jwt' }, 'auth_method'],
  ]
  for (const [what, given, field] of oauth2Faults) {
    test(`have their faults told: a token endpoint with ${what}`, async () => {
      assertFaults(await post({ auth: { ...oauth2, ...given } }), [`/sink/auth/${field}`])
    })
  }

  test('of a token endpoint must be given anew for another endpoint, and its options can be taken back', async () => {
    const { id } = await create({ auth: { ...oauth2, scope: 'a', audience: null } })
    const elsewhere = { token_url: 'https://thief.example.net/' }
    assertFaults(await patch(id, { sink: { auth: elsewhere } }), ['/sink/auth/client_secret'])
    await changed(id, { sink: { auth: { token_url: `${oauth2.token_url}v2`, scope: null } } })
    const { audience: _, ...auth } = (await replica()(id)).auth as Record<string, unknown>
    assert.deepEqual(auth, { ...oauth2, token_url: `${oauth2.token_url}v2` })
  })

  const mtls = { kind: 'mtls', certificate: own.cert, private_key: own.key }
  const expired = clients.issue('acme', [2020, 2021])
  const mtlsFaults: [string, object, string[]][] = [
    ['another certificate’s key', { private_key: another.key }, ['private_key']],
    ['a certificate that has run out', { certificate: expired.cert, private_key: expired.key }, ['certificate']],
    ['an authority that has run out', { certificate: own.cert + expired.cert }, ['certificate']],
    ['no certificate', { certificate: 'planted' }, ['certificate']],
    ['a broken certificate', { certificate: own.cert.replace(/[A-Z]{3}/g, 'AAA') }, ['certificate']],
    ['its key beside the certificate', { certificate: own.cert + own.key }, ['certificate']],
    ['no key', { private_key: 'planted' }, ['private_key']],
    ['a certificate for a key', { private_key: own.cert }, ['private_key']],
    ['an encrypted key', { private_key: own.key.replaceAll('PRIVATE', 'ENCRYPTED PRIVATE') }, ['private_key']],
    ['no authority', { ca: 'planted' }, ['ca']],
    ['everything wrong', { certificate: 'x', private_key: 'x', ca: 'x' }, ['certificate', 'private_key', 'ca']],
    ['too much', { certificate: own.cert.repeat(100) }, ['certificate']],
  ]
  for (const [what, given, fields] of mtlsFaults) {
    test(`have their faults told: a client certificate with ${what}`, async () => {
      const answer = await post({ auth: { ...mtls, ...given } })
      assertFaults(
        answer,
        fields.map((field) => `/sink/auth/${field}`),
      )
      assert.doesNotMatch(answer.text, PLANTED)
    })
  }

  test('of a client certificate may be a chain with words around it, and need no plain http', async () => {
    const chain = `subject=CN=acme\n${own.cert}\nissuer\r\n${clients.cert}`
    assert.equal((await post({ auth: { ...mtls, certificate: chain } })).status, 201)
    assertFaults(await post({ url: 'http://core.example.com/', auth: mtls }), ['/sink/url'])
  })

  test('of a client certificate stay for another host, and not for another certificate', async () => {
    const { id } = await create({ auth: mtls })
    await changed(id, { sink: { url: 'https://moved.example.com/', auth: { ca: clients.cert } } })
    assert.deepEqual((await replica()(id)).auth, { ...mtls, ca: clients.cert })
    assertFaults(await patch(id, { sink: { auth: { certificate: another.cert } } }), ['/sink/auth/private_key'])
    await changed(id, { sink: { auth: { certificate: another.cert, private_key: another.key } } })
    assert.equal(((await replica()(id)).auth as typeof mtls).private_key, another.key)
  })

  test('take their header for themselves', async () => {
    const headers = { Authorization: { value: 'x', secret: true }, 'x-key': 'y' }
    assertFaults(await post({ auth: kinds[0]?.auth, headers }), ['/sink/headers/Authorization'])
    const auth = { kind: 'api_key', header: 'X-KEY', value: 'x' }
    assertFaults(await post({ auth, headers }), ['/sink/headers/x-key'])
  })
})

test('whatever a sink holds comes back as it was given, when what is read is sent back', async () => {
  const visible = fc.stringMatching(/^[\x21-\x7e]{1,40}$/).filter((text) => text !== '***')
  const secret = fc.record({ value: visible, secret: fc.constant(true) })
  const header = fc.stringMatching(/^x-[a-z0-9!#$%&'*+.^_`|~-]{1,20}$/).filter((name) => !name.startsWith('x-lerian'))
  const headers = fc.dictionary(header, fc.oneof(visible, secret), { maxKeys: 6 })
  const auth = fc.oneof(
    fc.constant(null),
    fc.record({ kind: fc.constant('bearer'), token: visible }),
    fc.record({ kind: fc.constant('basic'), username: visible.map((u) => u.replaceAll(':', '')), password: visible }),
    fc.record({ kind: fc.constant('api_key'), header: fc.constant('x-the-key'), value: visible }),
  )
  await fc.assert(fc.asyncProperty(fc.record({ headers, auth }), roundTrip), { numRuns: 40 })
})

async function roundTrip(sink: { headers: object; auth: object | null }): Promise<void> {
  const { id } = await create(sink)
  const settingsOf = replica()
  const answer = await control.call({ url: `/v1/subscriptions/${id}`, tenant: 'acme' })
  const { name, sink: shown } = answer.body as { name: string; sink: object }
  await changed(id, { name: `${name}, renamed`, sink: shown })
  const { headers, auth } = await settingsOf(id)
  assert.equal(JSON.stringify({ headers, auth }), JSON.stringify(sink))
}

describe('a secret header', () => {
  test('is write-only, stays when it is sent back, changes, and goes', async () => {
    const planted = { value: 'planted-header', secret: true }
    const { id } = await create({ headers: { 'x-env': 'prod', 'X-Token': planted } })
    const { sink } = await read(id)
    assert.deepEqual(sink['headers'], { 'x-env': 'prod', 'X-Token': { value: '***', secret: true } })
    assert.doesNotMatch(await everythingStored(), /planted/)
    await changed(id, { sink })
    await changed(id, { sink: { headers: { 'x-env': 'test' } } })
    assert.deepEqual((await replica()(id)).headers, { 'x-env': 'test', 'X-Token': planted })
    await changed(id, { sink: { headers: { 'X-Token': { value: 'other' } } } })
    assert.deepEqual((await replica()(id)).headers['X-Token'], { value: 'other', secret: true })
    await changed(id, { sink: { headers: { 'X-Token': null } } })
    assert.deepEqual((await replica()(id)).headers, { 'x-env': 'test' })
    assert.deepEqual(await fieldsOf(id), ['signing_secret'])
  })

  test('keeps its secret in another letter case, and gives it to no other name', async () => {
    const { id } = await create({ headers: { 'X-Token': { value: 'v', secret: true } } })
    const kept = { value: '***', secret: true }
    await changed(id, { sink: { headers: { 'X-Token': null, 'x-token': kept } } })
    assert.deepEqual((await replica()(id)).headers, { 'x-token': { value: 'v', secret: true } })
    const renamed = { 'x-token': null, 'x-other': kept }
    assertFaults(await patch(id, { sink: { headers: renamed } }), ['/sink/headers/x-other/value'])
  })

  test('cannot be made readable, nor be replaced by its mask', async () => {
    const { id } = await create({ headers: { 'x-token': { value: 'v', secret: true } } })
    assertFaults(await patch(id, { sink: { headers: { 'x-token': { secret: false } } } }), ['/sink/headers/x-token'])
    assertFaults(await patch(id, { sink: { headers: { 'x-token': '***' } } }), ['/sink/headers/x-token'])
    assertFaults(await patch(id, { sink: { headers: { 'x-plain': { value: 'x' } } } }), ['/sink/headers/x-plain'])
    await changed(id, { sink: { headers: { 'x-token': 'now readable' } } })
    assert.deepEqual((await replica()(id)).headers, { 'x-token': 'now readable' })
    assert.deepEqual(await fieldsOf(id), ['signing_secret'])
  })

  test('stays whatever becomes of the authentication beside it', async () => {
    const headers = { 'x-token': { value: 'v', secret: true } }
    const { id } = await create({ headers })
    for (const { auth } of [...kinds, { auth: null }]) {
      await changed(id, { sink: { auth } })
      assert.deepEqual((await replica()(id)).headers, headers)
    }
  })

  test('must be given anew for another host', async () => {
    const { id } = await create({ headers: { 'x-token': { value: 'v', secret: true } } })
    const { sink } = await read(id)
    const elsewhere = { ...sink, url: 'https://core.example.com:8443/hooks' }
    assertFaults(await patch(id, { sink: elsewhere }), ['/sink/headers/x-token/value'])
    await changed(id, { sink: { url: elsewhere.url, headers: { 'x-token': null } } })
    assert.deepEqual((await replica()(id)).headers, {})
  })
})
