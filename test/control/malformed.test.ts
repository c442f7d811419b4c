// Requests that could be misread, at every operation of the API's document: each is refused, with what and where, and none is a 5xx.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { testControl, type Answer, type Call, type TestControl } from '../support/control.ts'
import { operationsOf, type Operation } from '../support/operations.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { subscribe } from '../support/api.ts'

let control: TestControl
let operations: Operation[]
before(async () => {
  control = await testControl()
  operations = operationsOf(control).filter(({ scope }) => scope !== null)
})
after(async () => await control[Symbol.asyncDispose]())

const ID = '01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'
const json = { 'content-type': 'application/json' }

function callOf({ method, path, body }: Operation, query = '', id = ID): Call {
  const url = path.replaceAll(/\{[^}]+\}/g, id) + query
  return body === null ? { method, url } : { method, url, body }
}

async function answerOf(call: Call): Promise<Answer> {
  return await control.call({ tenant: 'acme', ...call })
}

describe('queries', () => {
  test('a parameter that is not known is named, at every operation', async (t) => {
    for (const operation of operations) assertFaults(await answerOf(callOf(operation, '?nonsense=1')), ['?nonsense'])
    t.diagnostic(`${operations.length} operations`)
  })

  test('what cannot be decoded, NUL, nothing, a repetition and 3,000 characters are refused in every parameter', async (t) => {
    const wrong = ['%ff', '%00', '', 'x'.repeat(3000), '%zz', '%c0%80']
    let asked = 0
    for (const operation of operations) {
      for (const name of operation.query) {
        for (const value of wrong) {
          const answer = await answerOf(callOf(operation, `?${name}=${value}`))
          assertAbout(answer, `?${name}`, `${operation.path} ${name}=${value.slice(0, 9)}`)
          asked++
        }
        const twice = await answerOf(callOf(operation, `?${name}=1&${name}=2`))
        assertAbout(twice, `?${name}`, `${operation.path} ${name} twice`)
        asked++
      }
    }
    assert.ok(asked > 100)
    t.diagnostic(`${asked} requests`)
  })

  test('what cannot be decoded is refused in a name too', async () => {
    assertFaults(await answerOf({ url: '/v1/subscriptions?%ff=1' }), ['?%ff'])
  })
})

function assertAbout(answer: Answer, path: string, place: string): void {
  assert.equal(answer.status, 400, `${place}: ${answer.status} ${answer.text.slice(0, 200)}`)
  const { errors } = assertProblem(answer, 400, 'invalid_request')
  assert.ok(
    errors.some((fault) => fault.path === path),
    `${place}: ${answer.text.slice(0, 300)}`,
  )
}

test('what is no id in a path is refused or not found, at every operation that has one', async (t) => {
  const withId = operations.filter(({ path }) => path.includes('{'))
  const wrong = ['%00', '%ff', '%20', 'x'.repeat(300), encodeURIComponent('💥'), "'--", ID.slice(1)]
  for (const operation of withId) {
    for (const id of wrong) {
      const { status, text } = await answerOf(callOf(operation, '', id))
      assert.ok(
        status === 400 || status === 404,
        `${operation.path} ${id.slice(0, 9)}: ${status} ${text.slice(0, 200)}`,
      )
    }
  }
  t.diagnostic(`${withId.length * wrong.length} requests`)
})

async function create(raw: string | Buffer, headers: Record<string, string> = json): Promise<Answer> {
  return await answerOf({ method: 'POST', url: '/v1/subscriptions', headers, raw })
}

