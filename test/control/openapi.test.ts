import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Compile } from 'typebox/compile'
import { errorCatalogue } from '../../src/base/errors.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'

let control: TestControl
let document: Document
const routes: string[] = []

before(async () => {
  control = await testControl()
  const answer = await control.call({ url: '/openapi.json' })
  assert.equal(answer.status, 200)
  document = answer.body as Document
  for (const line of control.server.api.printRoutes({ commonPrefix: false }).split('\n')) routes.push(line)
})
after(async () => await control[Symbol.asyncDispose]())

interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object>; securitySchemes: Record<string, object> }
}

interface Media {
  schema: object
  example?: unknown
  examples?: Record<string, { value: unknown }>
}

interface Operation {
  security: Record<string, string[]>[]
  operationId: string
  summary: string
  tags: string[]
  parameters?: { in: string; name: string; schema: object }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, { description: string; content?: Record<string, Media>; headers?: Record<string, object> }>
}

function operations(): [string, Operation][] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
  )
}

describe('the API’s document', () => {
  test('is OpenAPI 3.1, and refers to nothing that it does not hold', () => {
    assert.equal(document.openapi, '3.1.0')
    const names = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]*)"/g)].map(([, ref]) => ref!)
    assert.ok(names.length > 20)
    for (const ref of names) assert.ok(document.components.schemas[ref.replace('#/components/schemas/', '')], ref)
    assert.deepEqual(
      Object.keys(document.components.schemas).filter((name) => !names.includes(`#/components/schemas/${name}`)),
      [],
    )
  })

  test('has every route of the API', () => {
    const documented = operations().map(([place]) => place)
    const expected = [
      'POST /v1/subscriptions',
      'GET /v1/subscriptions',
      'GET /v1/subscriptions/{id}',
      'PATCH /v1/subscriptions/{id}',
      'DELETE /v1/subscriptions/{id}',
      'POST /v1/subscriptions/{id}/verify',
      'POST /v1/subscriptions/{id}/rotate-secret',
      'GET /v1/subscriptions/{id}/history',
      'POST /v1/subscriptions/{id}/pause',
      'POST /v1/subscriptions/{id}/resume',
      'GET /v1/subscriptions/{id}/deliveries',
      'GET /v1/deliveries/{id}',
      'POST /v1/deliveries/{id}/retry',
      'GET /v1/events/{id}',
      'GET /v1/events/{id}/explain',
      'POST /v1/ingest',
      'GET /admin/quarantine',
      'GET /admin/quarantine/counts',
      'GET /admin/quarantine/{id}',
      'GET /admin/quarantine/{id}/body',
      'GET /admin/dlq',
      'GET /admin/dlq/counts',
      'GET /admin/dlq/{id}',
      'GET /admin/dlq/{id}/body',
      'GET /admin/dead-letters',
      'GET /admin/breakers',
      'POST /admin/breakers/{key}/reset',
      'GET /admin/tenants',
      'GET /admin/lag',
      'GET /admin/topics',
      'GET /healthz',
      'GET /readyz',
      'GET /metrics',
    ]
    assert.deepEqual(
      expected.filter((place) => !documented.includes(place)),
      [],
    )
    const undocumented = /\/docs|\/openapi\.json|\/static|── \*|\/(json|yaml) /
    const served = routes.filter((line) => /\((GET|POST|PATCH|DELETE)/.test(line) && !undocumented.test(line))
    assert.equal(served.length, Object.keys(document.paths).length, routes.join('\n'))
  })

  test('every operation has its own id, a summary, a tag, its path’s parameters and its answers', () => {
    const ids = operations().map(([, { operationId }]) => operationId)
    assert.equal(new Set(ids).size, ids.length)
    for (const [place, operation] of operations()) {
      assert.ok(operation.summary && operation.tags.length > 0, place)
      const inPath = [...place.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path')
      assert.deepEqual(
        parameters.map(({ name }) => name),
        inPath,
        place,
      )
      const codes = Object.keys(operation.responses)
      assert.ok(codes.some((code) => code.startsWith('2')) && codes.includes('500') && codes.includes('503'), place)
      if (inPath.includes('id')) assert.ok(codes.includes('404') && codes.includes('400'), place)
      if (/ \/(v1|admin)/.test(place))
        assert.ok(
          ['401', '403', '429'].every((code) => codes.includes(code)),
          place,
        )
      if (!place.startsWith('GET ')) assert.ok(codes.includes('413'), place)
      for (const code of ['429', '503'])
        if (codes.includes(code)) assert.ok(operation.responses[code]?.headers?.['retry-after'], place)
    }
  })

  test('every operation says by which credentials it is called, and with which scope', () => {
    const { securitySchemes } = document.components
    assert.deepEqual(Object.keys(securitySchemes), ['bearer', 'api_key'])
    for (const [place, { security }] of operations()) {
      const isOpen = / \/(healthz|readyz|metrics)$/.test(place)
      assert.deepEqual(security.map((scheme) => Object.keys(scheme)).flat(), isOpen ? [] : ['bearer', 'api_key'], place)
      const scopes = new Set(security.flatMap((scheme) => Object.values(scheme).flat()))
      assert.equal(scopes.size, isOpen ? 0 : 1, place)
      assert.equal(scopes.has('admin'), place.includes(' /admin/'), place)
    }
  })

  test('every code of the catalogue is documented where it can come up', () => {
    const text = JSON.stringify(document)
    for (const code of Object.keys(errorCatalogue)) assert.ok(text.includes(`"${code}"`), code)
  })

  test('every schema compiles, and every example fits its own', () => {
    let examples = 0
    for (const [place, { requestBody, responses }] of operations()) {
      for (const [type, media] of [requestBody, ...Object.values(responses)].flatMap((part) =>
        Object.entries(part?.content ?? {}),
      )) {
        const check = Compile({ ...media.schema, components: document.components } as never)
        const given = [media.example, ...Object.values(media.examples ?? {}).map(({ value }) => value)].filter(
          (value) => value !== undefined,
        )
        for (const example of given) {
          examples++
          assert.ok(check.Check(example), `${place} ${type}: ${JSON.stringify(example)}`)
        }
      }
    }
    assert.ok(examples >= 3)
  })
})

describe('the documentation', () => {
  test('is served whole by the hub itself', async () => {
    const page = await control.call({ url: '/docs/' })
    assert.equal(page.status, 200)
    const links = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link!)
    assert.ok(links.length > 3)
    for (const link of links) {
      assert.ok(!/^https?:/.test(link), link)
      assert.equal((await control.call({ url: new URL(link, 'http://hub/docs/').pathname })).status, 200, link)
    }
    const policy = String(page.headers['content-security-policy'])
    assert.ok(!policy.includes('validator.swagger.io') && !policy.includes('upgrade-insecure-requests'), policy)
  })

  test('is not served when it is switched off', async () => {
    await using own = await testControl({ docs: false })
    assertProblem(await own.call({ url: '/docs/' }), 404, 'not_found')
    assertProblem(await own.call({ url: '/openapi.json' }), 404, 'not_found')
  })
})
