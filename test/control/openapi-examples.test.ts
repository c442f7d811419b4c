// The API's document says what everything is, and shows an example of it; and each example is what its schema describes.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Compile } from 'typebox/compile'
import { errorCatalogue, type ErrorCode } from '../../src/base/errors.ts'
import { subscribe } from '../support/api.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'

let control: TestControl
let document: Document
before(async () => {
  control = await testControl()
  document = (await control.call({ url: '/openapi.json' })).body as Document
})
after(async () => await control[Symbol.asyncDispose]())

interface Schema {
  $ref?: string
  description?: string
  examples?: unknown[]
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  additionalProperties?: Schema | boolean
}

interface Media {
  schema: Schema
  example?: unknown
  examples?: Record<string, { value: unknown }>
}

interface Response {
  description: string
  content?: Record<string, Media>
  headers?: Record<string, { required?: boolean; schema: { description?: string }; description?: string }>
}

interface Operation {
  summary?: string
  tags?: string[]
  parameters?: { name: string; description?: string; schema: Schema }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Response>
}

interface Document {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

function operations(): [string, Operation][] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
  )
}

function* mediaOf([place, { requestBody, responses }]: [string, Operation]): Generator<[string, Media]> {
  for (const [type, media] of Object.entries(requestBody?.content ?? {})) yield [`${place} body ${type}`, media]
  for (const [status, { content = {} }] of Object.entries(responses))
    for (const [type, media] of Object.entries(content)) yield [`${place} ${status} ${type}`, media]
}

/** Every property under a schema, by its JSON pointer. */
function* propertiesOf(schema: Schema, path: string): Generator<[string, Schema]> {
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    yield [`${path}/${name}`, property]
    yield* propertiesOf(property, `${path}/${name}`)
  }
  if (schema.items) yield* propertiesOf(schema.items, `${path}/items`)
  for (const [at, branch] of (schema.anyOf ?? []).entries()) yield* propertiesOf(branch, `${path}/anyOf/${at}`)
  if (typeof schema.additionalProperties === 'object') yield* propertiesOf(schema.additionalProperties, `${path}/*`)
}

/** The schema with what it refers to in its place. */
function resolved(schema: unknown): object {
  return JSON.parse(
    JSON.stringify(schema, (_, node: unknown) => {
      const { $ref } = (node ?? {}) as { $ref?: string }
      return $ref === undefined ? node : document.components.schemas[$ref.replace('#/components/schemas/', '')]
    }),
  ) as object
}

