import { after, before, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import type { ServerOptions } from 'node:https'
import tls from 'node:tls'
import { silentLog } from '../../../src/base/log.ts'
import type { WebhookAuth } from '../../../src/event/subscription.ts'
import type { Destination, Sink } from '../../../src/sinks/sink.ts'
import { ClientAgents } from '../../../src/sinks/webhook/client-agents.ts'
import type { ClientIdentity } from '../../../src/sinks/webhook/client-certificate.ts'
import { createWebhookSink } from '../../../src/sinks/webhook/webhook.ts'
import { authority, type Certificate } from '../../support/certificate.ts'
import { uuid7 } from '../../support/fixtures.ts'
import { startReceiver, type Receiver } from '../../support/receiver.ts'
import { aDestination, anAttempt } from './destination.ts'

const never = new AbortController().signal
const clients = authority('clients.test')
const servers = authority('servers.test')
const others = authority('others.test')
const [acme, globex] = [clients.issue('acme'), clients.issue('globex')]

type MutualTls = Extract<WebhookAuth, { kind: 'mtls' }>

function mtls({ cert, key }: Certificate, ca: string | null = servers.cert): MutualTls {
  return { kind: 'mtls', certificate: cert, private_key: key, ca }
}

// As if it were one of the public ones.
before(() => tls.setDefaultCACertificates([servers.cert]))
after(() => tls.setDefaultCACertificates(tls.getCACertificates('bundled')))

describe('a receiver that asks for a client certificate', () => {
  test('is shown the subscription’s, by deliveries and by probes', async () => {
    await using to = await setUp()
    const destination = to.destination(mtls(acme))
    assert.equal((await to.deliver(destination)).kind, 'delivered')
    await to.sink.probe({ destination, attemptId: uuid7(), now: Date.now() }, never)
    assert.deepEqual(to.seen(), ['acme', 'acme'])
  })

  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`never sees one subscription’s certificate, connection or session from another: ${maxVersion}`, async () => {
      await using to = await setUp({ maxVersion })
      const destinations = [
        to.destination(mtls(acme)),
        to.destination(mtls(globex), { tenantId: 'globex' }),
        // The same certificate, but another subscription's.
        to.destination(mtls(acme)),
      ]
      for (const destination of [...destinations, ...destinations, ...destinations]) {
        assert.equal((await to.deliver(destination)).kind, 'delivered')
      }
      const three = ['acme', 'globex', 'acme']
      assert.deepEqual(to.seen(), [...three, ...three, ...three])
      assert.ok(to.receiver.connections >= 3)
    })
  }

  test('sees no certificate from a subscription without one, before and after those that have one', async () => {
    await using to = await setUp({ rejectUnauthorized: false })
    const [own, none] = [to.destination(mtls(acme, null)), to.destination()]
    for (const destination of [none, own, none, own, none]) await to.deliver(destination)
    assert.deepEqual(to.seen(), [null, 'acme', null, 'acme', null])
  })

  test('sees a new certificate with the next attempt', async () => {
    await using to = await setUp()
    const destination = to.destination(mtls(acme))
    await to.deliver(destination)
    const renewed = { ...destination, sink: { ...destination.sink, auth: mtls(globex) } }
    await to.deliver(renewed)
    await to.deliver(renewed)
    assert.deepEqual(to.seen(), ['acme', 'globex', 'globex'])
  })

  test('of one subscription keeps its connection for the next request', async () => {
    await using to = await setUp()
    const destination = to.destination(mtls(acme))
    for (let i = 0; i < 10; i++) await to.deliver(destination)
    assert.ok(to.receiver.connections < 10)
    assert.equal(new Set(to.seen()).size, 1)
  })

  const refused: [string, MutualTls | undefined, ServerOptions][] = [
    ['where none is shown', undefined, {}],
    ['of another authority', mtls(others.issue('acme')), {}],
    ['that has run out', mtls(clients.issue('acme', [2020, 2021])), {}],
    ['where none is shown, in TLS 1.2', undefined, { maxVersion: 'TLSv1.2' }],
    ['of another authority, in TLS 1.2', mtls(others.issue('acme')), { maxVersion: 'TLSv1.2' }],
  ]
  for (const [what, auth, server] of refused) {
    test(`refuses one ${what}: a failure, and nothing is received`, async () => {
      await using to = await setUp({ ...server })
      const outcome = await to.deliver(to.destination(auth && { ...auth, ca: null }))
      assert.ok(outcome.kind === 'failed')
      // Some servers say why in an alert of TLS, Node's mostly just closes the connection.
      assert.ok(['tls', 'connection'].includes(outcome.errorClass), outcome.detail)
      assert.deepEqual(to.seen(), [])
    })
  }
})

