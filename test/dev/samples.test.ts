import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { createDevBroker } from '../../dev/broker.ts'
import { startProducer } from '../../dev/sample-producer.ts'
import { startReceiver, type Arrival } from '../../dev/sample-receiver.ts'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { verdict } from '../../src/ingest/verdict.ts'
import { signatureHeaders } from '../../src/sinks/webhook/signature.ts'
import { createKafkaStream } from '../../src/stream/kafka.ts'

const key = randomBytes(32)
const secret = `whsec_${key.toString('base64')}`

interface Delivery {
  body?: Buffer
  signedBy?: Buffer
  at?: number
  headers?: Record<string, string>
}

async function receiver(options: { fails?: () => boolean } = {}) {
  const arrivals: Arrival[] = []
  const sample = await startReceiver({ port: 0, onArrival: (arrival) => arrivals.push(arrival), ...options })
  const deliver = async ({
    body = Buffer.from('{"n":1}'),
    signedBy = key,
    at = Date.now(),
    headers = {},
  }: Delivery = {}) => {
    const signed = signatureHeaders({ id: 'e-1', now: at, body, keys: [{ key: signedBy, expiresAt: null }] })
    const identity = { 'x-lerian-event-id': 'e-1', 'x-lerian-event-type': 'loan.approved', 'x-lerian-attempt': '2' }
    const answer = await fetch(sample.url, { method: 'POST', body, headers: { ...identity, ...signed, ...headers } })
    return { status: answer.status, text: await answer.text() }
  }
  return { ...sample, arrivals, deliver, [Symbol.asyncDispose]: () => sample.stop() }
}

describe('the sample receiver', () => {
  it('takes what both signatures vouch for', async () => {
    await using sample = await receiver()
    sample.trust(secret)
    assert.equal((await sample.deliver()).status, 200)
    const { signature, eventType, eventId, attempt, repeated, body } = sample.arrivals[0] ?? assert.fail()
    assert.deepEqual(
      { signature, eventType, eventId, attempt, repeated },
      {
        signature: 'valid',
        eventType: 'loan.approved',
        eventId: 'e-1',
        attempt: 2,
        repeated: false,
      },
    )
    assert.equal(body.toString(), '{"n":1}')
  })

  const forgeries: [string, Delivery][] = [
    ['another secret', { signedBy: randomBytes(32) }],
    ['an old time', { at: Date.now() - 301_000 }],
    ['one of the two signatures', { headers: { 'x-lerian-signature': 't=1,v1=00' } }],
    ['the other of the two', { headers: { 'webhook-signature': 'v1,AAAA' } }],
    ['no signature', { headers: { 'x-lerian-signature': '', 'webhook-signature': '' } }],
  ]
  for (const [what, delivery] of forgeries) {
    it(`refuses what is signed by ${what}`, async () => {
      await using sample = await receiver()
      sample.trust(secret)
      assert.equal((await sample.deliver(delivery)).status, 401)
      assert.equal(sample.arrivals[0]?.signature, 'invalid')
    })
  }

  it('takes either of two signatures while a rotation lasts', async () => {
    await using sample = await receiver()
    sample.trust(secret)
    const seconds = Math.floor(Date.now() / 1000)
    const body = Buffer.from('{}')
    const mac = (by: Buffer) => createHmac('sha256', by).update(`${seconds}.{}`).digest('hex')
    const both = `t=${seconds},v1=${mac(randomBytes(32))},v1=${mac(key)}`
    assert.equal((await sample.deliver({ body, headers: { 'x-lerian-signature': both } })).status, 200)
  })

  it('answers the challenge, also before it knows a secret', async () => {
    await using sample = await receiver({ fails: () => true })
    const body = Buffer.from('{"type":"hub.verification","challenge":"abc","subscription_id":"s"}')
    const answer = await sample.deliver({ body, headers: { 'x-lerian-event-type': 'hub.verification' } })
    assert.deepEqual(answer, { status: 200, text: 'abc' })
    assert.equal(sample.arrivals[0]?.signature, 'unchecked')
  })

  it('knows an event that it has taken from one that it failed', async () => {
    const answers = [true, false, false]
    await using sample = await receiver({ fails: () => answers.shift() ?? false })
    for (let i = 0; i < 3; i++) await sample.deliver()
    assert.deepEqual(
      sample.arrivals.map(({ answered, repeated }) => [answered, repeated]),
      [
        [503, false],
        [200, false],
        [200, true],
      ],
    )
  })
})

describe('the sample producer', () => {
  it('writes facts that the hub accepts, for each tenant in turn', async () => {
    const broker = createDevBroker()
    await broker.start()
    const sent: string[] = []
    const arrived = Promise.withResolvers<void>()
    const verdicts: string[] = []
    const stream = createKafkaStream({
      name: 'facts',
      connection: { brokers: [broker.address], clientId: 'test' },
      groupId: 'test',
      accepts: () => true,
      handler: async ({ records }) => {
        for (const found of records.map(verdict))
          verdicts.push(found.kind === 'accept' ? `${found.event.tenantId} ${found.event.key}` : found.kind)
        if (new Set(verdicts).size >= 4) arrived.resolve()
      },
      log: silentLog,
      clock: systemClock,
      discoverEveryMs: 20,
    })
    await stream.start()
    const producer = await startProducer({
      brokers: [broker.address],
      source: 'lender',
      tenants: ['acme', 'globex'],
      script: (count) => ({ resource: 'loan', event: count < 2 ? 'requested' : 'approved', data: { count } }),
      intervalMs: 1,
      onSent: ({ tenantId, resource, event }) => sent.push(`${tenantId} ${resource}.${event}`),
    })
    await arrived.promise
    await producer.stop()
    await stream.stop(AbortSignal.timeout(5000))
    await broker.stop(AbortSignal.timeout(5000))
    assert.deepEqual(sent.slice(0, 4), [
      'acme loan.requested',
      'globex loan.requested',
      'acme loan.approved',
      'globex loan.approved',
    ])
    assert.deepEqual([...new Set(verdicts)].sort(), [...new Set(sent)].sort())
  })
})
