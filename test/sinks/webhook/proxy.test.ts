// Webhooks through the operator's proxy: it opens no hole in the address guard, and its own failures are told apart from the receivers'.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { isIP, type LookupFunction } from 'node:net'
import tls from 'node:tls'
import { silentLog } from '../../../src/base/log.ts'
import type { Outcome, Sink } from '../../../src/sinks/sink.ts'
import { createProxy } from '../../../src/sinks/webhook/proxy.ts'
import { createWebhookSink, type WebhookSinkOptions } from '../../../src/sinks/webhook/webhook.ts'
import { selfSigned } from '../../support/certificate.ts'
import { startProxy, type ConnectProxy } from '../../support/proxy.ts'
import { neverAnswer, startReceiver, type Answer, type Receiver } from '../../support/receiver.ts'
import { aDestination, anAttempt } from './destination.ts'

const PUBLIC = '93.184.216.34'
const never = new AbortController().signal
const certificate = selfSigned('hooks.example')

before(() => tls.setDefaultCACertificates([certificate.cert]))
after(() => tls.setDefaultCACertificates(tls.getCACertificates('bundled')))

describe('through a proxy', () => {
  test('an event reaches a host by the address that was looked up, never by its name', async () => {
    await using to = await setUp()
    const outcome = await to.deliver('https://hooks.example/hook')
    assert.equal(outcome.kind, 'delivered', JSON.stringify(outcome))
    assert.deepEqual(to.proxy.asked, [`${PUBLIC}:443`])
    assert.equal(to.receiver.requests[0]?.headers.host, 'hooks.example')
  })

  test('one tunnel serves many deliveries to one origin', async () => {
    await using to = await setUp()
    for (let i = 0; i < 6; i++) assert.equal((await to.deliver('https://hooks.example:8443/')).kind, 'delivered')
    assert.equal(to.receiver.requests.length, 6)
    // Two, since a connection is ready again only a moment after its answer.
    assert.ok(to.proxy.asked.length <= 2, `${to.proxy.asked.length} tunnels`)
    assert.deepEqual([...new Set(to.proxy.asked)], [`${PUBLIC}:8443`])
  })

  test('the certificate must be for the name, whatever the proxy connects to', async () => {
    await using to = await setUp()
    assertFailed(await to.deliver('https://other.example/'), 'tls')
    assert.equal(to.receiver.requests.length, 0)
  })

  test('an address is asked for as it is, IPv4 before IPv6, and the next where one cannot be reached', async () => {
    const port = { of: 0 }
    await using to = await setUp({
      lookup: answers(['2606:4700::1111', PUBLIC]),
      deed: (authority) => (authority.startsWith('[') ? { to: port.of } : { status: 503 }),
    })
    port.of = to.receiver.port
    assert.equal((await to.deliver('https://hooks.example/')).kind, 'delivered')
    assert.deepEqual(to.proxy.asked, [`${PUBLIC}:443`, '[2606:4700::1111]:443'])
    assertFailed(await to.deliver(`https://${PUBLIC}/`), 'tunnel')
    assert.deepEqual(to.proxy.asked.slice(2), [`${PUBLIC}:443`])
  })

  test('nothing is asked for where the guard says no: addresses, names, and names that change their minds', async () => {
    await using to = await setUp()
    for (const host of ['127.0.0.1', '169.254.169.254', '[::1]', '[::ffff:10.0.0.1]', 'localhost', 'vault.internal'])
      assertFailed(await to.deliver(`https://${host}/`), 'refused_address')
    for (const addresses of [
      ['127.0.0.1'],
      ['10.0.0.1'],
      ['fd00:ec2::254'],
      [PUBLIC, '169.254.169.254'],
      ['::1', PUBLIC],
    ]) {
      await using other = await setUp({ lookup: answers(addresses) })
      assertFailed(await other.deliver('https://hooks.example/'), 'refused_address')
      assert.deepEqual(other.proxy.asked, [])
    }
    let lookups = 0
    await using rebinding = await setUp({
      lookup: (name, options, done) => answers([lookups++ === 0 ? PUBLIC : '127.0.0.1'])(name, options, done),
    })
    await rebinding.deliver('https://hooks.example/')
    assert.deepEqual([rebinding.proxy.asked, lookups], [[`${PUBLIC}:443`], 1])
    assert.deepEqual(to.proxy.asked, [])
  })

  test('a name that does not resolve is a failure of the name', async () => {
    await using to = await setUp({
      lookup: (_, __, done) => done(Object.assign(new Error('no'), { code: 'ENOTFOUND' }), ''),
    })
    assertFailed(await to.deliver('https://hooks.example/'), 'dns')
  })

  test('over TLS, and with a user and password, which nothing tells', async () => {
    const secure = { certificate: selfSigned('127.0.0.1') }
    tls.setDefaultCACertificates([certificate.cert, secure.certificate.cert])
    await using to = await setUp({ tls: secure.certificate, credentials: 'hub:p%40ss%2Fw%zz@' })
    assert.equal((await to.deliver('https://hooks.example/')).kind, 'delivered')
    const [scheme, text] = to.proxy.authorizations[0]?.split(' ') ?? []
    assert.deepEqual([scheme, Buffer.from(text ?? '', 'base64').toString()], ['Basic', 'hub:p@ss/w%zz'])
    tls.setDefaultCACertificates([certificate.cert])
  })

  test('what is excepted, and plain http, goes without it', async () => {
    await using to = await setUp({ except: ['hooks.example:1'], allowPrivate: true })
    await using plain = await startReceiver()
    assert.equal((await to.deliver(plain.url)).kind, 'delivered')
    assert.deepEqual(to.proxy.asked, [])
    await using direct = await setUp({ except: ['.example'], allowPrivate: true, lookup: answers(['127.0.0.1']) })
    assert.equal((await direct.deliver(`https://hooks.example:${direct.receiver.port}/`)).kind, 'delivered')
    assert.deepEqual(direct.proxy.asked, [])
    await using guarded = await setUp({ except: ['*'], lookup: answers(['127.0.0.1']) })
    assertFailed(await guarded.deliver(`https://hooks.example:${guarded.receiver.port}/`), 'refused_address')
    assert.equal(guarded.receiver.connections, 0)
  })
})

