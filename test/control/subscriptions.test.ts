import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { storeEvents } from '../../src/store/inbox.ts'
import { anEvent, arrive } from '../support/fixtures.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { scriptedSink } from '../support/scripted-sink.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface SubscriptionJson {
  id: string
  enabled: boolean
  verification_state: string
  signing_secret: string
  sink: { url: string; headers: object; timeout: string }
  [field: string]: unknown
}

const wish = {
  name: 'loan approvals to core',
  event_types: ['loan_application.approved'],
  sink: { kind: 'webhook', url: 'https://core.example.com/hooks' },
}

async function create(tenant: string, body: object = {}): Promise<SubscriptionJson> {
  const answer = await control.call({ method: 'POST', url: '/v1/subscriptions', tenant, body: { ...wish, ...body } })
  assert.equal(answer.status, 201, answer.text)
  await control.server.settled()
  return answer.body as SubscriptionJson
}

async function read(tenant: string, id: string): Promise<SubscriptionJson> {
  const answer = await control.call({ url: `/v1/subscriptions/${id}`, tenant })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as SubscriptionJson
}

async function patch(tenant: string, id: string, body: object): Promise<SubscriptionJson> {
  const answer = await control.call({ method: 'PATCH', url: `/v1/subscriptions/${id}`, tenant, body })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as SubscriptionJson
}

async function row<T>(text: string, ...values: unknown[]): Promise<T> {
  const { rows } = await control.database.pool.query(text, values)
  return rows[0] as T
}

interface LaneRow {
  state: string
  version: number
  wake_gen: number
  destination_key: string
  turn: number
  first_failure_at: Date | null
}

async function laneOf(id: string): Promise<LaneRow> {
  return await row<LaneRow>('select * from lane where subscription_id = $1', id)
}

