import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { deliver, publish, subscribe, walk } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { delivered, failed } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface DeliveryJson {
  id: string
  event_id: string
  kind: string
  replay_of: string | null
  replay_id: string | null
  state: string
  reason: string | null
  attempt_count: number
  next_attempt_at: string | null
  finished_at: string | null
  last_status: number | null
  last_error: string | null
  attempts: Record<string, unknown>[]
}

async function list(tenant: string, subscription: string, query = ''): Promise<DeliveryJson[]> {
  return await walk(control, { url: `/v1/subscriptions/${subscription}/deliveries?${query}`, tenant, limit: 2 })
}

async function read(tenant: string, id: string): Promise<DeliveryJson> {
  const answer = await control.call({ url: `/v1/deliveries/${id}`, tenant })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as DeliveryJson
}

async function retry(tenant: string, id: string): Promise<{ status: number; delivery: DeliveryJson }> {
  const { status, body } = await control.call({ method: 'POST', url: `/v1/deliveries/${id}/retry`, tenant })
  return { status, delivery: body as DeliveryJson }
}

const now = (): string => new Date(control.clock.now()).toISOString()

describe('a delivery', () => {
  test('is queued, retrying and delivered by turns, with an attempt for each try', async () => {
    const { id } = await subscribe(control, 'stages', { retry_schedule: ['0s', '0s', '0s'] })
    const event = await publish(control, 'stages')
    const [queued] = await list('stages', id)
    assert.ok(queued)
    const { id: delivery, ...rest } = queued
    assert.deepEqual(rest, {
      event_id: event.id,
      subscription_id: id,
      kind: 'event',
      replay_of: null,
      replay_id: null,
      state: 'queued',
      reason: null,
      attempt_count: 0,
      next_attempt_at: now(),
      created_at: now(),
      finished_at: null,
      last_status: null,
      last_error: null,
    })
    assert.deepEqual((await read('stages', delivery)).attempts, [])

    const answers = [
      failed({ status: 500, response: Buffer.from('¡no!') }),
      failed({ status: 502, response: Buffer.from([0xff, 0]) }),
      delivered,
    ]
    let nth = 0
    assert.equal(await deliver(control, () => answers[nth++]!), 3)
    const { attempts, ...done } = await read('stages', delivery)
    assert.equal(done.state, 'delivered')
    assert.equal(done.attempt_count, 3)
    assert.equal(done.next_attempt_at, null)
    assert.equal(done.finished_at, now())
    assert.deepEqual(
      attempts.map(({ number, outcome, status, error_class, response, response_encoding }) => ({
        number,
        outcome,
        status,
        error_class,
        response,
        response_encoding,
      })),
      [
        {
          number: 1,
          outcome: 'failed',
          status: 500,
          error_class: 'http_status',
          response: '¡no!',
          response_encoding: 'utf-8',
        },
        {
          number: 2,
          outcome: 'failed',
          status: 502,
          error_class: 'http_status',
          response: '/wA=',
          response_encoding: 'base64',
        },
        { number: 3, outcome: 'delivered', status: 200, error_class: null, response: 'ok', response_encoding: 'utf-8' },
      ],
    )
  })

  test('that waits for its next attempt says when, and what went wrong', async () => {
    const { id } = await subscribe(control, 'waits', { retry_schedule: ['0s', '10h'] })
    await publish(control, 'waits')
    await deliver(control, () => failed({ status: 500, detail: 'answered 500' }))
    const [waiting] = await list('waits', id)
    assert.equal(waiting?.state, 'retrying')
    assert.equal(waiting.last_status, 500)
    assert.equal(waiting.last_error, 'answered 500')
    assert.ok(waiting.next_attempt_at! > now())
  })

  test('whose schedule is used up is dead-lettered, with the reason', async () => {
    const { id } = await subscribe(control, 'dead', { retry_schedule: ['0s'] })
    await publish(control, 'dead')
    await deliver(control, () => failed())
    const [dead] = await list('dead', id)
    assert.equal(dead?.state, 'dead_lettered')
    assert.equal(dead.reason, 'exhausted')
    assert.equal(dead.last_error, 'answered 500')
  })
})

