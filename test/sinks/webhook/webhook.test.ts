import { after, before, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createServer, type AddressInfo, type LookupFunction, type Socket } from 'node:net'
import tls from 'node:tls'
import { Webhook } from 'standardwebhooks'
import { silentLog } from '../../../src/base/log.ts'
import { newSigningSecret } from '../../../src/secrets/secrets.ts'
import type { FailureClass, Outcome, Sink } from '../../../src/sinks/sink.ts'
import { createWebhookSink, type WebhookSinkOptions } from '../../../src/sinks/webhook/webhook.ts'
import { selfSigned } from '../../support/certificate.ts'
import { anEvent } from '../../support/fixtures.ts'
import { neverAnswer, startReceiver, type Answer, type ReceivedRequest, type Receiver } from '../../support/receiver.ts'
import { conformance } from '../conformance.ts'
import { awkwardBodies } from './awkward-bodies.ts'
import { aDestination, anAttempt } from './destination.ts'

const never = new AbortController().signal

describe('a delivery', () => {
  test('is one POST to the URL with its query, and with every header of the contract', async () => {
    await using to = await setUp()
    const destination = aDestination(`${to.receiver.url}?a=b%20c#part`, { headers: { 'X-Env': 'prod' } })
    const event = anEvent({ traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` })
    const attempt = anAttempt(destination, { event, number: 2 })
    const outcome = await to.sink.deliver(attempt, never)
    assert.deepEqual(outcome, { kind: 'delivered', status: 200, response: Buffer.from('ok') })
    assert.equal(to.receiver.requests.length, 1)
    const [request] = to.receiver.requests
    assert.equal(`${request?.method} ${request?.path}`, 'POST /hook?a=b%20c')
    const {
      connection: _,
      host: __,
      'x-lerian-signature': own,
      'webhook-signature': ___,
      ...headers
    } = request!.headers
    assert.match(own as string, /^t=\d+,v1=[0-9a-f]{64}$/)
    assert.deepEqual(headers, {
      'content-type': 'application/json',
      'content-length': String(event.data?.length),
      'user-agent': 'streaming-hub/1.2.3',
      'x-env': 'prod',
      'x-lerian-event-id': event.id,
      'x-lerian-delivery-id': attempt.attemptId,
      'x-lerian-event-type': 'loan.approved',
      'x-lerian-attempt': '2',
      'x-lerian-timestamp': new Date(attempt.now).toISOString(),
      'webhook-id': event.id,
      'webhook-timestamp': String(Math.floor(attempt.now / 1000)),
      'ce-specversion': '1.0',
      'ce-id': event.id,
      'ce-source': 'lender',
      'ce-type': 'studio.lerian.lender.loan.approved',
      traceparent: `00-${'a'.repeat(32)}-${attempt.attemptId.slice(-17).replace('-', '')}-01`,
    })
  })

  for (const [what, data] of Object.entries(awkwardBodies)) {
    test(`brings ${what} identical to the receiver`, async () => {
      await using to = await setUp()
      const outcome = await to.sink.deliver(
        anAttempt(aDestination(to.receiver.url), { event: anEvent({ data }) }),
        never,
      )
      assert.equal(outcome.kind, 'delivered')
      assert.ok(to.receiver.requests[0]?.body.equals(data))
      assert.equal(to.receiver.requests[0]?.headers['content-length'], String(data.length))
    })
  }

  test('is verified by the public Standard Webhooks library, in either mode', async () => {
    await using to = await setUp()
    const { text, key } = newSigningSecret()
    for (const contentMode of ['binary', 'structured'] as const) {
      const signingKeys = [{ key, expiresAt: null }]
      await to.sink.deliver(anAttempt(aDestination(to.receiver.url, { contentMode, signingKeys })), never)
      const { body, headers } = to.receiver.requests.at(-1)!
      const verified = new Webhook(text).verify(body, headers as Record<string, string>)
      assert.deepEqual(verified, JSON.parse(body.toString()))
    }
  })

  test('of an event without data is an envelope', async () => {
    await using to = await setUp()
    await to.sink.deliver(anAttempt(aDestination(to.receiver.url), { event: anEvent({ data: null }) }), never)
    assert.equal(to.receiver.requests[0]?.headers['content-type'], 'application/cloudevents+json')
    assert.match(to.receiver.requests[0]?.body.toString() ?? '', /^{"specversion":"1.0",.*}$/)
  })
})

describe('an answer', () => {
  for (const status of [200, 201, 202, 204, 299]) {
    test(`${status} is a success`, async () => {
      const outcome = await outcomeOf((response) => response.writeHead(status).end())
      assert.equal(outcome.kind, 'delivered')
      assert.equal(outcome.status, status)
    })
  }

  for (const status of [400, 401, 404, 410, 429, 500, 503, 599]) {
    test(`${status} is a failure, with its first bytes`, async () => {
      const outcome = await outcomeOf((response) => response.writeHead(status).end('because'))
      assertFailed(outcome, 'http_status')
      assert.equal(outcome.status, status)
      assert.equal(outcome.response.toString(), 'because')
    })
  }

  for (const status of [300, 301, 302, 303, 304, 307, 308]) {
    test(`${status} is a redirect and is not followed`, async () => {
      await using elsewhere = await startReceiver()
      const outcome = await outcomeOf((response) => response.writeHead(status, { location: elsewhere.url }).end())
      assertFailed(outcome, 'redirect')
      assert.equal(outcome.status, status)
      assert.equal(elsewhere.connections, 0)
    })
  }

  test('that is only informational is waited beyond', async () => {
    const outcome = await outcomeOf((response) => {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' })
      response.writeHead(201).end()
    })
    assert.equal(outcome.status, 201)
  })

  test('has its Retry-After kept on 429 and 503, and on nothing else', async () => {
    for (const [status, kept] of [
      [429, '120'],
      [503, '120'],
      [500, null],
      [404, null],
    ] as const) {
      const outcome = await outcomeOf((response) => response.writeHead(status, { 'retry-after': '120' }).end())
      assertFailed(outcome, 'http_status')
      assert.equal(outcome.retryAfter, kept, String(status))
    }
  })

  test('of more than 4 KiB is cut, and its connection still used again', async () => {
    await using to = await setUp((response) => {
      response.write(Buffer.alloc(5_000, 'x'))
      setTimeout(() => response.end('the rest, in a packet of its own'), 5)
    })
    for (let i = 0; i < 6; i++) {
      const outcome = await to.sink.deliver(anAttempt(aDestination(to.receiver.url)), never)
      assert.ok(outcome.response.equals(Buffer.alloc(4096, 'x')))
    }
    // Two, since a connection is ready again only a moment after its answer.
    assert.ok(to.receiver.connections <= 2, `${to.receiver.connections} connections`)
  })

  test('without an end loses its connection, and is a success all the same', async () => {
    const closed = Promise.withResolvers<number>()
    const outcome = await outcomeOf((response) => {
      const { socket } = response
      response.on('close', () => closed.resolve(socket?.bytesWritten ?? 0))
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384, 'x')));
      }
      response.on('drain', more)
      more()
    })
    // What the sockets' buffers on both sides hold is far less.
    assert.ok((await closed.promise) < 32 << 20)
    assert.equal(outcome.kind, 'delivered')
    assert.ok(outcome.response.equals(Buffer.alloc(4096, 'x')))
  })

  test('whose body does not come is decided by its status, with what has come', async () => {
    const closed = Promise.withResolvers<void>()
    const outcome = await outcomeOf((response) => {
      response.on('close', closed.resolve)
      response.writeHead(200, { 'content-length': '100' }).write('a part')
    })
    await closed.promise
    assert.deepEqual(outcome, { kind: 'delivered', status: 200, response: Buffer.from('a part') })
  })

  test('that breaks off in its body is decided by its status too', async () => {
    const outcome = await outcomeOf((response) => {
      response.writeHead(500, { 'content-length': '100' }).write('a part', () => response.destroy())
    })
    assertFailed(outcome, 'http_status')
    assert.equal(outcome.status, 500)
  })
})

describe('a failure before an answer', () => {
  test('is a time-out when the headers do not come', async () => {
    await using to = await setUp(neverAnswer)
    const outcome = await to.sink.deliver(anAttempt(aDestination(to.receiver.url, { timeoutMs: 50 })), never)
    assertFailed(outcome, 'timeout')
    assert.equal(outcome.status, null)
  })

  test('is a time-out when the headers come for ever', async () => {
    await using server = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      const drip = setInterval(() => socket.write('x'), 5)
      socket.on('close', () => clearInterval(drip))
    })
    const outcome = await deliverTo(server.url, {}, 60)
    assertFailed(outcome, 'timeout')
  })

  test('is a time-out when the name is never resolved', async () => {
    assertFailed(await deliverTo('http://slow.example/', { lookup: () => undefined }, 50), 'timeout')
  })

  test('is of the connection when nobody listens', async () => {
    const gone = await startReceiver()
    await gone[Symbol.asyncDispose]()
    const outcome = await deliverTo(gone.url)
    assertFailed(outcome, 'connection')
    assert.match(outcome.detail, /ECONNREFUSED/)
  })

  test('is of the connection when it is cut, or answered in no HTTP', async () => {
    for (const answer of [
      (socket: Socket) => socket.destroy(),
      (socket: Socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
      (socket: Socket) => socket.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`),
    ]) {
      await using server = await rawServer(answer)
      const outcome = await deliverTo(server.url)
      assertFailed(outcome, 'connection')
      assert.doesNotMatch(outcome.detail, /OpenSSH/)
    }
  })

  test('is of the name when it does not resolve', async () => {
    assertFailed(await deliverTo('http://nowhere.example/', { lookup: resolvesNot }), 'dns')
  })

  test('is of TLS when the other side speaks none', async () => {
    await using receiver = await startReceiver()
    assertFailed(await deliverTo(receiver.url.replace('http:', 'https:')), 'tls')
  })

  test('is of the settings when they cannot be used', async () => {
    await using to = await setUp()
    const { url } = to.receiver
    const unusable = [
      aDestination('not a url'),
      aDestination('ftp://example.com/'),
      aDestination(url.replace('http://', 'http://user:pw@')),
      aDestination(url, { signingKeys: [] }),
      aDestination(url, { signingKeys: [{ key: Buffer.alloc(32), expiresAt: 1 }] }),
      aDestination(url, { headers: { 'x-a': 'b\r\nx-evil: 1' } }),
      aDestination(url, { headers: { 'a b': 'c' } }),
    ]
    for (const destination of unusable) {
      assertFailed(await to.sink.deliver(anAttempt(destination), never), 'invalid_destination')
    }
    assert.equal(to.receiver.requests.length, 0)
  })

  test('is nobody’s when the hub ends the attempt while it waits', async () => {
    const abort = new AbortController()
    await using to = await setUp(() => abort.abort())
    const outcome = await to.sink.deliver(anAttempt(aDestination(to.receiver.url)), abort.signal)
    assertFailed(outcome, 'aborted')
  })
})

