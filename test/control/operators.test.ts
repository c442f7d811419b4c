import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { storeQuarantined } from '../../src/store/inbox.ts'
import { deliver, publish, subscribe, walk } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { uuid7 } from '../support/fixtures.ts'
import { header } from '../support/records.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { failed } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface BreakerJson {
  key: string
  tenant_id: string
  state: string
  failures: number
  blocked_until: string | null
}

async function quarantine(given: {
  reason: string
  source?: string
  value?: Buffer | null
  headers?: [Buffer | null, Buffer | null][]
}): Promise<string> {
  const id = uuid7(control.clock.now())
  const { reason, source = null, value = null, headers = [] } = given
  const record = {
    topic: 'lerian.streaming.lender',
    position: { partition: 3, offset: 42n },
    timestamp: 1000,
    key: Buffer.from('k'),
    headers,
    value,
  }
  await storeQuarantined(
    control.database.pool,
    [{ id, reason, detail: `is ${reason}`, source, record }],
    new Date(control.clock.now()),
  )
  control.clock.advance(1000)
  return id
}

const hour = (at: string): string => `${at.slice(0, 13)}:00:00.000Z`

describe('the quarantine', () => {
  test('shows a record whole: readable, and every byte of it', async () => {
    const id = await quarantine({
      reason: 'not_utf8',
      source: 'lender',
      headers: [header('ce-id', 'x'), [Buffer.from('ce-\u0000'), Buffer.from([0xff])], [null, null]],
      value: Buffer.from([0, 0xff]),
    })
    const answer = await control.call({ url: `/admin/quarantine/${id}` })
    assert.equal(answer.status, 200, answer.text)
    const { quarantined_at: _, ...shown } = answer.body as Record<string, unknown>
    assert.deepEqual(shown, {
      id,
      reason: 'not_utf8',
      detail: 'is not_utf8',
      source: 'lender',
      topic: 'lerian.streaming.lender',
      partition: 3,
      offset: 42,
      record_time: '1970-01-01T00:00:01.000Z',
      key_base64: 'aw==',
      headers: [
        { name: 'ce-id', value: 'x', name_base64: 'Y2UtaWQ=', value_base64: 'eA==' },
        { name: 'ce-\u0000', value: '\ufffd', name_base64: 'Y2UtAA==', value_base64: '/w==' },
        { name: null, value: null, name_base64: null, value_base64: null },
      ],
      value_base64: 'AP8=',
      value_bytes: 2,
    })
  })

  test('is walked whole, filtered by reason, source and time', async () => {
    const since = new Date(control.clock.now()).toISOString()
    const made: string[] = []
    for (const reason of ['invalid_id', 'invalid_time', 'invalid_id']) {
      made.push(await quarantine({ reason, source: 'ledger' }), await quarantine({ reason, source: 'matcher' }))
    }
    const until = new Date(control.clock.now()).toISOString()
    await quarantine({ reason: 'invalid_id', source: 'ledger' })
    const found = async (query: string): Promise<number[]> => {
      const url = `/admin/quarantine?since=${since}&until=${until}&${query}`
      return (await walk<{ id: string }>(control, { url, limit: 2 })).map(({ id }) => made.indexOf(id))
    }
    assert.deepEqual(await found(''), [5, 4, 3, 2, 1, 0])
    assert.deepEqual(await found('reason=invalid_id'), [5, 4, 1, 0])
    assert.deepEqual(await found('reason=invalid_id&source=ledger'), [4, 0])
    assert.deepEqual(await found('reason=missing_tenant'), [])
  })

  test('a page of large records ends early, and the walk still finds each once', async () => {
    const source = 'large'
    const made: string[] = []
    for (let nth = 0; nth < 5; nth++)
      made.push(await quarantine({ reason: 'payload_too_large', source, value: Buffer.alloc(3 << 20, nth) }))
    const { body } = await control.call({ url: '/admin/quarantine?source=large' })
    assert.equal((body as { items: unknown[] }).items.length, 2)
    const found = await walk<{ id: string }>(control, { url: '/admin/quarantine?source=large', limit: 100 })
    assert.deepEqual(
      found.map(({ id }) => id),
      made.reverse(),
    )
  })

  test('gives a value as a file', async () => {
    const id = await quarantine({ reason: 'not_utf8', value: Buffer.from('<b>\0') })
    const { status, headers, text } = await control.call({ url: `/admin/quarantine/${id}/body` })
    assert.equal(status, 200)
    assert.equal(headers['content-type'], 'application/octet-stream')
    assert.equal(headers['content-disposition'], `attachment; filename="quarantined-${id}.bin"`)
    assert.equal(text, '<b>\0')
    const empty = await quarantine({ reason: 'not_utf8' })
    for (const none of [empty, uuid7()])
      assertProblem(await control.call({ url: `/admin/quarantine/${none}/body` }), 404, 'not_found')
  })

  test('is counted by reason and source, and over time', async () => {
    const start = control.clock.now()
    const time = (seconds: number): string => new Date(start + seconds * 1000).toISOString()
    for (const [reason, source] of [
      ['invalid_id', 'counted'],
      ['invalid_id', 'counted'],
      ['invalid_time', 'counted'],
      ['invalid_id', undefined],
    ] as const)
      await quarantine({ reason, ...(source && { source }) })
    control.clock.advance(3_600_000)
    await quarantine({ reason: 'invalid_id', source: 'counted' })
    const counts = async (query: string): Promise<unknown> =>
      (await control.call({ url: `/admin/quarantine/counts?since=${time(0)}&${query}` })).body
    assert.deepEqual(await counts(''), {
      items: [
        { reason: 'invalid_id', source: 'counted', count: 3, last_at: time(3604) },
        { reason: 'invalid_id', source: null, count: 1, last_at: time(3) },
        { reason: 'invalid_time', source: 'counted', count: 1, last_at: time(2) },
      ],
      more: false,
    })
    assert.deepEqual(await counts(`by=reason&source=counted&until=${time(3604)}&limit=1`), {
      items: [{ reason: 'invalid_id', count: 2, last_at: time(1) }],
      more: true,
    })
    assert.deepEqual(await counts('by=reason&bucket=hour&reason=invalid_id'), {
      items: [
        { bucket: hour(time(3604)), reason: 'invalid_id', count: 1, last_at: time(3604) },
        { bucket: hour(time(0)), reason: 'invalid_id', count: 3, last_at: time(3) },
      ],
      more: false,
    })
    assertFaults(await control.call({ url: '/admin/quarantine/counts?by=topic&bucket=week' }), ['?by', '?bucket'])
  })

  test('refuses what it does not know', async () => {
    assertFaults(await control.call({ url: '/admin/quarantine?reason=bad&source=A' }), ['?reason', '?source'])
    assertFaults(await control.call({ url: '/admin/quarantine/1' }), [':id'])
    assertProblem(await control.call({ url: `/admin/quarantine/${uuid7()}` }), 404, 'not_found')
  })

  test('holds what ingest put there', async () => {
    await control.call({ method: 'POST', url: '/v1/ingest', headers: { 'ce-id': 'x' }, raw: '{}' })
    const found = await walk<{ reason: string }>(control, {
      url: '/admin/quarantine?reason=missing_attribute',
      limit: 10,
    })
    assert.equal(found.length, 1)
  })
})

