// Every way around the address guard that is known to us: refused when it is registered, and, where that cannot see it, when it is
// attempted. Each is tried for real, with a listener on every address of this machine that must not see a connection.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { LookupFunction } from 'node:net'
import { isIP } from 'node:net'
import given from '../../corpus/addresses.json' with { type: 'json' }
import corpus from '../../corpus/address-bypasses.json' with { type: 'json' }
import { silentLog } from '../../../src/base/log.ts'
import type { Outcome, Sink } from '../../../src/sinks/sink.ts'
import { urlFaults } from '../../../src/sinks/webhook/address-guard.ts'
import { guardedLookup } from '../../../src/sinks/webhook/lookup.ts'
import { createWebhookSink } from '../../../src/sinks/webhook/webhook.ts'
import { startReceiver, type Receiver } from '../../support/receiver.ts'
import { aDestination, anAttempt } from './destination.ts'

const strict = { allowPrivate: false }
const registration = [...given.refused, ...Object.values(corpus.registration).flat()]
const lookups = Object.values(corpus.lookup).flat()
const never = new AbortController().signal

let receiver: Receiver
before(async () => (receiver = await startReceiver(undefined, { host: '::' })))
after(() => receiver[Symbol.asyncDispose]())

test(`the corpus has ${registration.length} URLs and ${lookups.length} answers of name servers`, (t) => {
  assert.ok(Object.values(corpus.registration).flat().length >= 350 && lookups.length >= 60)
  t.diagnostic(`${registration.length + lookups.length} ways around the address guard`)
})

describe('a URL of the corpus', () => {
  for (const [why, urls] of Object.entries(corpus.registration)) {
    test(`is refused when it is registered: ${why} (${urls.length})`, () => {
      for (const url of urls) assert.notDeepEqual(urlFaults(url, strict), [], JSON.stringify(url))
    })
  }

  test(`leads an attempt nowhere, as it is and at the port of a listener (${registration.length})`, async () => {
    // A name that got as far as being looked up would lead to the listener.
    await using sink = sinkWith(answers(['127.0.0.1']))
    for (const url of registration.flatMap(withListener)) {
      const outcome = await attempt(sink, url)
      assert.equal(outcome.kind, 'failed', JSON.stringify(url))
      assert.match(outcome.errorClass, /^(refused_address|invalid_destination)$/, JSON.stringify(url))
    }
    assert.equal(receiver.connections, 0)
  })

  test(`is allowed where it only looks like a trick (${corpus.allowed.length})`, () => {
    for (const url of corpus.allowed) assert.deepEqual(urlFaults(url, strict), [], url)
  })
})

describe('a public name', () => {
  for (const [why, all] of Object.entries(corpus.lookup)) {
    test(`is not connected to when it leads to ${why} (${all.length})`, async () => {
      const outcomes = new Set<string>()
      for (const addresses of all) {
        await using sink = sinkWith(answers(addresses))
        outcomes.add(JSON.stringify(await attempt(sink, `https://hooks.example:${receiver.port}/`)))
      }
      assert.equal(receiver.connections, 0)
      assert.equal(outcomes.size, 1, 'of a refused address nothing is told apart')
      assert.match([...outcomes].join(), /"refused_address"/)
    })
  }

  test('is looked up once for a connection, and what was judged is what is connected to', async () => {
    let lookup = 0
    const rebinding: LookupFunction = (name, options, done) =>
      answers([lookup++ === 0 ? '93.184.216.34' : '127.0.0.1'])(name, options, done)
    const guarded = guardedLookup(rebinding)
    assert.deepEqual(await looked(guarded), { error: null, addresses: ['93.184.216.34'] })
    assert.deepEqual(await looked(guarded), { error: 'ERR_IP_BLOCKED', addresses: [] })
    assert.equal(lookup, 2)

    await using sink = sinkWith(rebinding)
    assert.equal((await attempt(sink, `https://hooks.example:${receiver.port}/`)).kind, 'failed')
    assert.equal(lookup, 3)
    assert.equal(receiver.connections, 0)
  })

  test('without any address, or with none in time, is a failure of the name', async () => {
    await using empty = sinkWith(answers([]))
    assertFailed(await attempt(empty, 'https://hooks.example/'), 'dns')
    for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
      await using sink = sinkWith((_, __, done) => done(Object.assign(new Error('no'), { code }), ''))
      assertFailed(await attempt(sink, 'https://hooks.example/'), 'dns')
    }
  })

  test('is judged whichever way its addresses are asked for', async () => {
    for (const all of [true, false]) {
      assert.deepEqual(await looked(guardedLookup(answers(['1.1.1.1'])), all), { error: null, addresses: ['1.1.1.1'] })
      const blocked = { error: 'ERR_IP_BLOCKED', addresses: [] }
      assert.deepEqual(await looked(guardedLookup(answers(['10.0.0.1'])), all), blocked)
    }
  })
})

test('a redirect to a metadata service is not followed, whatever its status', async () => {
  let status = 0
  await using here = await startReceiver((response) =>
    response.writeHead(status, { location: `http://169.254.169.254/`, 'content-length': 0 }).end(),
  )
  const sink = createWebhookSink({ allowPrivate: true, userAgentVersion: '1', log: silentLog })
  for (status of [301, 302, 303, 307, 308]) assertFailed(await attempt(sink, here.url), 'redirect')
  await sink.close()
  assert.equal(here.requests.length, 5)
})

/** As it is, and, where it names no port, with the listener's. */
function withListener(url: string): string[] {
  const parsed = URL.parse(url)
  if (!parsed?.protocol.startsWith('http') || parsed.port !== '') return [url]
  const { host } = parsed
  const at = url.indexOf(host)
  parsed.port = String(receiver.port)
  return at < 0 ? [url, parsed.href] : [url, parsed.href, url.replace(host, parsed.host)]
}

function sinkWith(lookup: LookupFunction): Sink & AsyncDisposable {
  const sink = createWebhookSink({ allowPrivate: false, userAgentVersion: '1', log: silentLog, lookup })
  return { ...sink, [Symbol.asyncDispose]: () => sink.close() }
}

async function attempt(sink: Sink, url: string): Promise<Outcome> {
  return await sink.deliver(anAttempt(aDestination(url, { timeoutMs: 5_000 })), never)
}

function answers(addresses: string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) || 4 }))
  return (_, options, done) => {
    if (options.all) done(null, all)
    else done(null, all[0]?.address ?? '', all[0]?.family ?? 4)
  }
}

async function looked(lookup: LookupFunction, all = true): Promise<{ error: string | null; addresses: string[] }> {
  return await new Promise((resolve) => {
    lookup('hooks.example', { all }, (error, found) => {
      const addresses = typeof found === 'string' ? [found] : found.map(({ address }) => address)
      resolve({ error: error?.code ?? null, addresses })
    })
  })
}

function assertFailed(outcome: Outcome, errorClass: string): void {
  assert.equal(outcome.kind === 'failed' ? outcome.errorClass : outcome.kind, errorClass)
}