describe('bodies', () => {
  const deep = `{"metadata":${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}}`
  const refused: [string, string | Buffer][] = [
    ['no JSON', '{"name": }'],
    ['bytes that are no UTF-8', Buffer.from('{"name":"\xff"}', 'latin1')],
    ['a byte order mark', '\ufeff{}'],
    ['nested 2,000 deep', deep],
    ['a list nested 200,000 deep', '['.repeat(200_000)],
    ['another kind of value', '[]'],
    ['another kind of value', '"text"'],
    ['a name twice', '{"name":"a","name":"b"}'],
    ['a name twice, escaped', '{"name":"a","n\\u0061me":"b"}'],
    ['the name __proto__', '{"__proto__":{"enabled":false}}'],
    ['half a pair', '{"name":"\\ud800"}'],
    ['a field that is not known', '{"nonsense":1}'],
  ]

  test('are refused at every operation that takes one', async (t) => {
    const taking = operations.filter(({ body, path }) => body !== null && path !== '/v1/ingest')
    for (const { method, path } of taking) {
      for (const [what, raw] of refused) {
        const url = path.replaceAll(/\{[^}]+\}/g, ID)
        const answer = await answerOf({ method, url, headers: json, raw })
        assert.equal(answer.status, 400, `${method} ${path}, ${what}: ${answer.text.slice(0, 200)}`)
        assertProblem(answer, 400, 'invalid_request')
      }
    }
    assert.ok(taking.length > 5)
    t.diagnostic(`${taking.length} operations, ${refused.length} bodies`)
  })

  const sink = { kind: 'webhook', url: 'https://core.example.com/hooks' }
  const whole = JSON.stringify({ name: 'a name', event_types: ['*'], sink, metadata: 'METADATA' })
  const withMetadata = (metadata: string): string => whole.replace('"METADATA"', metadata)
  const plain = withMetadata('{}')
  for (const [raw, ...paths] of [
    [withMetadata('{"a":{"b":[1,"\\udc00"]}}'), '/metadata/a/b/1'],
    [withMetadata('{"a/b":{"~":"\\ud83d"}}'), '/metadata/a~1b/~0'],
    [withMetadata('{"account":12345678901234567890}'), '/metadata/account'],
    [
      withMetadata('[{"a":9007199254740993,"b":1e400},{"c":1e-400,"d":0.12345678901234567890}]'),
      '/metadata/0/a',
      '/metadata/0/b',
      '/metadata/1/c',
      '/metadata/1/d',
    ],
    [withMetadata('{"a":{"x":1,"x":1},"b":[{"y":1,"y":2}]}'), '/metadata/a/x', '/metadata/b/0/y'],
    [withMetadata('{"__proto__":1}'), '/metadata/__proto__'],
    [plain.replace('a name', 'a\\u202ename'), '/name'],
    [plain.replace('a name', 'a\\u2028name'), '/name'],
    [plain.replace('a name', 'a\\u0000name'), '/name'],
    [plain.replace('/hooks"', '/hooks\\ud800"'), '/sink/url'],
  ] as [string, ...string[]][]) {
    test(`a subscription that would be changed without a word is refused: ${paths.join(', ')}`, async () => {
      assertFaults(await create(raw), paths)
    })
  }

  test('what JSON can hold is kept as it is', async () => {
    const metadata = {
      text: 'ü 💥 \u0000 \u2028',
      numbers: [0.1, 1e21, 5e-324, 9007199254740991, 1.5],
      constructor: { prototype: 1 },
      '': [null, true, {}],
    }
    const answer = await create(withMetadata(JSON.stringify(metadata)))
    assert.equal(answer.status, 201, answer.text)
    assert.deepEqual((answer.body as { metadata: object }).metadata, metadata)
    const spelled = await create(withMetadata('{"a":[1.50,100E-2,-0,0e5,1e2,10.0]}'))
    assert.deepEqual((spelled.body as { metadata: object }).metadata, { a: [1.5, 1, 0, 0, 100, 10] })
  })

  test('other types, charsets and encodings are refused with what is taken', async () => {
    const raw = withMetadata('{}')
    for (const [headers, path] of [
      [{ 'content-type': 'application/xml' }, 'content-type'],
      [{ 'content-type': 'text/plain' }, 'content-type'],
      [{ 'content-type': 'application/json; charset=utf-16' }, 'content-type'],
      [{ 'content-type': 'application/json; charset="ISO-8859-1"' }, 'content-type'],
      [{ 'content-type': 'application/json', 'content-encoding': 'gzip' }, 'content-encoding'],
    ] as const) {
      const answer = await create(raw, headers)
      const { errors } = assertProblem(answer, 415, 'unsupported_media_type')
      assert.deepEqual(
        errors.map((fault) => fault.path),
        [path],
      )
    }
    for (const type of [
      'application/json; charset=UTF-8',
      'application/merge-patch+json',
      'Application/JSON;charset="us-ascii"',
    ])
      assert.equal((await create(raw, { 'content-type': type })).status, 201, type)
  })

  test('a patch is read by the same rules', async () => {
    const { id } = await subscribe(control, 'acme')
    const url = `/v1/subscriptions/${id}`
    const patch = async (raw: string): Promise<Answer> => await answerOf({ method: 'PATCH', url, headers: json, raw })
    assertFaults(await patch('{"metadata":{"a":1,"a":2}}'), ['/metadata/a'])
    assertFaults(await patch('{"metadata":{"a":1e999}}'), ['/metadata/a'])
    assert.equal((await patch('{"metadata":{"a":1}}')).status, 200)
  })
})