describe('a failure through a proxy', () => {
  test('is the receiver’s own when the receiver answers, or is slow to', async () => {
    await using failing = await setUp({ answer: (response) => response.writeHead(500).end() })
    assertFailed(await failing.deliver('https://hooks.example/'), 'http_status')
    await using slow = await setUp({ answer: neverAnswer })
    assertFailed(await slow.deliver('https://hooks.example/', 300), 'timeout')
  })

  test('is the proxy’s when it cannot be reached, or does not take us', async () => {
    const gone = await startProxy(() => ({ status: 500 }))
    await gone[Symbol.asyncDispose]()
    const dead = createWebhookSink({ ...options, proxy: { url: gone.url, except: [] } })
    const outcome = await attempt(dead, 'https://hooks.example/')
    await dead.close()
    assertFailed(outcome, 'proxy')
    assert.match(outcome.detail, /ECONNREFUSED/)
    for (const status of [401, 407]) {
      await using to = await setUp({ deed: () => ({ status }) })
      assertFailed(await to.deliver('https://hooks.example/'), 'proxy')
      assert.equal(to.proxy.asked.length, 1)
    }
    await using unsecure = await startProxy(() => ({ status: 500 }))
    const sink = createWebhookSink({ ...options, proxy: { url: unsecure.url.replace('http:', 'https:'), except: [] } })
    assertFailed(await attempt(sink, 'https://hooks.example/'), 'proxy')
    await sink.close()
  })

  test('is of the tunnel when the proxy answers anything else, hangs up, or says nothing', async () => {
    for (const status of [301, 400, 403, 404, 429, 500, 502, 503, 504]) {
      await using to = await setUp({ deed: () => ({ status }) })
      const outcome = await to.deliver('https://hooks.example/')
      assertFailed(outcome, 'tunnel')
      assert.match(outcome.detail, new RegExp(`TUNNEL_${status}`))
      assert.doesNotMatch(JSON.stringify(outcome), /10\.1\.2\.3|secret|127\.0\.0\.1|93\.184/)
      assert.deepEqual([outcome.status, outcome.response.length], [null, 0])
    }
    for (const deed of [
      (socket: { destroy(): unknown }) => void socket.destroy(),
      (socket: { end(text: string): unknown }) => void socket.end('HTTP/1.1 200 OK\r\n\r\nSSH-2.0'),
      () => undefined,
    ]) {
      await using to = await setUp({ deed: () => deed })
      assertFailed(await to.deliver('https://hooks.example/', 300), 'tunnel')
    }
  })
})

