import { describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { silentLog } from '../../../src/base/log.ts'
import type { HeaderValue, WebhookAuth } from '../../../src/event/subscription.ts'
import type { Sink } from '../../../src/sinks/sink.ts'
import { createWebhookSink } from '../../../src/sinks/webhook/webhook.ts'
import { uuid7 } from '../../support/fixtures.ts'
import { startReceiver, type Receiver } from '../../support/receiver.ts'
import { aDestination, anAttempt } from './destination.ts'

const never = new AbortController().signal

describe('a delivery to a receiver that asks who sends', () => {
  const cases: [WebhookAuth, string, string][] = [
    [{ kind: 'bearer', token: 'a.b-c_d~e+f/g==' }, 'authorization', 'Bearer a.b-c_d~e+f/g=='],
    // Base64 of UTF-8, as RFC 7617 has it.
    [{ kind: 'basic', username: 'test', password: '123£' }, 'authorization', 'Basic dGVzdDoxMjPCow=='],
    [{ kind: 'basic', username: '', password: 'a:b' }, 'authorization', 'Basic OmE6Yg=='],
    [{ kind: 'api_key', header: 'X-Api-Key', value: 'k' }, 'x-api-key', 'k'],
    [{ kind: 'api_key', header: 'Authorization', value: 'ApiKey=k' }, 'authorization', 'ApiKey=k'],
  ]
  for (const [auth, header, value] of cases) {
    test(`says it with ${auth.kind} in ${header}, to a probe's receiver too: ${value}`, async () => {
      await using to = await setUp()
      const destination = aDestination(to.receiver.url, { auth })
      await to.sink.deliver(anAttempt(destination), never)
      await to.sink.probe({ destination, attemptId: uuid7(), now: Date.now() }, never)
      assert.deepEqual(
        to.receiver.requests.map(({ headers }) => headers[header]),
        [value, value],
      )
    })
  }

  test('says it in a secret header as well', async () => {
    await using to = await setUp()
    const headers: Record<string, HeaderValue> = {
      'X-Env': 'prod',
      'X-Token': { value: 's3cr3t', secret: true },
      constructor: 'x',
    }
    await to.sink.deliver(anAttempt(aDestination(to.receiver.url, { headers })), never)
    const { 'x-env': env, 'x-token': token, constructor: odd } = to.receiver.requests[0]?.headers ?? {}
    assert.deepEqual([env, token, odd], ['prod', 's3cr3t', 'x'])
  })

  test('shares its connection with others, and its credentials with nobody', async () => {
    await using to = await setUp()
    const destinations = [
      aDestination(to.receiver.url, { auth: bearer('one'), headers: { 'x-a': { value: '1', secret: true } } }),
      aDestination(to.receiver.url, { tenantId: 'other', auth: bearer('two') }),
      aDestination(to.receiver.url),
    ]
    for (const destination of [...destinations, ...destinations]) await to.sink.deliver(anAttempt(destination), never)
    const seen = to.receiver.requests.map(({ headers }) => [headers['authorization'], headers['x-a']])
    const once = [
      ['Bearer one', '1'],
      ['Bearer two', undefined],
      [undefined, undefined],
    ]
    assert.deepEqual(seen, [...once, ...once])
    assert.ok(to.receiver.connections < seen.length, 'a connection served several')
  })
})

describe('stored settings that are against the rules', () => {
  const cases: [string, { headers?: Record<string, HeaderValue>; auth?: WebhookAuth }][] = [
    ['a header that begins another', { headers: { 'x-a': 'planted\r\nx-b: 1' } }],
    ['a secret one that does', { headers: { 'x-a': { value: 'planted\n', secret: true } } }],
    ['a name that does', { headers: { 'x-a: 1\r\nplanted': '1' } }],
    ['the message’s framing', { headers: { 'Content-Length': '0' } }],
    ['the connection’s header', { headers: { 'Transfer-Encoding': 'chunked' } }],
    ['the hub’s header', { headers: { 'Webhook-Signature': 'v1,forged' } }],
    ['a header twice', { headers: { 'x-a': '1', 'X-A': '2' } }],
    [
      'a header beside the credential that it would replace',
      { headers: { Authorization: 'planted' }, auth: { kind: 'bearer', token: 'x' } },
    ],
    ['a token with a line end', { auth: { kind: 'bearer', token: 'planted\r\nx: y' } }],
    ['a key in the connection’s header', { auth: { kind: 'api_key', header: 'Connection', value: 'planted' } }],
  ]
  for (const [what, given] of cases) {
    test(`are no use to send with: ${what}`, async () => {
      await using to = await setUp()
      const outcome = await to.sink.deliver(anAttempt(aDestination(to.receiver.url, given)), never)
      assert.ok(outcome.kind === 'failed')
      assert.equal(outcome.errorClass, 'invalid_destination')
      assert.doesNotMatch(outcome.detail, /planted/)
      assert.equal(to.receiver.connections, 0)
    })
  }
})

function bearer(token: string): WebhookAuth {
  return { kind: 'bearer', token }
}

interface SetUp extends AsyncDisposable {
  sink: Sink
  receiver: Receiver
}

async function setUp(): Promise<SetUp> {
  const receiver = await startReceiver()
  const sink = createWebhookSink({ allowPrivate: true, userAgentVersion: '1.2.3', log: silentLog })
  return {
    sink,
    receiver,
    [Symbol.asyncDispose]: async () => {
      await sink.close()
      await receiver[Symbol.asyncDispose]()
    },
  }
}