describe('the API’s document', () => {
  test('promises the headers that the answers have', async (t) => {
    const body = {
      name: 'headers',
      event_types: ['*'],
      sink: { kind: 'webhook', url: 'https://core.example.com/hooks' },
    }
    const { id } = await subscribe(control, 'acme')
    const one = `/v1/subscriptions/${id}`
    const key = { 'idempotency-key': 'headers' }
    const answers: [string, number, Answer][] = []
    const ask = async (operation: string, status: number, call: Parameters<TestControl['call']>[0]): Promise<void> =>
      void answers.push([operation, status, await control.call({ tenant: 'acme', ...call })])
    await ask('post /v1/subscriptions', 201, { method: 'POST', url: '/v1/subscriptions', body, headers: key })
    await ask('post /v1/subscriptions', 201, { method: 'POST', url: '/v1/subscriptions', body, headers: key })
    await control.server.settled()
    await ask('get /v1/subscriptions', 200, { url: '/v1/subscriptions' })
    await ask('get /v1/subscriptions/{id}', 200, { url: one })
    await ask('patch /v1/subscriptions/{id}', 200, { method: 'PATCH', url: one, body: { name: 'other' } })
    await ask('get /v1/subscriptions/{id}', 404, { url: one, tenant: 'other' })
    await ask('delete /v1/subscriptions/{id}', 204, { method: 'DELETE', url: one })
    let headers = 0
    for (const [operation, status, answer] of answers) {
      assert.equal(answer.status, status, answer.text)
      const promised = new Map(operations()).get(operation)?.responses[status]?.headers ?? {}
      for (const [name, { required }] of Object.entries(promised)) {
        headers++
        if (required) assert.ok(name in answer.headers, `${operation} ${status} has no ${name}`)
      }
      for (const name of ['etag', 'location', 'retry-after', 'ratelimit', 'idempotent-replayed', 'x-request-id'])
        if (name in answer.headers) assert.ok(name in promised, `${operation} ${status} does not tell of ${name}`)
    }
    assert.equal(answers[1]?.[2].headers['idempotent-replayed'], 'true')
    t.diagnostic(`${answers.length} answers, ${headers} headers`)
  })

  test('describes every field, parameter, operation and answer', (t) => {
    const missing: string[] = []
    let looked = 0
    const look = (place: string, text: string | undefined): void => {
      looked++
      if (!text?.trim()) missing.push(place)
    }
    for (const [name, schema] of Object.entries(document.components.schemas))
      for (const [path, property] of propertiesOf(schema, `/${name}`))
        if (property.$ref === undefined) look(path, property.description)
    for (const [place, operation] of operations()) {
      look(`${place} summary`, operation.summary)
      look(`${place} tags`, operation.tags?.join())
      for (const { name, description, schema } of operation.parameters ?? [])
        look(`${place} ?${name}`, description ?? schema.description)
      for (const [path, property] of Object.values(operation.requestBody?.content ?? {}).flatMap(({ schema }) => [
        ...propertiesOf(schema, `${place} body`),
      ]))
        look(path, property.description)
      for (const [status, { description, headers = {} }] of Object.entries(operation.responses)) {
        if (!status.startsWith('2')) look(`${place} ${status}`, description)
        for (const [name, header] of Object.entries(headers))
          look(`${place} ${status} ${name}`, header.description ?? header.schema.description)
      }
    }
    assert.deepEqual(missing, [])
    assert.ok(looked > 500)
    t.diagnostic(`${looked} descriptions`)
  })

  test('shows an example of every named schema, every body and every answer, which is as its schema says', (t) => {
    let held = 0
    const hold = (place: string, schema: unknown, value: unknown): void => {
      const compiled = Compile(resolved(schema))
      const [error] = compiled.Errors(value)
      assert.ok(compiled.Check(value), `${place}: ${error?.instancePath} ${error?.message}`)
      held++
    }
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      assert.ok(schema.examples?.length, `${name} has no example: see src/control/examples.json`)
      for (const example of schema.examples) hold(name, schema, example)
    }
    for (const operation of operations()) {
      for (const [place, { schema, example, examples }] of mediaOf(operation)) {
        const shown = example === undefined ? Object.values(examples ?? {}).map(({ value }) => value) : [example]
        if (place.endsWith('octet-stream') || place.endsWith('text/plain')) continue
        assert.ok(shown.length > 0, `${place} has no example`)
        for (const value of shown) hold(place, schema, value)
      }
    }
    t.diagnostic(`${held} examples`)
  })

  test('shows every problem that an operation can answer with, under its code', (t) => {
    const codes = new Set<string>()
    let shown = 0
    for (const [place, { responses }] of operations()) {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        for (const [code, { value }] of Object.entries(content['application/problem+json']?.examples ?? {})) {
          const problem = value as { code: string; status: number }
          assert.deepEqual([problem.code, String(problem.status)], [code, status], place)
          codes.add(code)
          shown++
        }
      }
    }
    // A method that a path does not take is no operation; the other one is what a framework's own 422 would become.
    const others = (Object.keys(errorCatalogue) as ErrorCode[]).filter((code) => !codes.has(code))
    assert.deepEqual(others, ['method_not_allowed', 'unprocessable'])
    t.diagnostic(`${shown} problems, ${codes.size} codes`)
  })
})