describe('creating a subscription', () => {
  test('answers it with its defaults, its place and the signing secret', async () => {
    const answer = await control.call({ method: 'POST', url: '/v1/subscriptions', tenant: 'acme', body: wish })
    assert.equal(answer.status, 201)
    const created = answer.body as SubscriptionJson
    assert.equal(answer.headers['location'], `/v1/subscriptions/${created.id}`)
    assert.match(created.signing_secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    const { id, signing_secret: _, created_at, updated_at, ...rest } = created
    assert.match(id, /^[0-9a-f-]{14}7/)
    assert.equal(created_at, updated_at)
    assert.deepEqual(rest, {
      ...wish,
      enabled: true,
      verification_state: 'pending',
      origin: null,
      schema_major: null,
      sink: { ...wish.sink, headers: {}, auth: null, timeout: '30s' },
      content_mode: 'binary',
      ordering: 'fifo',
      retry_schedule: null,
      disabled_reason: null,
      disabled_at: null,
      metadata: {},
    })
  })

  test('keeps everything that was asked for', async () => {
    const asked = {
      name: 'años €',
      enabled: false,
      origin: 'lender',
      event_types: ['*', 'loan.*', 'loan.approved'],
      schema_major: 0,
      sink: { ...wish.sink, headers: { 'x-env': 'prod' }, auth: null, timeout: '1500ms' },
      content_mode: 'structured',
      ordering: 'strict',
      retry_schedule: ['0s', '5s', '1m', '90s', '10h'],
      metadata: { team: 'core', nested: { list: [1, null, '\u0000'] } },
    }
    const { id } = await create('acme', asked)
    const { verification_state: _, created_at: __, updated_at: ___, ...found } = await read('acme', id)
    assert.deepEqual(found, { id, ...asked, disabled_reason: null, disabled_at: null })
  })

  test('makes its patterns, its lane, its destination and its tenant’s turn', async () => {
    const { id } = await create('maker', { event_types: ['loan.*', 'loan.*', '*'] })
    const patterns = await row<{ found: string[] }>(
      'select array_agg(pattern order by pattern) as found from subscription_pattern where subscription_id = $1',
      id,
    )
    assert.deepEqual(patterns.found, ['*', 'loan.*'])
    const { destination_key } = await laneOf(id)
    const found = await row(
      `select s.destination_key = $2 as same, d.state, t.next_turn is not null as has_turn
       from subscription s join destination d using (tenant_id, destination_key) join tenant_turn t using (tenant_id) where id = $1`,
      id,
      destination_key,
    )
    assert.deepEqual(found, { same: true, state: 'closed', has_turn: true })
  })

  test('stores the secret sealed, never in the clear, and never shows it again', async () => {
    const { id, signing_secret } = await create('acme')
    const { sealed } = await row<{ sealed: string }>(
      'select sealed from subscription_secret where subscription_id = $1',
      id,
    )
    assert.ok(!sealed.includes(signing_secret.slice(6, 20)))
    assert.ok(!('signing_secret' in (await read('acme', id))))
  })

  test('begins the verification, which makes it active', async () => {
    const { id, verification_state } = await create('acme', {
      sink: { ...wish.sink, url: 'https://begun.example.com/' },
    })
    assert.equal(verification_state, 'pending')
    assert.ok(control.probe.probed.includes('https://begun.example.com/'))
    assert.equal((await read('acme', id)).verification_state, 'active')
  })

  test('two subscriptions to one address share its destination', async () => {
    const one = await create('sharer', { sink: { kind: 'webhook', url: 'https://Shared.example.com:443/a' } })
    const two = await create('sharer', { sink: { kind: 'webhook', url: 'https://shared.example.com/a' } })
    assert.equal((await laneOf(one.id)).destination_key, (await laneOf(two.id)).destination_key)
  })
})

describe('faults of a subscription', () => {
  const cases: [string, object, string[]][] = [
    ['nothing at all', {}, ['/name', '/event_types', '/sink']],
    [
      'unknown fields, on every level',
      { ...wish, colour: 1, sink: { ...wish.sink, tls: 2 } },
      ['/colour', '/sink/tls'],
    ],
    ['an empty name', { ...wish, name: '' }, ['/name']],
    ['a name with a control character', { ...wish, name: 'a\u0000b' }, ['/name']],
    ['an origin with a dot', { ...wish, origin: 'lender.x' }, ['/origin']],
    ['no event types', { ...wish, event_types: [] }, ['/event_types']],
    [
      'patterns of another grammar',
      { ...wish, event_types: ['*', 'a', 'a.b.c', '*.a', 'a*.b'] },
      [1, 2, 3, 4].map((n) => `/event_types/${n}`),
    ],
    ['a schema major that is none', { ...wish, schema_major: -1 }, ['/schema_major']],
    ['another kind of sink', { ...wish, sink: { kind: 'pigeon', url: 'https://example.com/' } }, ['/sink/kind']],
    ['a plain http URL', { ...wish, sink: { kind: 'webhook', url: 'http://example.com/' } }, ['/sink/url']],
    ['a private address', { ...wish, sink: { kind: 'webhook', url: 'https://10.0.0.1/' } }, ['/sink/url']],
    [
      'a reserved header',
      { ...wish, sink: { ...wish.sink, headers: { 'X-Lerian-Event-Id': 'x' } } },
      ['/sink/headers/X-Lerian-Event-Id'],
    ],
    ['a header that is no text', { ...wish, sink: { ...wish.sink, headers: { 'x-a': 1 } } }, ['/sink/headers/x-a']],
    ['time-outs out of bounds', { ...wish, sink: { ...wish.sink, timeout: '61s' } }, ['/sink/timeout']],
    ['a time-out that is none', { ...wish, sink: { ...wish.sink, timeout: 'soon' } }, ['/sink/timeout']],
    [
      'a step that is too long',
      { ...wish, retry_schedule: ['1s', '10h1s', 'x'] },
      ['/retry_schedule/1', '/retry_schedule/2'],
    ],
    ['too many steps', { ...wish, retry_schedule: Array(13).fill('1s') }, ['/retry_schedule']],
    ['no steps', { ...wish, retry_schedule: [] }, ['/retry_schedule']],
    ['another order', { ...wish, ordering: 'lifo', content_mode: 'xml' }, ['/content_mode', '/ordering']],
    ['large metadata', { ...wish, metadata: { text: 'x'.repeat(17_000) } }, ['/metadata']],
  ]
  for (const [what, body, paths] of cases) {
    test(`are told with their path: ${what}`, async () => {
      assertFaults(await control.call({ method: 'POST', url: '/v1/subscriptions', tenant: 'acme', body }), paths)
    })
  }

  test('leave nothing behind', async () => {
    await control.call({ method: 'POST', url: '/v1/subscriptions', tenant: 'nobody', body: { ...wish, name: '' } })
    const { count } = await row<{ count: number }>("select count(*) from subscription where tenant_id = 'nobody'")
    assert.equal(count, 0)
  })
})

async function ids(query: string): Promise<string[]> {
  const { body } = await control.call({ url: `/v1/subscriptions?${query}`, tenant: 'filterer' })
  return (body as { items: { id: string }[] }).items.map(({ id }) => id)
}

describe('listing subscriptions', () => {
  test('walks all of them once, the newest first, whatever the page', async () => {
    const made: string[] = []
    for (let nth = 0; nth < 7; nth++) made.push((await create('walker', { name: `n${nth}` })).id)
    for (const limit of [1, 3, 7, 100]) {
      const found: string[] = []
      let cursor: string | null = ''
      while (cursor !== null) {
        const url: string = `/v1/subscriptions?limit=${limit}${cursor && `&cursor=${cursor}`}`
        const page = (await control.call({ url, tenant: 'walker' })).body as {
          items: { id: string }[]
          next_cursor: string | null
        }
        assert.ok(page.items.length <= limit)
        found.push(...page.items.map(({ id }) => id))
        cursor = page.next_cursor
      }
      assert.deepEqual(found, made.toSorted().reverse())
    }
  })

  test('filters', async () => {
    const off = await create('filterer', { enabled: false })
    const lender = await create('filterer', { origin: 'lender' })
    assert.deepEqual(await ids('enabled=false'), [off.id])
    assert.deepEqual(await ids('origin=lender'), [lender.id])
    assert.deepEqual(await ids('verification_state=failed'), [])
    assert.equal((await ids('verification_state=active&enabled=true')).length, 1)
  })

  test('refuses what it does not know', async () => {
    assertFaults(await control.call({ url: '/v1/subscriptions?limit=0' }), ['?limit'])
    assertFaults(await control.call({ url: '/v1/subscriptions?limit=1001' }), ['?limit'])
    assertFaults(await control.call({ url: '/v1/subscriptions?limit=1.5' }), ['?limit'])
    assertFaults(await control.call({ url: '/v1/subscriptions?offset=1' }), ['?offset'])
    assertFaults(await control.call({ url: '/v1/subscriptions?origin=%00' }), ['?origin'])
    assertFaults(await control.call({ url: '/v1/subscriptions?cursor=garbage' }), ['?cursor'])
  })
})

describe('patching a subscription', () => {
  test('merges, and null takes a field back to its default', async () => {
    const { id } = await create('acme', {
      origin: 'lender',
      ordering: 'strict',
      retry_schedule: ['1s'],
      sink: { ...wish.sink, headers: { 'x-a': '1', 'x-b': '2' }, timeout: '5s' },
      metadata: { a: { b: 1, c: 2 } },
    })
    const patched = await patch('acme', id, {
      name: 'renamed',
      origin: null,
      ordering: null,
      retry_schedule: null,
      sink: { headers: { 'x-a': null, 'x-c': '3' }, timeout: null },
      metadata: { a: { b: null, d: 3 } },
    })
    assert.equal(patched['name'], 'renamed')
    assert.equal(patched['origin'], null)
    assert.equal(patched['ordering'], 'fifo')
    assert.equal(patched['retry_schedule'], null)
    const headers = { 'x-b': '2', 'x-c': '3' }
    assert.deepEqual(patched.sink, { ...wish.sink, headers, auth: null, timeout: '30s' })
    assert.deepEqual(patched['metadata'], { a: { c: 2, d: 3 } })
    assert.deepEqual(patched['event_types'], wish.event_types)
    assert.deepEqual(await read('acme', id), patched)
  })

  test('takes the media type of merge patches too', async () => {
    const { id } = await create('acme')
    const headers = { 'content-type': 'application/merge-patch+json' }
    const answer = await control.call({
      method: 'PATCH',
      url: `/v1/subscriptions/${id}`,
      tenant: 'acme',
      headers,
      raw: '{"name":"x"}',
    })
    assert.equal(answer.status, 200)
  })

  test('tells the lane: its version, its wake-up and, with another address, its destination', async () => {
    const { id } = await create('acme')
    const earlier = await laneOf(id)
    control.clock.advance(1000)
    await patch('acme', id, { name: 'again' })
    const renamed = await laneOf(id)
    assert.equal(renamed.version, earlier.version + 1)
    assert.equal(renamed.wake_gen, earlier.wake_gen + 1)
    assert.equal(renamed.destination_key, earlier.destination_key)
    assert.equal(
      (await row<{ version: number }>('select version from subscription where id = $1', id)).version,
      renamed.version,
    )

    await patch('acme', id, { sink: { url: 'https://elsewhere.example.com/' } })
    const moved = await laneOf(id)
    assert.notEqual(moved.destination_key, earlier.destination_key)
    const breaker = await row(
      'select state from destination where tenant_id = $1 and destination_key = $2',
      'acme',
      moved.destination_key,
    )
    assert.deepEqual(breaker, { state: 'closed' })
    await control.server.settled()
  })

  test('wakes a lane that is held, blocked, waiting or idle, and only marks one that is leased', async () => {
    const { id } = await create('acme')
    for (const [state, due, expected] of [
      ['held', null, 'ready'],
      ['idle', null, 'ready'],
      ['blocked', 'now()', 'ready'],
      ['waiting', 'now()', 'ready'],
    ] as const) {
      await row(`update lane set state = $2, due_at = ${due} where subscription_id = $1`, id, state)
      await patch('acme', id, { name: `from ${state}` })
      assert.equal((await laneOf(id)).state, expected, state)
    }
    await row("update lane set state = 'leased', due_at = null, lease_until = now() where subscription_id = $1", id)
    const { wake_gen } = await laneOf(id)
    await patch('acme', id, { name: 'while leased' })
    assert.equal((await laneOf(id)).state, 'leased')
    assert.equal((await laneOf(id)).wake_gen, wake_gen + 1)
  })

  test('replaces the patterns that matching probes', async () => {
    const { id } = await create('patterner', { event_types: ['loan.approved', 'loan.denied'] })
    await patch('patterner', id, { event_types: ['loan.denied', 'card.*'] })
    const { found } = await row<{ found: string[] }>(
      'select array_agg(pattern order by pattern) as found from subscription_pattern where subscription_id = $1',
      id,
    )
    assert.deepEqual(found, ['card.*', 'loan.denied'])
  })

  test('another address is verified before anything is sent to it', async () => {
    const { id } = await create('mover')
    let probed = Promise.withResolvers<void>()
    control.probe.outcome = async () => {
      await probed.promise
      return { kind: 'delivered', status: 200, response: Buffer.alloc(0) }
    }
    const moved = await patch('mover', id, { sink: { url: 'https://new.example.com/' } })
    assert.equal(moved.verification_state, 'pending')
    probed.resolve()
    await control.server.settled()
    control.probe.outcome = { kind: 'delivered', status: 200, response: Buffer.alloc(0) }
    assert.equal((await read('mover', id)).verification_state, 'active')
    assert.equal(control.probe.probed.at(-1), 'https://new.example.com/')
    const renamed = await patch('mover', id, { name: 'same address', sink: { headers: { 'x-a': 'b' } } })
    assert.equal(renamed.verification_state, 'active')
  })

  test('pauses and resumes: what is queued is held and goes on', async () => {
    const { id } = await create('pauser', { event_types: ['*'] })
    const { pool } = control.database
    const sink = scriptedSink()
    const dispatcher = testDispatcher({ pool, clock: control.clock, sink })
    await drain(dispatcher)
    await arrive(pool, [anEvent({ tenantId: 'pauser' })], new Date(control.clock.now()))
    await patch('pauser', id, { enabled: false })
    await drain(dispatcher)
    assert.equal(sink.attempts.length, 0)
    assert.equal((await laneOf(id)).state, 'held')
    await patch('pauser', id, { enabled: true })
    await drain(dispatcher)
    assert.equal(sink.attempts.length, 1)
  })

  test('enabling what the hub had switched off clears why, and the streak', async () => {
    const { id } = await create('acme')
    await row(
      "update subscription set enabled = false, disabled_reason = 'broken', disabled_at = now() where id = $1",
      id,
    )
    await row(
      "update lane set first_failure_at = now() - interval '6 days', last_failure_at = now() where subscription_id = $1",
      id,
    )
    const renamed = await patch('acme', id, { name: 'still off' })
    assert.equal(renamed['disabled_reason'], 'broken')
    const enabled = await patch('acme', id, { enabled: true })
    assert.equal(enabled['disabled_reason'], null)
    assert.equal(enabled['disabled_at'], null)
    assert.equal((await laneOf(id)).first_failure_at, null)
  })

  test('faults have their path, and change nothing', async () => {
    const { id } = await create('acme')
    const earlier = await read('acme', id)
    const url = `/v1/subscriptions/${id}`
    const refused = async (body: object, paths: string[]): Promise<void> =>
      assertFaults(await control.call({ method: 'PATCH', url, tenant: 'acme', body }), paths)
    const timeout = { timeout: '0s' }
    await refused({ name: null, event_types: [], sink: timeout, created_at: 'now' }, [
      '/name',
      '/event_types',
      '/sink/timeout',
      '/created_at',
    ])
    await refused({ sink: { url: 'ftp://x' } }, ['/sink/url'])
    await refused({ sink: { url: null } }, ['/sink/url'])
    assert.deepEqual(await read('acme', id), earlier)
  })

  test('a URL that would be refused today does not keep its owner from switching it off', async () => {
    const { id } = await create('acme')
    await row(
      `update subscription set sink = '{"kind":"webhook","url":"http://10.0.0.1/","headers":{}}' where id = $1`,
      id,
    )
    assert.equal((await patch('acme', id, { enabled: false })).enabled, false)
  })

  test('a schedule that is found malformed is shown as the default, and does not stand in the way of an edit', async () => {
    const { id } = await create('acme')
    await row(`update subscription set retry_schedule = '[1, 99999999999]' where id = $1`, id)
    assert.equal((await patch('acme', id, { name: 'mended' }))['retry_schedule'], null)
  })

  test('edits at the same time are all kept', async () => {
    const { id } = await create('acme')
    await Promise.all(
      Array.from({ length: 8 }, async (_, nth) => await patch('acme', id, { metadata: { [`key${nth}`]: nth } })),
    )
    assert.equal(Object.keys((await read('acme', id))['metadata'] as object).length, 8)
  })
})

describe('deleting a subscription', () => {
  test('it is not found any more, matches nothing, and its secrets are gone', async () => {
    const { id } = await create('deleter', { event_types: ['*'] })
    const earlier = await laneOf(id)
    const answer = await control.call({ method: 'DELETE', url: `/v1/subscriptions/${id}`, tenant: 'deleter' })
    assert.equal(answer.status, 204)
    assert.equal(answer.text, '')
    assertProblem(await control.call({ url: `/v1/subscriptions/${id}`, tenant: 'deleter' }), 404, 'not_found')
    assertProblem(
      await control.call({ method: 'DELETE', url: `/v1/subscriptions/${id}`, tenant: 'deleter' }),
      404,
      'not_found',
    )
    const list = await control.call({ url: '/v1/subscriptions', tenant: 'deleter' })
    assert.deepEqual(list.body, { items: [], next_cursor: null })

    const event = anEvent({ tenantId: 'deleter' })
    const record = { topic: 'lerian.streaming.lender', position: null, timestamp: null }
    assert.equal((await storeEvents(control.database.pool, [{ event, record }], new Date())).deliveries, 0)
    const left = await row('select count(*) as secrets from subscription_secret where subscription_id = $1', id)
    assert.deepEqual(left, { secrets: 0 })
    assert.equal((await laneOf(id)).version, earlier.version + 1)
  })

  test('what is queued for it is not sent', async () => {
    const { id } = await create('canceller', { event_types: ['*'] })
    const { pool } = control.database
    await arrive(pool, [anEvent({ tenantId: 'canceller' })], new Date(control.clock.now()))
    await control.call({ method: 'DELETE', url: `/v1/subscriptions/${id}`, tenant: 'canceller' })
    const sink = scriptedSink()
    await drain(testDispatcher({ pool, clock: control.clock, sink }))
    assert.deepEqual(
      sink.attempts.filter(({ destination }) => destination.tenantId === 'canceller'),
      [],
    )
  })
})

test('a list is narrowed by a pattern, an address, the beginning of a name and the time; what is no filter is refused', async () => {
  const url = 'https://narrow.example.com/hook'
  await create('narrow', { name: 'loans to core', event_types: ['loan.*'], sink: { kind: 'webhook', url } })
  await create('narrow', {
    name: 'cards to core',
    event_types: ['card.*', '*'],
    sink: { kind: 'webhook', url: `${url}/2` },
  })
  const names = async (query: string): Promise<string[]> => {
    const answer = await control.call({ url: `/v1/subscriptions?${query}`, tenant: 'narrow' })
    assert.equal(answer.status, 200, answer.text)
    return (answer.body as { items: { name: string }[] }).items.map(({ name }) => name)
  }
  assert.deepEqual(await names('event_type=loan.*'), ['loans to core'])
  assert.deepEqual(await names('event_type=loan.approved'), [])
  assert.deepEqual(await names('event_type=*'), ['cards to core'])
  assert.deepEqual(await names(`sink_url=${encodeURIComponent('HTTPS://NARROW.example.com:443/hook')}`), [
    'loans to core',
  ])
  assert.deepEqual(await names('name=loans'), ['loans to core'])
  assert.deepEqual(await names('name=oans'), [])
  assert.deepEqual(await names('until=2020-01-01T00:00:00Z'), [])
  assert.equal((await names('since=2020-01-01T00:00:00Z')).length, 2)
  const unknown = await control.call({ url: '/v1/subscriptions?nonsense=1', tenant: 'narrow' })
  assert.equal(unknown.status, 400)
  assert.match(unknown.text, /nonsense/)
})