describe('the receiver’s certificate', () => {
  test('is trusted by the given authority alone', async () => {
    await using to = await setUp()
    const outcome = await to.deliver(to.destination(mtls(acme, others.cert)))
    assert.ok(outcome.kind === 'failed' && outcome.errorClass === 'tls')
    assert.equal((await to.deliver(to.destination(mtls(acme, others.cert + servers.cert)))).kind, 'delivered')
    assert.equal((await to.deliver(to.destination(mtls(acme, null)))).kind, 'delivered')
    assert.deepEqual(to.seen(), ['acme', 'acme'])
  })

  test('needs no public authority where one is given', async () => {
    await using to = await setUp(others.issue('hooks.test'))
    const outcome = await to.deliver(to.destination(mtls(acme, null)))
    assert.ok(outcome.kind === 'failed' && outcome.errorClass === 'tls')
    assert.equal((await to.deliver(to.destination(mtls(acme, others.cert)))).kind, 'delivered')
  })

  for (const [what, certificate] of [
    ['another name', servers.issue('elsewhere.test')],
    ['a time that is over', servers.issue('hooks.test', [2020, 2021])],
  ] as const) {
    test(`is refused for ${what}, given authority or not`, async () => {
      await using to = await setUp(certificate)
      const url = what === 'another name' ? to.receiver.url.replace('127.0.0.1', 'localhost') : to.receiver.url
      const outcome = await to.deliver(to.destination(mtls(acme), {}, url))
      assert.ok(outcome.kind === 'failed' && outcome.errorClass === 'tls', JSON.stringify(outcome))
      assert.deepEqual(to.seen(), [])
    })
  }
})

describe('a stored certificate that is against the rules', () => {
  const cases: [string, WebhookAuth][] = [
    ['no PEM', { kind: 'mtls', certificate: 'planted', private_key: 'planted' }],
    ['another key', mtls({ cert: acme.cert, key: globex.key })],
    ['no key', mtls({ cert: acme.cert, key: '***' })],
  ]
  for (const [what, auth] of cases) {
    test(`is no use to send with: ${what}`, async () => {
      await using to = await setUp()
      const outcome = await to.deliver(to.destination(auth))
      assert.ok(outcome.kind === 'failed' && outcome.errorClass === 'invalid_destination', JSON.stringify(outcome))
      assert.doesNotMatch(outcome.detail, /planted|BEGIN/)
      assert.equal(to.receiver.connections, 0)
    })
  }

  test('nor is any over plain http', async () => {
    await using to = await setUp()
    const outcome = await to.deliver(to.destination(mtls(acme), {}, to.receiver.url.replace('https:', 'http:')))
    assert.ok(outcome.kind === 'failed' && outcome.errorClass === 'invalid_destination')
    assert.equal(to.receiver.connections, 0)
  })
})

describe('the agents that show certificates', () => {
  test('are one for each subscription, and closed when its certificate changes', async () => {
    const agents = new ClientAgents({ allowPrivate: true })
    const one = agents.agentOf('one', identity(acme))
    assert.equal(agents.agentOf('one', identity(acme)), one)
    assert.notEqual(agents.agentOf('two', identity(acme)), one)
    assert.equal(one?.closed, false)
    const renewed = agents.agentOf('one', identity(globex))
    assert.deepEqual([one?.closed, renewed?.closed], [true, false])
    await agents.close()
    assert.equal(renewed?.closed, true)
  })

  test('are closed when there are too many, the longest unused first', async () => {
    const agents = new ClientAgents({ allowPrivate: true })
    const [first, second] = ['first', 'second'].map((id) => agents.agentOf(id, identity(acme)))
    for (let i = 0; i < 999; i++) agents.agentOf(`${i}`, identity(acme))
    assert.deepEqual([first?.closed, second?.closed], [true, false])
    await agents.close()
  })
})

test('a sink that was closed makes no new connections for certificates either', async () => {
  await using to = await setUp()
  await to.deliver(to.destination(mtls(acme)))
  await to.sink.close()
  const outcome = await to.deliver(to.destination(mtls(acme)))
  assert.ok(outcome.kind === 'failed' && outcome.errorClass === 'internal')
  assert.equal(to.receiver.connections, 1)
})

function identity({ cert, key }: Certificate): ClientIdentity {
  return { certificate: cert, privateKey: key, authorities: null }
}

interface SetUp extends AsyncDisposable {
  sink: Sink
  receiver: Receiver
  destination(auth?: WebhookAuth, given?: Partial<Destination>, url?: string): Destination
  deliver(destination: Destination): ReturnType<Sink['deliver']>
  /** Whose certificate came with each request. */
  seen(): (string | null)[]
}

/** A receiver that takes those of the authority `clients` alone. */
async function setUp(server: ServerOptions = {}): Promise<SetUp> {
  const receiver = await startReceiver(undefined, {
    tls: { ...servers.issue('hooks.test'), ca: clients.cert, requestCert: true, ...server },
  })
  const sink = createWebhookSink({ allowPrivate: true, userAgentVersion: '1.2.3', log: silentLog })
  return {
    sink,
    receiver,
    destination: (auth, given = {}, url = receiver.url) =>
      aDestination(url, { subscriptionId: uuid7(), ...(auth && { auth }), ...given }),
    deliver: (destination) => sink.deliver(anAttempt(destination), never),
    seen: () => receiver.requests.map(({ client }) => client),
    [Symbol.asyncDispose]: async () => {
      await sink.close()
      await receiver[Symbol.asyncDispose]()
    },
  }
}