describe('listing deliveries', () => {
  test('walks unfinished and finished ones together, each once, the newest first', async () => {
    const { id } = await subscribe(control, 'lister', { retry_schedule: ['0s', '10h'] })
    for (let nth = 0; nth < 9; nth++) {
      control.clock.advance(1000)
      await publish(control, 'lister')
      if (nth === 3) await deliver(control, () => failed()) // four retrying
      if (nth === 6) await deliver(control) // three delivered
    }
    const found = await list('lister', id)
    const ids = found.map((delivery) => delivery.id)
    assert.equal(new Set(ids).size, 9)
    assert.deepEqual(ids, ids.toSorted().reverse())
    assert.deepEqual(
      found.map(({ state }) => state),
      [...Array(2).fill('queued'), ...Array(3).fill('delivered'), ...Array(4).fill('retrying')],
    )
  })

  test('filters by state and by time', async () => {
    const { id } = await subscribe(control, 'filterer', { retry_schedule: ['0s'] })
    control.clock.advance(60_000)
    await publish(control, 'filterer')
    await deliver(control, () => failed())
    control.clock.advance(60_000)
    const border = now()
    await publish(control, 'filterer')
    const states = async (query: string): Promise<string[]> =>
      (await list('filterer', id, query)).map(({ state }) => state)
    assert.deepEqual(await states(''), ['queued', 'dead_lettered'])
    for (const state of ['queued', 'dead_lettered']) assert.deepEqual(await states(`state=${state}`), [state])
    for (const state of ['retrying', 'delivered']) assert.deepEqual(await states(`state=${state}`), [])
    assert.deepEqual(await states(`since=${border}`), ['queued'])
    assert.deepEqual(await states(`until=${border}`), ['dead_lettered'])
    assert.deepEqual(await states('since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z'), ['queued', 'dead_lettered'])
    assert.deepEqual(await states('until=1960-01-01T00:00:00Z'), [])
  })

  test('refuses what it does not know', async () => {
    const { id } = await subscribe(control, 'acme')
    const url = `/v1/subscriptions/${id}/deliveries`
    assertFaults(await control.call({ url: `${url}?state=lost`, tenant: 'acme' }), ['?state'])
    assertFaults(await control.call({ url: `${url}?since=yesterday`, tenant: 'acme' }), ['?since'])
    assertFaults(await control.call({ url: `${url}?cursor=WzEsMl0`, tenant: 'acme' }), ['?cursor'])
    const foreign = Buffer.from(JSON.stringify(['subscriptions', id])).toString('base64url')
    assertFaults(await control.call({ url: `${url}?cursor=${foreign}`, tenant: 'acme' }), ['?cursor'])
  })
})