test('what is connected to without a proxy is named by host, domain, port or star', () => {
  for (const [except, host, port] of [
    ['hooks.example', 'hooks.example'],
    ['HOOKS.example', 'hooks.EXAMPLE'],
    ['hooks.example', 'hooks.example.'],
    ['.example', 'hooks.example'],
    ['*.example', 'a.hooks.example'],
    ['hooks.example:8443', 'hooks.example', '8443'],
    ['*', 'anything.example'],
    ['93.184.216.34', '93.184.216.34'],
    ['2606:4700::1111', '2606:4700::1111'],
    ['[2606:4700::1111]:443', '2606:4700::1111'],
  ] as const)
    assert.equal(serves(except, host, port), false, `${except} ${host}`)
  for (const [except, host] of [
    ['hooks.example', 'a.hooks.example'],
    ['.example', 'example'],
    ['.example', 'hooksexample'],
    ['hooks.example:8443', 'hooks.example'],
    ['', 'hooks.example'],
    ['10.0.0.0/8', '10.0.0.1'],
  ] as const)
    assert.equal(serves(except, host), true, `${except} ${host}`)
})

function serves(except: string, host: string, port = '443'): boolean {
  return createProxy({ url: 'http://127.0.0.1:1', except: [except] }, async () => []).serves(host, port)
}

const options: WebhookSinkOptions = {
  allowPrivate: false,
  userAgentVersion: '1',
  log: silentLog,
  lookup: answers([PUBLIC]),
}

interface SetUp extends AsyncDisposable {
  proxy: ConnectProxy
  receiver: Receiver
  deliver(url: string, timeoutMs?: number): Promise<Outcome>
}

/** A receiver by TLS, to which a proxy leads whatever it is asked for, and a sink that uses it. */
async function setUp(
  given: {
    lookup?: LookupFunction
    deed?: Parameters<typeof startProxy>[0]
    answer?: Answer
    tls?: { cert: string; key: string }
    credentials?: string
    except?: string[]
    allowPrivate?: boolean
  } = {},
): Promise<SetUp> {
  const { lookup = answers([PUBLIC]), answer, except = [], credentials = '', allowPrivate = false } = given
  const receiver = await startReceiver(answer, { tls: certificate })
  const proxy = await startProxy(given.deed ?? (() => ({ to: receiver.port })), given.tls ? { tls: given.tls } : {})
  const url = proxy.url.replace('://', `://${credentials}`)
  const sink = createWebhookSink({ ...options, allowPrivate, lookup, proxy: { url, except } })
  return {
    proxy,
    receiver,
    deliver: (to, timeoutMs) => attempt(sink, to, timeoutMs),
    [Symbol.asyncDispose]: async () => {
      await proxy[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
      await sink.close()
    },
  }
}

async function attempt(sink: Sink, url: string, timeoutMs = 10_000): Promise<Outcome> {
  return await sink.deliver(anAttempt(aDestination(url, { timeoutMs })), never)
}

function answers(addresses: string[]): LookupFunction {
  return (_, __, done) =>
    done(
      null,
      addresses.map((address) => ({ address, family: isIP(address) })),
    )
}

function assertFailed(outcome: Outcome, errorClass: string): asserts outcome is Outcome & { kind: 'failed' } {
  assert.equal(outcome.kind === 'failed' ? outcome.errorClass : outcome.kind, errorClass, JSON.stringify(outcome))
}
