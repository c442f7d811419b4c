import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { SecretError } from '../../src/secrets/secrets.ts'
import { deliver, publish, subscribe } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { delivered, failed } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface Verified {
  verified: boolean
  outcome: string
  status: number | null
  error_class: string | null
  error_detail: string | null
  subscription: { verification_state: string; enabled: boolean; disabled_reason: string | null }
}

async function verify(id: string): Promise<Verified> {
  const answer = await control.call({ method: 'POST', url: `/v1/subscriptions/${id}/verify`, tenant: 'acme' })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as Verified
}

async function subscribeUnverified(): Promise<string> {
  control.probe.outcome = failed({ status: 503 })
  const { id } = await subscribe(control, 'acme')
  return id
}

async function disableByHub(id: string): Promise<void> {
  const { pool } = control.database
  await pool.query(
    `update subscription set enabled = false, disabled_reason = 'failing for 120h', disabled_at = now(), version = version + 1 where id = $1`,
    [id],
  )
  await pool.query(
    `update lane set version = version + 1, first_failure_at = now() - interval '6 days', last_failure_at = now() where subscription_id = $1`,
    [id],
  )
}

describe('verifying', () => {
  test('a probe that works makes it active, and what follows is delivered', async () => {
    const id = await subscribeUnverified()
    await publish(control, 'acme')
    control.probe.outcome = delivered
    const { subscription, ...result } = await verify(id)
    assert.deepEqual(result, {
      verified: true,
      outcome: 'delivered',
      status: 200,
      error_class: null,
      error_detail: null,
    })
    assert.equal(subscription.verification_state, 'active')
    assert.equal(await deliver(control), 0) // what came before was not wanted
    await publish(control, 'acme')
    assert.equal(await deliver(control), 1)
    await control.call({ method: 'DELETE', url: `/v1/subscriptions/${id}`, tenant: 'acme' })
  })

  test('a probe that fails says how, and marks one that never worked as failed', async () => {
    const id = await subscribeUnverified()
    control.probe.outcome = failed({ status: 404, detail: 'answered 404' })
    const { subscription, ...result } = await verify(id)
    assert.deepEqual(result, {
      verified: false,
      outcome: 'failed',
      status: 404,
      error_class: 'http_status',
      error_detail: 'answered 404',
    })
    assert.equal(subscription.verification_state, 'failed')
  })

  test('a failure does not take back an earlier success', async () => {
    control.probe.outcome = delivered
    const { id } = await subscribe(control, 'acme')
    control.probe.outcome = failed()
    assert.equal((await verify(id)).subscription.verification_state, 'active')
  })

  test('enables again what the hub had switched off, with a fresh streak', async () => {
    control.probe.outcome = delivered
    const { id } = await subscribe(control, 'acme')
    await disableByHub(id)
    control.probe.outcome = failed()
    assert.equal((await verify(id)).subscription.enabled, false)
    control.probe.outcome = delivered
    const { subscription } = await verify(id)
    assert.equal(subscription.enabled, true)
    assert.equal(subscription.disabled_reason, null)
    const { rows } = await control.database.pool.query(
      'select first_failure_at, state from lane where subscription_id = $1',
      [id],
    )
    assert.deepEqual(rows, [{ first_failure_at: null, state: 'ready' }])
  })

  test('leaves off what its owner has switched off', async () => {
    control.probe.outcome = delivered
    const { id } = await subscribe(control, 'acme', { enabled: false })
    assert.equal((await verify(id)).subscription.enabled, false)
  })

  test('a sink that was changed while it was probed is not verified by that probe', async () => {
    const id = await subscribeUnverified()
    control.probe.outcome = async () => {
      control.probe.outcome = failed()
      const body = { sink: { url: 'https://other.example.com/' } }
      await control.call({ method: 'PATCH', url: `/v1/subscriptions/${id}`, tenant: 'acme', body })
      return delivered
    }
    const answer = await control.call({ method: 'POST', url: `/v1/subscriptions/${id}/verify`, tenant: 'acme' })
    assertProblem(answer, 409, 'conflict')
    await control.server.settled()
    const { body } = await control.call({ url: `/v1/subscriptions/${id}`, tenant: 'acme' })
    assert.equal((body as Verified['subscription']).verification_state, 'failed')
  })

  test('a probe that could not be made is an error of the hub, without its message', async () => {
    const id = await subscribeUnverified()
    control.probe.outcome = async () => {
      throw new Error('the key s3cr3t is broken')
    }
    const answer = await control.call({ method: 'POST', url: `/v1/subscriptions/${id}/verify`, tenant: 'acme' })
    assertProblem(answer, 500, 'internal')
    assert.ok(!answer.text.includes('s3cr3t'))
  })

  test('stopping cuts a probe off that nobody waits for', async () => {
    await using own = await testControl({
      probe: async (_subscription, signal) =>
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('aborted')))
        }),
    })
    const body = { name: 'x', event_types: ['*'], sink: { kind: 'webhook', url: 'https://slow.example.com/' } }
    assert.equal((await own.call({ method: 'POST', url: '/v1/subscriptions', tenant: 'acme', body })).status, 201)
    await own.server.stop(new AbortController().signal)
    await own.server.settled()
  })
})