describe('retrying by hand', () => {
  test('makes an unfinished one due now, and wakes its lane', async () => {
    const { id } = await subscribe(control, 'hasty', { retry_schedule: ['0s', '10h'] })
    await publish(control, 'hasty')
    await deliver(control, () => failed())
    const [waiting] = await list('hasty', id)
    assert.equal(await deliver(control), 0)
    const { status, delivery } = await retry('hasty', waiting!.id)
    assert.equal(status, 200)
    assert.equal(delivery.id, waiting!.id)
    assert.equal(delivery.next_attempt_at, now())
    assert.equal(await deliver(control), 1)
    assert.equal((await read('hasty', waiting!.id)).state, 'delivered')
  })

  test('also the head of a strict line, which blocks its lane', async () => {
    const { id } = await subscribe(control, 'strict', { ordering: 'strict', retry_schedule: ['0s', '10h'] })
    await publish(control, 'strict')
    await publish(control, 'strict')
    await deliver(control, () => failed())
    const [head] = await list('strict', id, 'state=retrying')
    await retry('strict', head!.id)
    assert.equal(await deliver(control), 2)
  })

  test('delivers a finished one once more, as a new delivery of the same event', async () => {
    const { id } = await subscribe(control, 'again', { retry_schedule: ['0s'] })
    const event = await publish(control, 'again')
    await deliver(control, () => failed())
    const [dead] = await list('again', id)
    const { status, delivery } = await retry('again', dead!.id)
    assert.equal(status, 201)
    assert.notEqual(delivery.id, dead!.id)
    assert.equal(delivery.kind, 'replay')
    assert.deepEqual([delivery.replay_of, delivery.replay_id], [dead!.id, null])
    assert.equal(delivery.event_id, event.id)
    assert.equal(await deliver(control), 1)
    assert.equal((await read('again', delivery.id)).state, 'delivered')
    assert.equal((await read('again', dead!.id)).state, 'dead_lettered')
  })

  test('twice, of a finished one, makes one delivery while that is on its way', async () => {
    const { id } = await subscribe(control, 'twice', { retry_schedule: ['0s', '10h'] })
    await publish(control, 'twice')
    await deliver(control)
    const [done] = await list('twice', id)
    const both = await Promise.all([retry('twice', done!.id), retry('twice', done!.id)])
    assert.deepEqual(
      both.map(({ status }) => status).sort((a, b) => a - b),
      [200, 201],
    )
    assert.equal(new Set(both.map(({ delivery }) => delivery.id)).size, 1)
    assert.equal(await deliver(control, () => failed()), 1)
    const third = await retry('twice', done!.id)
    assert.deepEqual([third.status, third.delivery.id], [200, both[0].delivery.id])
    assert.equal(await deliver(control), 1)
    assert.equal((await retry('twice', done!.id)).status, 201)
    assert.equal(await deliver(control), 1)
  })

  test('is refused when the event is no longer kept', async () => {
    const { id } = await subscribe(control, 'forgetful')
    await publish(control, 'forgetful')
    await deliver(control)
    await control.database.pool.query("delete from event_inbox where tenant_id = 'forgetful'")
    const [done] = await list('forgetful', id)
    const answer = await control.call({ method: 'POST', url: `/v1/deliveries/${done!.id}/retry`, tenant: 'forgetful' })
    assertProblem(answer, 409, 'conflict')
  })

  test('is refused when the subscription is deleted', async () => {
    const { id } = await subscribe(control, 'deleted')
    await publish(control, 'deleted')
    await deliver(control)
    const [done] = await list('deleted', id)
    await control.call({ method: 'DELETE', url: `/v1/subscriptions/${id}`, tenant: 'deleted' })
    const answer = await control.call({ method: 'POST', url: `/v1/deliveries/${done!.id}/retry`, tenant: 'deleted' })
    assertProblem(answer, 409, 'conflict')
    assert.equal((await read('deleted', done!.id)).state, 'delivered')
  })

  test('of what does not exist is not found', async () => {
    const url = '/v1/deliveries/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'
    assertProblem(await control.call({ url, tenant: 'acme' }), 404, 'not_found')
    assertProblem(await control.call({ method: 'POST', url: `${url}/retry`, tenant: 'acme' }), 404, 'not_found')
    assertFaults(await control.call({ url: '/v1/deliveries/12', tenant: 'acme' }), [':id'])
  })
})

