import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { subscribe } from '../support/api.ts'
import { testControl, type Answer, type Call, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

async function made(): Promise<{ url: string; etag: string }> {
  const { id } = await subscribe(control, 'acme')
  const url = `/v1/subscriptions/${id}`
  return { url, etag: await tagOf(url) }
}

async function tagOf(url: string): Promise<string> {
  const { headers, status } = await control.call({ url, tenant: 'acme' })
  assert.equal(status, 200)
  assert.match(String(headers['etag']), /^"\d+"$/)
  return String(headers['etag'])
}

const call = async (method: Call['method'], url: string, given: Partial<Call> = {}): Promise<Answer> =>
  await control.call({ method: method!, url, tenant: 'acme', ...given })
const rename = async (url: string, name: string, headers: Record<string, string>): Promise<Answer> =>
  await call('PATCH', url, { body: { name }, headers })

describe('an entity tag', () => {
  test('comes with every answer that shows or changes a subscription, and rises with each change', async () => {
    const body = { name: 'tagged', event_types: ['*'], sink: { kind: 'webhook', url: 'https://core.example.com/' } }
    const created = await call('POST', '/v1/subscriptions', { body })
    assert.equal(created.headers['etag'], '"1"')
    await control.server.settled()
    const url = String(created.headers['location'])
    const seen = [await tagOf(url)]
    for (const [method, path, given] of [
      ['PATCH', '', { body: { name: 'other' } }],
      ['POST', '/pause', {}],
      ['POST', '/resume', {}],
      ['POST', '/rotate-secret', {}],
    ] as const) {
      const answer = await call(method, url + path, given)
      assert.equal(answer.status, 200, answer.text)
      assert.equal(answer.headers['etag'], await tagOf(url), path)
      seen.push(await tagOf(url))
    }
    assert.equal(new Set(seen).size, 5)
    const verified = await call('POST', `${url}/verify`)
    assert.equal(verified.headers['etag'], await tagOf(url))
  })

  test('stays as it is where a patch changes nothing', async () => {
    const { url, etag } = await made()
    for (const body of [
      {},
      { name: 'everything' },
      { enabled: true },
      { metadata: {} },
      { origin: null },
      { sink: {} },
    ]) {
      const answer = await call('PATCH', url, { body })
      assert.equal(answer.status, 200, answer.text)
      assert.equal(answer.headers['etag'], etag, JSON.stringify(body))
    }
  })
})

describe('If-Match', () => {
  test('lets a change through that knows the newest version, and no other', async () => {
    const { url, etag } = await made()
    const second = await rename(url, 'second', { 'if-match': etag })
    assert.equal(second.status, 200, second.text)
    assertProblem(await rename(url, 'third', { 'if-match': etag }), 412, 'precondition_failed')
    for (const tags of [`${etag}, ${second.headers['etag']}`, '*']) {
      const answer = await rename(url, `known by ${tags}`, { 'if-match': tags })
      assert.equal(answer.status, 200, answer.text)
      await rename(url, 'second', {})
    }
    const newest = await tagOf(url)
    assertProblem(await rename(url, 'weak', { 'if-match': `W/${newest}` }), 412, 'precondition_failed')
    assert.equal(await tagOf(url), newest)
  })

  test('holds for every action and for the deletion, and then nothing has changed', async () => {
    const { url } = await made()
    const probes = control.probe.probed.length
    const { body: earlier } = await call('GET', url)
    for (const path of ['/pause', '/resume', '/rotate-secret', '/verify'])
      assertProblem(await call('POST', url + path, { headers: { 'if-match': '"99"' } }), 412, 'precondition_failed')
    assertProblem(await call('DELETE', url, { headers: { 'if-match': '"99"' } }), 412, 'precondition_failed')
    assertProblem(await call('GET', url, { headers: { 'if-match': '"99"' } }), 412, 'precondition_failed')
    assert.deepEqual((await call('GET', url)).body, earlier)
    assert.equal(control.probe.probed.length, probes)
    for (const path of ['/pause', '/resume', '/rotate-secret', '/verify']) {
      const answer = await call('POST', url + path, { headers: { 'if-match': await tagOf(url) } })
      assert.equal(answer.status, 200, answer.text)
    }
    assert.equal((await call('DELETE', url, { headers: { 'if-match': await tagOf(url) } })).status, 204)
  })

  test('of what does not exist is not found', async () => {
    const url = '/v1/subscriptions/019e2713-6fe4-7f94-a675-6d1a78280ce9'
    for (const tags of ['*', '"1"']) assertProblem(await rename(url, 'none', { 'if-match': tags }), 404, 'not_found')
  })

  test('malformed is refused, and named', async () => {
    const { url } = await made()
    for (const tags of ['7', '', '"7', '*, "7"', 'w/"7"', '"7" "8"']) {
      assertFaults(await rename(url, 'x', { 'if-match': tags }), ['if-match'])
      assertFaults(await call('GET', url, { headers: { 'if-none-match': tags } }), ['if-none-match'])
      assertFaults(await call('DELETE', url, { headers: { 'if-match': tags } }), ['if-match'])
    }
  })

  test('lets exactly one of many changes through that come at the same time', async () => {
    const { url, etag } = await made()
    const answers = await Promise.all(
      Array.from({ length: 12 }, async (_, nth) => await rename(url, `name ${nth}`, { 'if-match': etag })),
    )
    const statuses = answers.map(({ status }) => status)
    assert.equal(statuses.filter((status) => status === 200).length, 1, String(statuses))
    assert.equal(statuses.filter((status) => status === 412).length, 11)
    const winner = answers.find(({ status }) => status === 200)!
    assert.deepEqual((await call('GET', url)).body, winner.body)
  })
})

describe('If-None-Match', () => {
  test('answers 304 and nothing more to who knows the newest version', async () => {
    const { url, etag } = await made()
    for (const tags of [etag, `W/${etag}`, '*', `"0", ${etag}`]) {
      const answer = await call('GET', url, { headers: { 'if-none-match': tags } })
      assert.equal(answer.status, 304)
      assert.equal(answer.text, '')
      assert.equal(answer.headers['etag'], etag)
    }
    await rename(url, 'renamed', {})
    assert.equal((await call('GET', url, { headers: { 'if-none-match': etag } })).status, 200)
  })

  test('keeps a change from what its caller wants to be new', async () => {
    const { url } = await made()
    assertProblem(await rename(url, 'x', { 'if-none-match': '*' }), 412, 'precondition_failed')
  })
})