describe('dead letters', () => {
  test('of all tenants, filtered by tenant, subscription, reason and time', async () => {
    const schedule = { retry_schedule: ['0s'] }
    const [one, two] = [await subscribe(control, 'dead-a', schedule), await subscribe(control, 'dead-b', schedule)]
    for (const tenant of ['dead-a', 'dead-b', 'dead-a']) {
      control.clock.advance(1000)
      await publish(control, tenant)
    }
    await deliver(control, () => failed())
    const found = async (query: string): Promise<string[]> =>
      (await walk<{ tenant_id: string }>(control, { url: `/admin/dead-letters?${query}`, limit: 1 })).map(
        ({ tenant_id }) => tenant_id,
      )
    assert.deepEqual(await found(''), ['dead-a', 'dead-b', 'dead-a'])
    assert.deepEqual(await found('tenant_id=dead-a'), ['dead-a', 'dead-a'])
    assert.deepEqual(await found(`subscription_id=${two.id}`), ['dead-b'])
    assert.deepEqual(await found(`subscription_id=${one.id}&reason=poisoned`), [])
    assert.deepEqual(await found(`since=${new Date(control.clock.now()).toISOString()}`), ['dead-a'])
    assertFaults(await control.call({ url: '/admin/dead-letters?tenant_id=%00&reason=x' }), ['?tenant_id', '?reason'])
  })
})

async function openBreaker(tenant: string): Promise<BreakerJson> {
  await subscribe(control, tenant, { retry_schedule: ['0s', '0s', '0s', '0s', '0s', '0s', '0s'] })
  await publish(control, tenant)
  await deliver(control, () => failed())
  const found = await walk<BreakerJson>(control, { url: '/admin/breakers?state=open', limit: 1 })
  const breaker = found.find(({ tenant_id }) => tenant_id === tenant)
  assert.ok(breaker)
  return breaker
}