describe('filters of a list', () => {
  test('pick out what they say, and together', async () => {
    const { id } = await subscribe(control, 'filters', { retry_schedule: ['0s'] })
    const good = await publish(control, 'filters')
    await deliver(control)
    control.clock.advance(1_000)
    const bad = await publish(control, 'filters', { resourceType: 'card', key: 'card.lost' })
    await deliver(control, () => failed({ status: 418 }))
    control.clock.advance(1_000)
    const waiting = await publish(control, 'filters')
    const events = async (query: string) => (await list('filters', id, query)).map(({ event_id }) => event_id)
    assert.deepEqual(await events(''), [waiting.id, bad.id, good.id])
    assert.deepEqual(await events(`event_id=${good.id}`), [good.id])
    assert.deepEqual(await events('event_type=card.lost'), [bad.id])
    assert.deepEqual(await events('event_type=loan.approved'), [waiting.id, good.id])
    assert.deepEqual(await events('last_status=418'), [bad.id])
    assert.deepEqual(await events('reason=exhausted'), [bad.id])
    assert.deepEqual(await events('reason=poisoned'), [])
    assert.deepEqual(await events('kind=replay'), [])
    assert.deepEqual(await events('state=queued&kind=event'), [waiting.id])
    assert.deepEqual(await events('state=delivered&last_status=418'), [])
  })

  test('that pick out few are followed to the end, however many there are before', async () => {
    const { id } = await subscribe(control, 'rare')
    const { pool } = control.database
    await pool.query(
      `insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, attempts, failures, crashes, created_at,
        finished_at, last_status)
       select uuid7(at), n, 'rare', $1, uuid7(at), 'event', 'delivered', 1, 0, 0, at, at, case when n in (4, 4999) then 204 else 200 end
       from generate_series(1, 5000) n, lateral (select $2::timestamptz - n * interval '1 second' as at) t`,
      [id, new Date(control.clock.now())],
    )
    const found = await walk<DeliveryJson>(control, {
      url: `/v1/subscriptions/${id}/deliveries?last_status=204`,
      tenant: 'rare',
      limit: 10,
    })
    assert.equal(found.length, 2)
  })

  test('a delivery that is finished while somebody pages is neither lost nor shown twice', async () => {
    const { id } = await subscribe(control, 'paging')
    const published: string[] = []
    for (let n = 0; n < 12; n++) {
      published.unshift((await publish(control, 'paging')).id)
      control.clock.advance(1_000)
    }
    const shown: string[] = []
    let cursor: string | null = null
    do {
      const query: string = cursor ? `&cursor=${cursor}` : ''
      const answer = await control.call({
        url: `/v1/subscriptions/${id}/deliveries?limit=5${query}`,
        tenant: 'paging',
      })
      const page = answer.body as { items: DeliveryJson[]; next_cursor: string | null }
      shown.push(...page.items.map(({ event_id }) => event_id))
      cursor = page.next_cursor
      // All of them move to the history after the first page.
      await deliver(control)
    } while (cursor !== null)
    assert.deepEqual(shown, published)
  })
})

test("attempts beyond a detail's first hundred are behind its cursor", async () => {
  const { id } = await subscribe(control, 'many')
  await publish(control, 'many')
  const [delivery] = await list('many', id)
  const { pool } = control.database
  await pool.query(
    `insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, outcome)
     select uuid7($3), $1, 'many', $2, n, $3, 'outcome_unknown' from generate_series(1, 230) n`,
    [delivery!.id, id, new Date(control.clock.now())],
  )
  const detail = (await read('many', delivery!.id)) as DeliveryJson & { attempts_next_cursor: string }
  const url = `/v1/deliveries/${delivery!.id}/attempts`
  const rest: { number: number }[] = []
  let cursor: string | null = detail.attempts_next_cursor
  while (cursor !== null) {
    const answer = await control.call({ url: `${url}?limit=50&cursor=${cursor}`, tenant: 'many' })
    const page = answer.body as { items: { number: number }[]; next_cursor: string | null }
    rest.push(...page.items)
    cursor = page.next_cursor
  }
  const numbers = [...detail.attempts, ...rest].map(({ number }) => number)
  assert.deepEqual(
    numbers,
    Array.from({ length: 230 }, (_, n) => n + 1),
  )
  assertFaults(await control.call({ url: `${url}?cursor=x`, tenant: 'many' }), ['?cursor'])
})