interface Rotated {
  signing_secret: string
  old_secrets_expire_at: string
}

async function rotate(id: string, body?: object): Promise<Rotated> {
  const url = `/v1/subscriptions/${id}/rotate-secret`
  const answer = await control.call({ method: 'POST', url, tenant: 'acme', ...(body && { body }) })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as Rotated
}

async function expiries(id: string): Promise<(string | null)[]> {
  const { rows } = await control.database.pool.query<{ expires_at: Date | null }>(
    'select expires_at from subscription_secret where subscription_id = $1 order by expires_at desc nulls first',
    [id],
  )
  return rows.map(({ expires_at }) => expires_at?.toISOString() ?? null)
}

const later = (ms: number): string => new Date(control.clock.now() + ms).toISOString()

const HOUR = 3_600_000

test('a secret that does not open is the hub’s trouble, for now', async () => {
  const { id } = await subscribe(control, 'acme')
  const probed = control.probe.outcome
  control.probe.outcome = () => Promise.reject(new SecretError('unknown_key', 'not in the ring'))
  const url = `/v1/subscriptions/${id}/verify`
  assertProblem(await control.call({ method: 'POST', url, tenant: 'acme' }), 503, 'unavailable')
  control.probe.outcome = probed
})

describe('rotating the signing secret', () => {
  test('shows the new one; the old one goes on for a day, or as long as was asked', async () => {
    const { id, signing_secret } = await subscribe(control, 'acme')
    const first = await rotate(id)
    assert.match(first.signing_secret, /^whsec_/)
    assert.notEqual(first.signing_secret, signing_secret)
    assert.equal(first.old_secrets_expire_at, later(24 * HOUR))
    assert.deepEqual(await expiries(id), [null, later(24 * HOUR)])

    control.clock.advance(HOUR)
    await rotate(id, { overlap: '1h' })
    assert.deepEqual(await expiries(id), [null, later(HOUR), later(HOUR)])
    control.clock.advance(HOUR)
    await rotate(id, { overlap: '48h' })
    assert.deepEqual(await expiries(id), [null, later(48 * HOUR)])
  })

  test('with an overlap of 0s nothing but the new one signs', async () => {
    const { id } = await subscribe(control, 'acme')
    await rotate(id, {})
    await rotate(id, { overlap: '0s' })
    assert.deepEqual(await expiries(id), [null])
  })

  test('no more than four old ones go on', async () => {
    const { id } = await subscribe(control, 'acme')
    for (let nth = 0; nth < 7; nth++) {
      control.clock.advance(1000)
      await rotate(id)
    }
    assert.equal((await expiries(id)).length, 5)
  })

  test('takes effect on what is queued: the version rises', async () => {
    const { id } = await subscribe(control, 'acme')
    const version = async (): Promise<unknown> =>
      (
        await control.database.pool.query(
          'select s.version, l.version = s.version as same from subscription s join lane l on l.subscription_id = s.id where s.id = $1',
          [id],
        )
      ).rows
    const [earlier] = (await version()) as [{ version: number }]
    await rotate(id)
    assert.deepEqual(await version(), [{ version: earlier.version + 1, same: true }])
  })

  test('faults have their path', async () => {
    const { id } = await subscribe(control, 'acme')
    const url = `/v1/subscriptions/${id}/rotate-secret`
    const rotating = { method: 'POST', url, tenant: 'acme' } as const
    assertFaults(await control.call({ ...rotating, body: { overlap: '31d' } }), ['/overlap'])
    assertFaults(await control.call({ ...rotating, body: { overlap: 'x' } }), ['/overlap'])
    assertFaults(await control.call({ ...rotating, body: { secret: 'x' } }), ['/secret'])
    assertFaults(await control.call({ ...rotating, body: [] }), [''])
  })
})