describe('over TLS', () => {
  const certificate = selfSigned('hooks.example')

  before(() => tls.setDefaultCACertificates([certificate.cert]))
  after(() => tls.setDefaultCACertificates(tls.getCACertificates('bundled')))

  test('an event is delivered to a host whose certificate is trusted, by name and by address', async () => {
    await using receiver = await startReceiver(undefined, { tls: certificate })
    const lookup = resolvesTo([{ address: '127.0.0.1', family: 4 }])
    for (const host of ['hooks.example', '127.0.0.1']) {
      const outcome = await deliverTo(`https://${host}:${receiver.port}/`, { lookup })
      assert.equal(outcome.kind, 'delivered', JSON.stringify(outcome))
    }
  })

  test('nothing is sent to a host whose certificate is for another name', async () => {
    await using receiver = await startReceiver(undefined, { tls: certificate })
    const lookup = resolvesTo([{ address: '127.0.0.1', family: 4 }])
    assertFailed(await deliverTo(`https://other.example:${receiver.port}/`, { lookup }), 'tls')
    assert.equal(receiver.requests.length, 0)
  })

  test('nothing is sent to a host whose certificate is not trusted', async () => {
    await using receiver = await startReceiver(undefined, { tls: selfSigned('hooks.example') })
    assertFailed(await deliverTo(receiver.url), 'tls')
    assert.equal(receiver.requests.length, 0)
  })

  test('a refused address is not connected to, however good its certificate', async () => {
    await using receiver = await startReceiver(undefined, { tls: certificate })
    const lookup = resolvesTo([{ address: '127.0.0.1', family: 4 }])
    const url = `https://hooks.example:${receiver.port}/`
    assertFailed(await deliverTo(url, { lookup, allowPrivate: false }), 'refused_address')
    assert.equal(receiver.connections, 0)
  })
})

