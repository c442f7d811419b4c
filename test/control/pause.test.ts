import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { deliver, publish, subscribe } from '../support/api.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { delivered, failed } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface Shown {
  enabled: boolean
  verification_state: string
  disabled_reason: string | null
  disabled_at: string | null
}

async function act(tenant: string, path: string, body?: unknown): Promise<Shown & { answer: Answer }> {
  const answer = await control.call({
    method: 'POST',
    url: `/v1/subscriptions/${path}`,
    tenant,
    ...(body !== undefined && { body }),
  })
  assert.equal(answer.status, 200, answer.text)
  return { ...(answer.body as Shown), answer }
}

async function disableByHub(id: string): Promise<void> {
  await control.database.pool.query(
    `with s as (update subscription set enabled = false, disabled_reason = 'failing', disabled_at = now(), version = version + 1
       where id = $1 returning id, version)
     update lane set version = s.version, first_failure_at = now() - interval '6 days', last_failure_at = now() from s where subscription_id = s.id`,
    [id],
  )
}

describe('a pause', () => {
  test('holds what is queued, and what arrives meanwhile is matched by nothing', async () => {
    const { id } = await subscribe(control, 'holder')
    await publish(control, 'holder')
    assert.equal((await act('holder', `${id}/pause`)).enabled, false)
    const { id: missed } = await publish(control, 'holder')
    assert.equal(await deliver(control), 0)
    const { body } = await control.call({ url: `/v1/events/${missed}/explain`, tenant: 'holder' })
    assert.match(JSON.stringify(body), /disabled/)
    assert.equal((await act('holder', `${id}/resume`)).enabled, true)
    await publish(control, 'holder')
    assert.equal(await deliver(control), 2)
  })

  test('has its reason and its time shown until it is over', async () => {
    const { id } = await subscribe(control, 'reasoner')
    const paused = await act('reasoner', `${id}/pause`, { reason: 'the ledger moves' })
    assert.equal(paused.disabled_reason, 'the ledger moves')
    assert.equal(paused.disabled_at, new Date(control.clock.now()).toISOString())
    const resumed = await act('reasoner', `${id}/resume`)
    assert.deepEqual([resumed.enabled, resumed.disabled_reason, resumed.disabled_at], [true, null, null])
    for (const body of [undefined, {}, { reason: null }]) {
      const silent = await act('reasoner', `${id}/pause`, body)
      assert.deepEqual([silent.enabled, silent.disabled_reason, silent.disabled_at], [false, null, null])
      await act('reasoner', `${id}/resume`)
    }
  })

  test('of what is paused, and a resumption of what is not, change nothing', async () => {
    const { id } = await subscribe(control, 'twice')
    const running = await act('twice', `${id}/resume`)
    const { headers } = await control.call({ url: `/v1/subscriptions/${id}`, tenant: 'twice' })
    assert.equal(running.answer.headers['etag'], headers['etag'])
    const paused = await act('twice', `${id}/pause`, { reason: 'first' })
    control.clock.advance(1_000)
    const again = await act('twice', `${id}/pause`, { reason: 'second' })
    assert.deepEqual(again.answer.body, paused.answer.body)
    assert.equal(again.answer.headers['etag'], paused.answer.headers['etag'])
  })

  test('is the same as enabled: false', async () => {
    const { id } = await subscribe(control, 'same')
    const url = `/v1/subscriptions/${id}`
    const patched = await control.call({ method: 'PATCH', url, tenant: 'same', body: { enabled: false } })
    const paused = await act('same', `${id}/pause`, { reason: 'too late' })
    assert.deepEqual(paused.answer.body, patched.body)
    await act('same', `${id}/resume`)
    await act('same', `${id}/pause`, { reason: 'why' })
    const enabled = await control.call({ method: 'PATCH', url, tenant: 'same', body: { enabled: true } })
    assert.equal((enabled.body as Shown).disabled_reason, null)
  })

  test('is not ended by a verification; what the hub had switched off is, unless its owner pauses it', async () => {
    const { id } = await subscribe(control, 'verified')
    await act('verified', `${id}/pause`, { reason: 'mine' })
    const still = (await act('verified', `${id}/verify`)).answer.body as { subscription: Shown }
    assert.equal(still.subscription.enabled, false)
    assert.equal(still.subscription.disabled_reason, 'mine')
    await act('verified', `${id}/resume`)
    await disableByHub(id)
    const again = (await act('verified', `${id}/verify`)).answer.body as { subscription: Shown }
    assert.equal(again.subscription.enabled, true)
    await disableByHub(id)
    const taken = await act('verified', `${id}/pause`)
    assert.deepEqual([taken.enabled, taken.disabled_reason], [false, null])
    const not = (await act('verified', `${id}/verify`)).answer.body as { subscription: Shown }
    assert.equal(not.subscription.enabled, false)
  })

  test('ended by hand clears the failure streak of what the hub had switched off', async () => {
    const { id } = await subscribe(control, 'streaky')
    await disableByHub(id)
    assert.equal((await act('streaky', `${id}/resume`)).enabled, true)
    const { rows } = await control.database.pool.query('select first_failure_at from lane where subscription_id = $1', [
      id,
    ])
    assert.deepEqual(rows, [{ first_failure_at: null }])
  })

  test('leaves the verification alone', async () => {
    control.probe.outcome = failed({ status: 503 })
    const { id } = await subscribe(control, 'unverified')
    await act('unverified', `${id}/pause`)
    control.probe.outcome = delivered
    assert.equal((await act('unverified', `${id}/resume`)).verification_state, 'failed')
  })

  test('takes a reason of one line and nothing else', async () => {
    const { id } = await subscribe(control, 'strict')
    const pause = async (body: unknown): Promise<Answer> =>
      await control.call({ method: 'POST', url: `/v1/subscriptions/${id}/pause`, tenant: 'strict', body })
    for (const reason of ['', 'a\nb', 'x'.repeat(501), 7, ' ']) assertFaults(await pause({ reason }), ['/reason'])
    assertFaults(await pause({ until: '2027-01-01' }), ['/until'])
    const none = '/v1/subscriptions/019e2713-6fe4-7f94-a675-6d1a78280ce9/pause'
    assertProblem(await control.call({ method: 'POST', url: none, tenant: 'strict' }), 404, 'not_found')
  })
})
