// Rotating a signing secret, from the call to what the receiver gets: who verifies, with which secret, until when. Time stands still
// until a test moves it, and every request is checked by the public Standard Webhooks library and as docs/secrets.md describes.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, beforeEach, describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { silentLog } from '../../src/base/log.ts'
import { destinationCache } from '../../src/dispatch/destination-cache.ts'
import type { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { parseKeyRing } from '../../src/secrets/keyring.ts'
import { createSecretBox } from '../../src/secrets/secrets.ts'
import { createSinks } from '../../src/sinks/registry.ts'
import { expiredSecretsChore } from '../../src/upkeep/chores.ts'
import { publish, subscribe } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { startReceiver, type ReceivedRequest, type Receiver } from '../support/receiver.ts'

const HOUR = 3_600_000
const secrets = createSecretBox(parseKeyRing(Buffer.alloc(32, 7).toString('base64')))
const sinks = createSinks({ webhook: { allowPrivate: true, userAgentVersion: 'test', log: silentLog } })
/** What the receiver does before it answers. */
let meanwhile: (() => Promise<unknown>) | null = null
let control: TestControl
let receiver: Receiver
let replicas: Dispatcher[]

before(async () => {
  control = await testControl({ secrets })
  receiver = await startReceiver((response) => void (meanwhile?.() ?? Promise.resolve()).then(() => response.end('ok')))
  const { clock } = control
  const { pool } = control.database
  replicas = [1, 2].map(() => {
    const destinationOf = destinationCache({ pool, sinks, secrets, clock, log: silentLog })
    return testDispatcher({ pool, clock, sink: sinks.webhook, destinationOf })
  })
})
after(async () => {
  await sinks.webhook.close()
  await receiver[Symbol.asyncDispose]()
  await control[Symbol.asyncDispose]()
})
beforeEach(() => {
  meanwhile = null
  receiver.requests.length = 0
})

let tenants = 0

/** A subscription of a tenant of its own that delivers to the receiver. */
async function begin(given: object = {}): Promise<{ id: string; tenant: string; secret: string }> {
  const tenant = `tenant-${++tenants}`
  const { id, signing_secret: secret } = await subscribe(control, tenant, given)
  const sink = JSON.stringify({ kind: 'webhook', url: receiver.url, headers: {} })
  await control.database.pool.query('update subscription set sink = $2 where id = $1', [id, sink])
  return { id, tenant, secret }
}

async function rotate({ id, tenant }: { id: string; tenant: string }, overlap?: string): Promise<string> {
  const body = overlap === undefined ? {} : { overlap }
  const answer = await control.call({ method: 'POST', url: `/v1/subscriptions/${id}/rotate-secret`, tenant, body })
  assert.equal(answer.status, 200, answer.text)
  return (answer.body as { signing_secret: string }).signing_secret
}

/** The one request that an event leads to, by this replica. */
async function delivered({ tenant }: { tenant: string }, replica = replicas[0]!): Promise<ReceivedRequest> {
  await publish(control, tenant)
  await drain(replica)
  const [request, ...more] = receiver.requests.splice(0)
  assert.ok(request && more.length === 0, `${more.length + 1} requests`)
  return request
}

/** Which of these secrets verify the request, by the library and by our own description: the two never differ. */
function verifying(request: ReceivedRequest, candidates: readonly string[]): boolean[] {
  return candidates.map((secret) => {
    const own = verifiesOwn(request, secret)
    assert.equal(verifiesStandard(request, secret), own)
    return own
  })
}

/** The library insists on its own clock, so it is asked to sign what was sent. */
function verifiesStandard({ headers, body }: ReceivedRequest, secret: string): boolean {
  const at = new Date(Number(headers['webhook-timestamp']) * 1000)
  const expected = new Webhook(secret).sign(String(headers['webhook-id']), at, body)
  return String(headers['webhook-signature']).split(' ').includes(expected)
}

/** As docs/secrets.md tells receivers to do it. */
function verifiesOwn({ headers, body }: ReceivedRequest, secret: string): boolean {
  const [time, ...given] = String(headers['x-lerian-signature']).split(',')
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const expected = createHmac('sha256', key)
    .update(`${time?.slice('t='.length)}.`)
    .update(body)
    .digest('hex')
  return given.includes(`v1=${expected}`)
}

function signatures({ headers }: ReceivedRequest): number[] {
  return [
    String(headers['x-lerian-signature']).split(',v1=').length - 1,
    String(headers['webhook-signature']).split(' ').length,
  ]
}

describe('rotating within an overlap', () => {
  test('twice, thrice: all that are still valid sign, the newest first, each to the end of its own overlap', async () => {
    const subscription = await begin()
    const all = [subscription.secret]
    all.push(await rotate(subscription, '10h'))
    control.clock.advance(2 * HOUR)
    all.push(await rotate(subscription, '24h'))
    control.clock.advance(2 * HOUR)
    all.push(await rotate(subscription, '5h'))
    // Their ends, from now on: 5 h for all three, as the last rotation says, which none of them outlasts.
    const request = await delivered(subscription)
    assert.deepEqual(verifying(request, all), [true, true, true, true])
    assert.deepEqual(signatures(request), [4, 4])
    const newest = new Webhook(all[3]!).sign(
      String(request.headers['webhook-id']),
      new Date(control.clock.now()),
      request.body,
    )
    assert.equal(String(request.headers['webhook-signature']).split(' ')[0], newest)
    control.clock.advance(5 * HOUR - 1)
    assert.deepEqual(verifying(await delivered(subscription), all), [true, true, true, true])
    control.clock.advance(1)
    const last = await delivered(subscription)
    assert.deepEqual(verifying(last, all), [false, false, false, true])
    assert.deepEqual(signatures(last), [1, 1])
  })

  test('an earlier end stays: a later rotation makes no overlap longer', async () => {
    const subscription = await begin()
    const all = [subscription.secret, await rotate(subscription, '1h')]
    control.clock.advance(HOUR / 2)
    all.push(await rotate(subscription, '30d'))
    assert.deepEqual(verifying(await delivered(subscription), all), [true, true, true])
    control.clock.advance(HOUR / 2 - 1)
    assert.deepEqual(verifying(await delivered(subscription), all), [true, true, true])
    control.clock.advance(1)
    assert.deepEqual(verifying(await delivered(subscription), all), [false, true, true])
  })

  test('with 0s the old ones end at once, on every replica, however often they were used', async () => {
    const subscription = await begin()
    const all = [subscription.secret, await rotate(subscription)]
    for (const replica of replicas)
      assert.deepEqual(verifying(await delivered(subscription, replica), all), [true, true])
    all.push(await rotate(subscription, '0s'))
    for (const replica of replicas) {
      const request = await delivered(subscription, replica)
      assert.deepEqual(verifying(request, all), [false, false, true])
      assert.deepEqual(signatures(request), [1, 1])
    }
  })

  test('more than four old ones: the oldest end', async () => {
    const subscription = await begin()
    const all = [subscription.secret]
    for (let nth = 0; nth < 6; nth++) all.push(await rotate(subscription))
    const request = await delivered(subscription)
    assert.deepEqual(verifying(request, all), [false, false, true, true, true, true, true])
  })

  test('many at once: one after the other, each answer is a secret that signs while it is among the newest five', async () => {
    const subscription = await begin()
    const issued = await Promise.all(Array.from({ length: 5 }, () => rotate(subscription)))
    assert.equal(new Set(issued).size, 5)
    const request = await delivered(subscription)
    assert.deepEqual(verifying(request, issued), [true, true, true, true, true])
    assert.deepEqual(verifying(request, [subscription.secret]), [false])
    const { rows } = await control.database.pool.query(
      `select count(*) filter (where expires_at is null)::integer as current, count(*)::integer as all
       from subscription_secret where subscription_id = $1`,
      [subscription.id],
    )
    assert.deepEqual(rows, [{ current: 1, all: 5 }])
  })

  test('by an id in capitals it is the same subscription', async () => {
    const subscription = await begin()
    const secret = await rotate({ ...subscription, id: subscription.id.toUpperCase() }, '0s')
    assert.deepEqual(verifying(await delivered(subscription), [secret]), [true])
  })
})

for (const ordering of ['fifo', 'strict', 'parallel']) {
  test(`a rotation while a delivery of a ${ordering} lane is in the air counts from the next attempt on`, async () => {
    const subscription = await begin({ ordering })
    await delivered(subscription)
    let secret = ''
    meanwhile = async () => {
      meanwhile = null
      secret = await rotate(subscription, '0s')
    }
    await publish(control, subscription.tenant)
    if (ordering !== 'parallel') await publish(control, subscription.tenant)
    await drain(replicas[0]!)
    if (ordering === 'parallel') await publish(control, subscription.tenant)
    await drain(replicas[0]!)
    const [first, second] = receiver.requests
    assert.ok(first && second)
    assert.deepEqual(verifying(first, [subscription.secret, secret]), [true, false])
    assert.deepEqual(verifying(second, [subscription.secret, secret]), [false, true])
  })
}

test('a retry is signed anew, by the secrets of its own time', async () => {
  const subscription = await begin({ retry_schedule: ['0s', '10h'] })
  meanwhile = () => Promise.reject(new Error('no answer')).catch(() => void 0)
  const failing = await startReceiver((response) => {
    response.statusCode = 500
    response.end()
  })
  const sink = JSON.stringify({ kind: 'webhook', url: failing.url, headers: {} })
  await control.database.pool.query('update subscription set sink = $2 where id = $1', [subscription.id, sink])
  await publish(control, subscription.tenant)
  await drain(replicas[0]!)
  const secret = await rotate(subscription, '1h')
  control.clock.advance(10 * HOUR)
  await replicas[0]!.tick()
  await drain(replicas[0]!)
  const [first, second] = failing.requests
  assert.ok(first && second)
  assert.deepEqual(verifying(first, [subscription.secret, secret]), [true, false])
  assert.deepEqual(verifying(second, [subscription.secret, secret]), [false, true])
  assert.notEqual(second.headers['webhook-timestamp'], first.headers['webhook-timestamp'])
  await failing[Symbol.asyncDispose]()
})

test('an old secret that is beyond repair keeps its successor from nothing; a current one does', async () => {
  const subscription = await begin()
  const { pool } = control.database
  await pool.query(`update subscription_secret set sealed = '{}' where subscription_id = $1`, [subscription.id])
  await publish(control, subscription.tenant)
  await drain(replicas[0]!)
  assert.equal(receiver.requests.length, 0)
  const secret = await rotate(subscription)
  await drain(replicas[0]!)
  assert.deepEqual(verifying(receiver.requests.pop()!, [subscription.secret, secret]), [false, true])
})

test('upkeep removes the secrets whose overlap is over, and no other', async () => {
  const subscription = await begin()
  await rotate(subscription, '1h')
  await rotate(subscription, '2h')
  const { pool } = control.database
  const chore = expiredSecretsChore()
  const run = async (): Promise<unknown> =>
    await chore.run(pool, new Date(control.clock.now()), new AbortController().signal)
  await pool.query('delete from subscription_secret where subscription_id <> $1', [subscription.id])
  assert.equal(await run(), null)
  control.clock.advance(HOUR + 6 * 60_000)
  assert.deepEqual(await run(), { removed: 1 })
  control.clock.advance(HOUR)
  assert.deepEqual(await run(), { removed: 1 })
  control.clock.advance(1_000 * HOUR)
  assert.equal(await run(), null)
  const { rows } = await pool.query('select expires_at from subscription_secret where subscription_id = $1', [
    subscription.id,
  ])
  assert.deepEqual(rows, [{ expires_at: null }])
})