describe('a refused address', () => {
  const IPV4 = { address: '127.0.0.1', family: 4 }
  const IPV6 = { address: '::1', family: 6 }
  const MAPPED = { address: '::ffff:127.0.0.1', family: 6 }
  const names: Record<string, { address: string; family: number }[]> = {
    'an IPv4 address': [IPV4],
    'an IPv6 address': [IPV6],
    'an IPv4-mapped address': [MAPPED],
    'several, tried one after the other': [IPV6, IPV4, { address: '127.0.0.2', family: 4 }, MAPPED],
    'one that the listener has on any interface': [
      { address: '0.0.0.0', family: 4 },
      { address: '::', family: 6 },
    ],
  }

  for (const [what, addresses] of Object.entries(names)) {
    for (const scheme of ['https', 'http']) {
      test(`is not connected to by a name that leads to ${what}, over ${scheme}`, async () => {
        await using receiver = await startReceiver(undefined, { host: '::' })
        const url = `${scheme}://rebinding.example:${receiver.port}/`
        assertFailed(await deliverTo(url, { allowPrivate: false, lookup: resolvesTo(addresses) }), refusal(scheme))
        assert.equal(receiver.connections, 0)
      })
    }

    test(`would have been reached by that name without the guard: ${what}`, async () => {
      await using receiver = await startReceiver(undefined, { host: '::' })
      const url = `http://rebinding.example:${receiver.port}/`
      assert.equal((await deliverTo(url, { lookup: resolvesTo(addresses) })).kind, 'delivered')
    })
  }

  for (const host of [
    '127.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '0.0.0.0',
    '2130706433',
    'localhost',
  ]) {
    test(`is not connected to as ${host} itself`, async () => {
      await using receiver = await startReceiver(undefined, { host: '::' })
      assertFailed(await deliverTo(`https://${host}:${receiver.port}/`, { allowPrivate: false }), 'refused_address')
      assert.equal(receiver.connections, 0)
    })
  }

  test('is judged anew at every attempt: a name that was refused is looked up again', async () => {
    let lookups = 0
    const lookup: LookupFunction = (name, options, done) => {
      lookups++
      resolvesTo([IPV4])(name, options, done)
    }
    await using sink = disposable(createWebhookSink({ ...options, allowPrivate: false, lookup }))
    for (let i = 0; i < 3; i++) {
      assertFailed(await sink.deliver(anAttempt(aDestination('https://changing.example/')), never), 'refused_address')
    }
    assert.equal(lookups, 3)
  })

  test('is never said', async () => {
    await using receiver = await startReceiver()
    const outcomes = await Promise.all(
      [receiver.port, 1].map((port) => deliverTo(`https://127.0.0.1:${port}/`, { allowPrivate: false })),
    )
    assert.deepEqual(outcomes[0], outcomes[1], 'whether something listens there makes no difference')
    assert.doesNotMatch(JSON.stringify(outcomes), /127\.0/)
  })
})

