import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testControl } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'

describe('health', () => {
  test('the process is alive, whatever else', async () => {
    await using control = await testControl({ checks: [{ name: 'database', check: () => 'away' }] })
    const { status, body } = await control.call({ url: '/healthz' })
    assert.equal(status, 200)
    assert.deepEqual(body, { status: 'ok' })
  })

  test('it is ready when every check is content', async () => {
    const checks = [
      { name: 'database', check: async () => await Promise.resolve(null) },
      { name: 'stream', check: () => null },
    ]
    await using control = await testControl({ checks })
    const { status, body } = await control.call({ url: '/readyz' })
    assert.equal(status, 200)
    const expected = checks.map(({ name }) => ({ name, problem: null, advisory: false }))
    assert.deepEqual(body, { status: 'ready', checks: expected })
  })

  test('what is only observed is shown, and never a reason for not being ready', async () => {
    const observed = { name: 'dead_letters', check: () => 'no broker answers', advisory: true }
    await using control = await testControl({ checks: [{ name: 'database', check: () => null }, observed] })
    const { status, body } = await control.call({ url: '/readyz' })
    assert.equal(status, 200)
    const { checks } = body as { checks: object[] }
    assert.deepEqual(checks[1], { name: 'dead_letters', problem: 'no broker answers', advisory: true })
    await using failing = await testControl({ checks: [{ name: 'database', check: () => 'away' }, observed] })
    const { errors } = assertProblem(await failing.call({ url: '/readyz' }), 503, 'unavailable')
    assert.deepEqual(errors, [{ path: 'database', message: 'away' }])
  })

  test('else it says which are not, and what is wrong', async () => {
    await using control = await testControl({
      checks: [
        { name: 'database', check: () => null },
        { name: 'stream', check: () => 'no broker answers' },
        { name: 'broken', check: async () => await Promise.reject(new Error('s3cr3t')) },
      ],
    })
    const answer = await control.call({ url: '/readyz' })
    const { errors, detail } = assertProblem(answer, 503, 'unavailable')
    assert.equal(detail, 'Not ready: stream, broken.')
    assert.deepEqual(errors, [
      { path: 'stream', message: 'no broker answers' },
      { path: 'broken', message: 'the check itself failed' },
    ])
  })
})

describe('metrics', () => {
  test('requests are counted by route, never by what is in the path', async () => {
    await using control = await testControl()
    await control.call({ url: '/v1/subscriptions/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10', tenant: 'acme' })
    await control.call({ url: '/v1/who/knows' })
    const { status, text, headers } = await control.call({ url: '/metrics' })
    assert.equal(status, 200)
    assert.match(String(headers['content-type']), /^text\/plain; version=0\.0\.4/)
    assert.match(text, /hub_http_requests_total\{method="GET",route="\/v1\/subscriptions\/:id",status="4xx"\} 1/)
    assert.match(text, /hub_http_requests_total\{method="GET",route="unknown",status="4xx"\} 1/)
    assert.match(text, /hub_http_request_seconds_count\{method="GET",route="\/v1\/subscriptions\/:id"\} 1/)
    assert.ok(!text.includes('01981f3e') && !text.includes('acme') && !text.includes('knows'))
  })

  test('are not served when they are switched off', async () => {
    await using control = await testControl({ metrics: null })
    assertProblem(await control.call({ url: '/metrics' }), 404, 'not_found')
  })
})

describe('the server', () => {
  test('starts on a free port, answers, and stops twice', async () => {
    await using control = await testControl()
    await control.server.start()
    const { host, port } = control.server.address()
    assert.equal((await fetch(`http://${host}:${port}/healthz`)).status, 200)
    await control.server.stop(new AbortController().signal)
    await control.server.stop(new AbortController().signal)
    await assert.rejects(fetch(`http://${host}:${port}/healthz`))
  })

  test('stops before it was ever started', async () => {
    await using control = await testControl()
    await control.server.stop(AbortSignal.abort())
  })

  test('says that its port is taken', async () => {
    await using one = await testControl()
    await one.server.start()
    await using two = await testControl({ listen: one.server.address() })
    await assert.rejects(two.server.start(), /EADDRINUSE/)
  })

  test('a request that hangs is let go of when the deadline is over', async () => {
    const asked = Promise.withResolvers<void>()
    await using control = await testControl({
      checks: [
        {
          name: 'endless',
          check: async () => {
            asked.resolve()
            return await new Promise<null>(() => undefined)
          },
        },
      ],
    })
    await control.server.start()
    const { host, port } = control.server.address()
    const hanging = fetch(`http://${host}:${port}/readyz`)
    await asked.promise
    const deadline = new AbortController()
    const stopped = control.server.stop(deadline.signal)
    deadline.abort()
    await Promise.all([stopped, assert.rejects(hanging)])
  })
})
