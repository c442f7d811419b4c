import { describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { silentLog } from '../../../src/base/log.ts'
import type { WebhookAuth } from '../../../src/event/subscription.ts'
import type { Destination, Outcome, Sink } from '../../../src/sinks/sink.ts'
import { createWebhookSink } from '../../../src/sinks/webhook/webhook.ts'
import { uuid7 } from '../../support/fixtures.ts'
import { neverAnswer, startReceiver, type Answer, type Receiver } from '../../support/receiver.ts'
import { aDestination, anAttempt } from './destination.ts'

const never = new AbortController().signal
const NOW = Date.parse('2026-05-14T13:00:00Z')

type OAuth2 = Extract<WebhookAuth, { kind: 'oauth2' }>

describe('an access token', () => {
  test('is asked for by the client credentials grant, and goes with the delivery and with the probe', async () => {
    await using to = await setUp()
    const destination = to.destination({
      client_id: 'h u:b',
      client_secret: 's+e c',
      scope: 'a b',
      audience: 'https://x/',
    })
    assert.equal((await to.deliver(destination)).kind, 'delivered')
    await to.sink.probe({ destination, attemptId: uuid7(), now: NOW }, never)
    const [asked] = to.endpoint.requests
    assert.equal(to.endpoint.requests.length, 1)
    assert.equal(asked?.method, 'POST')
    assert.equal(asked.headers['content-type'], 'application/x-www-form-urlencoded')
    // The id and the secret are form-encoded before they are joined: RFC 6749, 2.3.1.
    assert.equal(asked.headers.authorization, `Basic ${Buffer.from('h+u%3Ab:s%2Be+c').toString('base64')}`)
    assert.equal(asked.headers['user-agent'], 'streaming-hub/1.2.3')
    assert.equal(asked.body.toString(), 'grant_type=client_credentials&scope=a+b&audience=https%3A%2F%2Fx%2F')
    assert.deepEqual(to.shown(), ['Bearer token-1', 'Bearer token-1'])
  })

  test('is asked for with the secret in the body where that is wanted', async () => {
    await using to = await setUp()
    await to.deliver(to.destination({ auth_method: 'client_secret_post' }))
    const [asked] = to.endpoint.requests
    assert.equal(asked?.headers.authorization, undefined)
    assert.equal(asked?.body.toString(), 'grant_type=client_credentials&client_id=hub&client_secret=s3cr3t')
  })

  test('is asked for once by all who need it at the same time', async () => {
    await using to = await setUp()
    const destinations = Array.from({ length: 50 }, () => to.destination())
    const outcomes = await Promise.all(destinations.map((destination) => to.deliver(destination)))
    assert.deepEqual(new Set(outcomes.map(({ kind }) => kind)), new Set(['delivered']))
    assert.equal(to.endpoint.requests.length, 1)
    assert.deepEqual(new Set(to.shown()), new Set(['Bearer token-1']))
  })

  const differences: [string, Partial<OAuth2>, Partial<Destination>][] = [
    ['tenant', {}, { tenantId: 'other' }],
    ['secret', { client_secret: 'other' }, {}],
    ['client', { client_id: 'other' }, {}],
    ['scope', { scope: 'other' }, {}],
    ['audience', { audience: 'other' }, {}],
    ['way to ask', { auth_method: 'client_secret_post' }, {}],
  ]
  for (const [what, auth, given] of differences) {
    test(`is never another ${what}'s`, async () => {
      await using to = await setUp()
      await to.deliver(to.destination())
      await to.deliver({ ...to.destination(auth), ...given })
      await to.deliver(to.destination())
      assert.deepEqual(to.shown(), ['Bearer token-1', 'Bearer token-2', 'Bearer token-1'])
    })
  }

  /** What the endpoint says of its life, and for how long it is used, in seconds. */
  const lives: [unknown, number][] = [
    [3600, 3570],
    [100, 90],
    ['3600', 3570],
    [undefined, 54],
    [null, 54],
    ['soon', 54],
    [1e12, 86_370],
    [0, 0],
    [-5, 0],
  ]
  for (const [expires_in, seconds] of lives) {
    test(`that lives for ${JSON.stringify(expires_in)} s is used for ${seconds} s`, async () => {
      await using to = await setUp({ token: { expires_in } })
      const destination = to.destination()
      await to.deliver(destination, NOW)
      if (seconds > 0) await to.deliver(destination, NOW + seconds * 1000 - 1)
      assert.equal(to.endpoint.requests.length, 1)
      await to.deliver(destination, NOW + seconds * 1000)
      assert.equal(to.endpoint.requests.length, 2)
      assert.equal(to.shown().at(-1), 'Bearer token-2')
    })
  }

  test('that cannot be renewed is used until it runs out', async () => {
    await using to = await setUp()
    const destination = to.destination()
    await to.deliver(destination, NOW)
    to.answer = (response) => response.writeHead(503).end()
    assert.equal((await to.deliver(destination, NOW + 3_599_000)).kind, 'delivered')
    assertFailed(await to.deliver(destination, NOW + 3_600_000), /answers 503/)
  })

  test('that the receiver refuses is given up: the next delivery asks for another one, once', async () => {
    await using to = await setUp({ receive: (response) => response.writeHead(401).end() })
    const destination = to.destination()
    const outcomes = await Promise.all([1, 2, 3].map(() => to.deliver(destination)))
    for (const outcome of outcomes) assert.equal(outcome.status, 401)
    assert.equal(to.endpoint.requests.length, 1, 'no attempt asks again by itself')
    await Promise.all([1, 2, 3].map(() => to.deliver(destination)))
    assert.equal(to.endpoint.requests.length, 2)
    assert.deepEqual(new Set(to.shown().slice(3)), new Set(['Bearer token-2']))
  })

  test('is kept by any other refusal', async () => {
    await using to = await setUp({ receive: (response) => response.writeHead(403).end() })
    await to.deliver(to.destination())
    await to.deliver(to.destination())
    assert.equal(to.endpoint.requests.length, 1)
  })
})

describe('an endpoint that gives no token', () => {
  const answers: [string, Answer, RegExp][] = [
    [
      'refuses',
      json(401, { error: 'invalid_client', error_description: 'planted' }),
      /answers 401 \(invalid_client\)\.$/,
    ],
    ['answers with an error of its own', json(400, { error: 'planted\r\nx' }), /answers 400\.$/],
    ['is broken', (response) => response.writeHead(500).end('planted'), /answers 500\.$/],
    ['redirects', (response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(), /answers 307\.$/],
    ['answers with no JSON', (response) => response.end('<html>planted</html>'), /holds no access_token\.$/],
    ['answers with a list', (response) => response.end('["planted"]'), /holds no access_token\.$/],
    ['answers without a token', json(200, { token: 'planted' }), /holds no access_token\.$/],
    ['answers with an empty token', json(200, { access_token: '' }), /holds no access_token\.$/],
    ['answers with a number', json(200, { access_token: 5 }), /holds no access_token\.$/],
    ['smuggles a header in', json(200, { access_token: 'planted\r\nx-evil: 1' }), /holds no access_token\.$/],
    ['smuggles a second word in', json(200, { access_token: 'planted x' }), /holds no access_token\.$/],
    ['answers with a token too long', json(200, { access_token: 'p'.repeat(8193) }), /holds no access_token\.$/],
    [
      'answers without an end',
      (response) => void response.write('{"access_token":"planted'),
      /holds no access_token\.$/,
    ],
    ['answers with far too much', (response) => response.end(' '.repeat(1 << 20)), /holds no access_token\.$/],
    ['gives another kind', json(200, { access_token: 'planted', token_type: 'mac' }), /is no bearer token\.$/],
    ['cuts the connection', (response) => response.destroy(), /the connection failed/],
  ]
  for (const [what, answer, detail] of answers) {
    test(`fails the delivery, which never reaches the receiver: it ${what}`, async () => {
      await using to = await setUp({ answer })
      assertFailed(await to.deliver(to.destination()), detail)
      assert.equal(to.receiver.connections, 0)
      to.answer = null
      assert.equal((await to.deliver(to.destination())).kind, 'delivered', 'the failure is not kept')
    })
  }

  test('takes no longer than the attempt may, and the token that comes late serves the next one', async () => {
    await using to = await setUp()
    const asked = Promise.withResolvers<() => void>()
    to.answer = (response) => asked.resolve(() => response.end('{"access_token":"late"}'))
    assertFailed(await to.deliver({ ...to.destination(), timeoutMs: 50 }), /gave no token within 50 ms\.$/)
    const next = to.deliver(to.destination())
    const reply = await asked.promise
    reply()
    assert.equal((await next).kind, 'delivered')
    assert.deepEqual(to.shown(), ['Bearer late'])
    assert.equal(to.endpoint.requests.length, 1)
  })

  test('does not keep an attempt that is broken off, nor the hub’s end', async () => {
    await using to = await setUp({ answer: neverAnswer })
    const stop = new AbortController()
    const outcomes = [to.deliver(to.destination(), NOW, stop.signal), to.deliver(to.destination())]
    stop.abort()
    const first = await outcomes[0]
    assert.ok(first?.kind === 'failed' && first.errorClass === 'aborted')
    await to.sink.close()
    const second = await outcomes[1]
    assert.ok(second?.kind === 'failed' && second.errorClass === 'aborted')
  })

  test('is not connected to where no receiver would be', async () => {
    await using to = await setUp({ allowPrivate: false })
    const refused = ['https://127.0.0.1/', 'https://169.254.169.254/latest/meta-data', 'https://[::ffff:10.0.0.1]/t']
    for (const token_url of refused) {
      const outcome = await to.deliver(to.destination({ token_url }, 'https://example.com/'))
      assert.ok(outcome.kind === 'failed')
      assert.equal(outcome.errorClass, 'refused_address', token_url)
      assert.doesNotMatch(outcome.detail, /127|169|10\.0/)
    }
    for (const token_url of [to.endpoint.url, 'https://u:p@example.com/', 'ftp://example.com/', 'nonsense']) {
      const outcome = await to.deliver(to.destination({ token_url }, 'https://example.com/'))
      assert.ok(outcome.kind === 'failed')
      assert.equal(outcome.errorClass, 'invalid_destination', token_url)
    }
    assert.equal(to.endpoint.connections, 0)
  })
})

interface SetUp extends AsyncDisposable {
  sink: Sink
  receiver: Receiver
  endpoint: Receiver
  /** What the endpoint answers in place of a new token. */
  answer: Answer | null
  destination(auth?: Partial<OAuth2>, url?: string): Destination
  deliver(destination: Destination, now?: number, signal?: AbortSignal): Promise<Outcome>
  /** What the receiver was shown. */
  shown(): (string | undefined)[]
}

async function setUp(
  given: { answer?: Answer; receive?: Answer; token?: object; allowPrivate?: boolean } = {},
): Promise<SetUp> {
  let issued = 0
  const endpoint = await startReceiver((response, request) => {
    if (to.answer) return to.answer(response, request)
    const token = { access_token: `token-${++issued}`, token_type: 'Bearer', expires_in: 3600, ...given.token }
    response.end(JSON.stringify(token))
  })
  const receiver = await startReceiver(given.receive)
  const sink = createWebhookSink({
    allowPrivate: given.allowPrivate ?? true,
    userAgentVersion: '1.2.3',
    log: silentLog,
  })
  const to: SetUp = {
    sink,
    receiver,
    endpoint,
    answer: given.answer ?? null,
    destination: (auth, url = receiver.url) =>
      aDestination(url, {
        auth: { kind: 'oauth2', token_url: endpoint.url, client_id: 'hub', client_secret: 's3cr3t', ...auth },
      }),
    deliver: (destination, now = NOW, signal = never) => sink.deliver(anAttempt(destination, { now }), signal),
    shown: () => receiver.requests.map(({ headers }) => headers.authorization),
    [Symbol.asyncDispose]: async () => {
      await sink.close()
      await receiver[Symbol.asyncDispose]()
      await endpoint[Symbol.asyncDispose]()
    },
  }
  return to
}

function json(status: number, body: object): Answer {
  return (response) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function assertFailed(outcome: Outcome, detail: RegExp): void {
  assert.ok(outcome.kind === 'failed')
  assert.equal(outcome.errorClass, 'auth_failed')
  assert.match(outcome.detail, /^The token endpoint gave no token.*\.$/)
  assert.match(outcome.detail, detail)
  assert.doesNotMatch(outcome.detail + outcome.response.toString(), /planted|s3cr3t/)
}