describe('a probe', () => {
  for (const [how, answer] of Object.entries({ 'as text': echo, 'as JSON': echoJson })) {
    test(`works when the challenge comes back ${how}`, async () => {
      const { outcome } = await probed(answer)
      assert.equal(outcome.kind, 'delivered')
    })
  }

  test('is signed like any event and says what it is', async () => {
    const { text, key } = newSigningSecret()
    const { request } = await probed(echo, { signingKeys: [{ key, expiresAt: null }], headers: { 'x-env': 'prod' } })
    const { challenge, ...body } = new Webhook(text).verify(
      request.body,
      request.headers as Record<string, string>,
    ) as Challenge
    assert.match(challenge, /^[\w-]{32}$/)
    assert.deepEqual(body, { type: 'hub.verification', subscription_id: '019e2686-0000-7000-8000-00000000000a' })
    assert.equal(request.headers['x-lerian-event-type'], 'hub.verification')
    assert.equal(request.headers['content-type'], 'application/json')
    assert.equal(request.headers['x-env'], 'prod')
  })

  test('fails when the answer is a success that does not send it back', async () => {
    const { outcome } = await probed((response) => response.end('ok'))
    assertFailed(outcome, 'http_status')
    assert.equal(outcome.status, 200)
    assert.match(outcome.detail, /challenge/)
  })

  test('fails when it comes back with a failure', async () => {
    const { outcome } = await probed((response, request) => {
      response.statusCode = 500
      echo(response, request)
    })
    assertFailed(outcome, 'http_status')
    assert.equal(outcome.status, 500)
  })
})