async function reset(key: string): Promise<BreakerJson> {
  const answer = await control.call({ method: 'POST', url: `/admin/breakers/${key}/reset` })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as BreakerJson
}

describe('breakers', () => {
  test('an open one is listed with until when, and reset: what waited for it goes at once', async () => {
    const breaker = await openBreaker('broken')
    assert.equal(breaker.failures, 5)
    assert.ok(breaker.blocked_until! > new Date(control.clock.now()).toISOString())
    assert.equal(await deliver(control), 0)
    const closed = await reset(breaker.key)
    assert.deepEqual([closed.state, closed.failures, closed.blocked_until], ['closed', 0, null])
    assert.equal(await deliver(control), 1)
  })

  test('a tenant’s name may hold anything', async () => {
    const breaker = await openBreaker('"a/b?c=d" é')
    assert.equal((await reset(breaker.key)).state, 'closed')
  })

  test('one that does not exist is not found', async () => {
    for (const key of [
      'nope',
      Buffer.from('["a","b"]').toString('base64url'),
      Buffer.from('["a\u0000","b"]').toString('base64url'),
    ]) {
      assertProblem(await control.call({ method: 'POST', url: `/admin/breakers/${key}/reset` }), 404, 'not_found')
    }
    assertFaults(await control.call({ url: '/admin/breakers?state=ajar' }), ['?state'])
  })

  test('all are walked once', async () => {
    const all = await walk<BreakerJson>(control, { url: '/admin/breakers', limit: 2 })
    const keys = all.map(({ key }) => key)
    assert.ok(keys.length >= 4)
    assert.equal(new Set(keys).size, keys.length)
  })
})

describe('tenants', () => {
  test('are listed by name, with what waits for them', async () => {
    await subscribe(control, 'tenant-a', { enabled: false })
    await subscribe(control, 'tenant-b')
    const oldest = new Date(control.clock.now()).toISOString()
    await publish(control, 'tenant-b')
    control.clock.advance(5000)
    await publish(control, 'tenant-b')
    const found = await walk<Record<string, unknown>>(control, { url: '/admin/tenants', limit: 1 })
    const names = found.map(({ tenant_id }) => tenant_id as string)
    assert.equal(new Set(names).size, names.length)
    const rest = { subscriptions: 1, backlog_is_exact: true, open_breakers: 0 }
    assert.deepEqual(
      found.find(({ tenant_id }) => tenant_id === 'tenant-a'),
      { tenant_id: 'tenant-a', backlog: 0, oldest_queued_at: null, ...rest },
    )
    assert.deepEqual(
      found.find(({ tenant_id }) => tenant_id === 'tenant-b'),
      { tenant_id: 'tenant-b', backlog: 2, oldest_queued_at: oldest, ...rest },
    )
  })
})

describe('the stream', () => {
  test('lag and topics are shown as the consumer says them', async () => {
    await using own = await testControl({
      stream: {
        lag: () => [
          {
            group: 'facts',
            topic: 'lerian.streaming.lender',
            partition: 0,
            position: 12n,
            committed: 10n,
            end: 15n,
            lag: 5n,
            failures: 0,
            problem: null,
            lastProgressAt: 0,
          },
          {
            group: 'dead',
            topic: 'lerian.streaming.lender',
            partition: 1,
            position: null,
            committed: null,
            end: null,
            lag: null,
            failures: 2,
            problem: 'not leader',
            lastProgressAt: 0,
          },
        ],
        topics: () => [
          {
            topic: 'lerian.streaming.lender',
            kind: 'facts',
            state: 'sick',
            problem: 'no leader',
            partitions: 3,
            maxMessageBytes: 1024,
            deadLetters: 'too_small',
          },
        ],
      },
    })
    const lag = (await own.call({ url: '/admin/lag' })).body as {
      items: { group: string; lag: number | null; problem: string | null }[]
    }
    assert.deepEqual(
      lag.items.map((item) => [item.group, item.lag, item.problem]),
      [
        ['facts', 5, null],
        ['dead', null, 'not leader'],
      ],
    )
    const topics = await own.call({ url: '/admin/topics' })
    assert.deepEqual(topics.body, {
      items: [
        {
          topic: 'lerian.streaming.lender',
          kind: 'facts',
          state: 'sick',
          problem: 'no leader',
          partitions: 3,
          max_message_bytes: 1024,
          dead_letters: 'too_small',
        },
      ],
    })
  })
})