conformance('the webhook', async () => {
  const receivers = {
    accepts: await startReceiver(),
    fails: await startReceiver((response) => response.writeHead(500).end()),
    hangs: await startReceiver(neverAnswer),
    absent: await startReceiver(),
  }
  await receivers.absent[Symbol.asyncDispose]()
  const sink = createWebhookSink(options)
  return {
    sink,
    destination: (behaviour) => aDestination(behaviour === 'unusable' ? 'nowhere' : receivers[behaviour].url),
    taken: () => receivers.accepts.requests.map(({ body }) => body),
    [Symbol.asyncDispose]: async () => {
      for (const name of ['accepts', 'fails', 'hangs'] as const) await receivers[name][Symbol.asyncDispose]()
      await sink.close()
    },
  }
})

interface Challenge {
  challenge: string
}

function challengeOf({ body }: ReceivedRequest): string {
  return (JSON.parse(body.toString()) as Challenge).challenge
}

function echo(response: ServerResponse, request: ReceivedRequest): void {
  response.end(challengeOf(request))
}

function echoJson(response: ServerResponse, request: ReceivedRequest): void {
  response.end(JSON.stringify({ challenge: challengeOf(request) }))
}

const options: WebhookSinkOptions = { allowPrivate: true, userAgentVersion: '1.2.3', log: silentLog }

/** Plain http is no usable destination where private addresses are not allowed, whatever it leads to. */
function refusal(scheme: string): FailureClass {
  return scheme === 'https' ? 'refused_address' : 'invalid_destination'
}

async function setUp(answer?: Answer): Promise<{ sink: Sink; receiver: Receiver } & AsyncDisposable> {
  const receiver = await startReceiver(answer)
  const sink = createWebhookSink(options)
  return {
    sink,
    receiver,
    [Symbol.asyncDispose]: async () => {
      await receiver[Symbol.asyncDispose]()
      await sink.close()
    },
  }
}

async function outcomeOf(answer: Answer): Promise<Outcome> {
  await using to = await setUp(answer)
  return await to.sink.deliver(anAttempt(aDestination(to.receiver.url)), never)
}

async function deliverTo(
  url: string,
  given: Partial<WebhookSinkOptions> = {},
  timeoutMs: number = 10_000,
): Promise<Outcome> {
  await using sink = disposable(createWebhookSink({ ...options, ...given }))
  return await sink.deliver(anAttempt(aDestination(url, { timeoutMs })), never)
}

async function probed(answer: Answer, given: Parameters<typeof aDestination>[1] = {}) {
  await using to = await setUp(answer)
  const destination = aDestination(to.receiver.url, given)
  const outcome = await to.sink.probe(
    { destination, attemptId: anAttempt(destination).attemptId, now: Date.now() },
    never,
  )
  return { outcome, request: to.receiver.requests[0]! }
}

function disposable(sink: Sink): Sink & AsyncDisposable {
  return { ...sink, [Symbol.asyncDispose]: () => sink.close() }
}

async function rawServer(answer: (socket: Socket) => void): Promise<{ url: string } & AsyncDisposable> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    socket.once('data', () => answer(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const resolvesNot: LookupFunction = (_, __, done) => {
  done(Object.assign(new Error('no'), { code: 'ENOTFOUND', syscall: 'getaddrinfo' }), '')
}

function resolvesTo(addresses: { address: string; family: number }[]): LookupFunction {
  return (_, { all }, done) => {
    if (all) return done(null, addresses)
    const [first] = addresses
    done(null, first?.address ?? '', first?.family)
  }
}

function assertFailed(outcome: Outcome, errorClass: FailureClass): asserts outcome is Outcome & { kind: 'failed' } {
  assert.equal(outcome.kind, 'failed')
  assert.equal((outcome as { errorClass: string }).errorClass, errorClass, (outcome as { detail: string }).detail)
}
