// Requests of every operation of the API's document: most as the document wants them, the others with one thing wrong. Which objects they
// name is decided when they are sent: by then there are some.
import * as fc from 'fast-check'
import { junk, spoilt, valueOf, type Given, type Schema } from './values.ts'

export interface Operation {
  method: string
  path: string
  operationId: string
  parameters: { in: 'path' | 'query' | 'header'; name: string; required?: boolean; schema: Schema }[]
  body: { types: string[]; schema: Schema; required: boolean } | null
}

export type Tenant = 'a' | 'b'

/** What a path names: an object of the caller's, of the other tenant, one that there is not, or no id at all. */
type Named = { of: 'own' | 'other'; pick: number } | { of: 'nobody'; text: string }

export interface Wish {
  operation: Operation
  tenant: Tenant
  named: Named
  /** A number picks one of the cursors that this list has given. */
  query: [name: string, value: string | { cursor: number }][]
  headers: Record<string, string>
  body: Buffer | null
}

const often = 12

export function wishes(operations: readonly Operation[], given: Given): fc.Arbitrary<Wish> {
  // What is gone cannot be asked after.
  const weightOf = ({ method }: Operation): number => (method === 'DELETE' ? 1 : 4)
  return fc.oneof(...operations.map((of) => ({ weight: weightOf(of), arbitrary: wishOf(of, given) })))
}

function wishOf(operation: Operation, given: Given): fc.Arbitrary<Wish> {
  return fc
    .record({
      tenant: fc.constantFrom<Tenant>('a', 'b'),
      named: named(),
      query: queryOf(operation, given),
      headers: headersOf(operation),
      body: bodyOf(operation, given),
    })
    .map(({ headers, body, ...rest }) => ({
      ...rest,
      operation,
      headers: { ...headers, ...(body?.type !== undefined && { 'content-type': body.type }) },
      body: body?.bytes ?? null,
    }))
}

function named(): fc.Arbitrary<Named> {
  return fc.oneof(
    { weight: often, arbitrary: fc.record({ of: fc.constant('own' as const), pick: fc.nat() }) },
    { weight: 3, arbitrary: fc.record({ of: fc.constant('other' as const), pick: fc.nat() }) },
    { weight: 1, arbitrary: fc.uuid().map((text) => ({ of: 'nobody' as const, text })) },
    {
      weight: 1, // Without any it would be the path of a list.
      arbitrary: junk.map((value) => ({ of: 'nobody' as const, text: textOf(value) || '%20' })),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom('%00', '%zz', '%ff', '..', '%2e%2e', ' ').map((text) => ({ of: 'nobody', text })),
    },
  ) as fc.Arbitrary<Named>
}

function queryOf({ parameters }: Operation, given: Given): fc.Arbitrary<Wish['query']> {
  const known = parameters.filter((parameter) => parameter.in === 'query')
  const pairs = known.map(({ name, schema }) => {
    const values = given[`?${name}`] ?? valueOf(schema, given)
    const right = name === 'cursor' ? fc.nat().map((cursor) => ({ cursor })) : values.map(textOf)
    return fc.oneof(
      { weight: often * 2, arbitrary: fc.constant([]) },
      { weight: often, arbitrary: right.map((text) => [[name, text]]) },
      { weight: 1, arbitrary: junk.map((value) => [[name, textOf(value)]]) },
      { weight: 1, arbitrary: fc.tuple(right, right).map((two) => two.map((text) => [name, text])) },
    )
  })
  const unknown = fc.oneof(
    { weight: often * 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.tuple(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 })).map((one) => [one]) },
  )
  return fc.tuple(...pairs, unknown).map((all) => all.flat() as Wish['query'])
}

function headersOf({ parameters }: Operation): fc.Arbitrary<Record<string, string>> {
  const visible = fc.stringMatching(/^[\x21-\x7e]{1,40}$/)
  const some: Record<string, fc.Arbitrary<string>> = {
    'idempotency-key': fc.oneof(fc.constantFrom('k1', 'k2', 'k3'), fc.uuid(), visible),
    'if-match': fc.oneof(fc.constantFrom('*', '"1"', '"2", "3"', 'W/"1"', '1', '"'), visible),
    'if-none-match': fc.oneof(fc.constantFrom('*', '"1"', 'W/"2"'), visible),
  }
  const takes = parameters.filter((parameter) => parameter.in === 'header').map(({ name }) => name)
  const always = { 'x-request-id': visible, accept: fc.constantFrom('*/*', 'text/html', 'application/json;q=0') }
  const each = Object.entries({ ...always, ...Object.fromEntries(takes.map((name) => [name, some[name] ?? visible])) })
  const seldom = each.map(([name, value]) =>
    fc.oneof(
      { weight: 6, arbitrary: fc.constant({}) },
      { weight: 1, arbitrary: value.map((text) => ({ [name]: text })) },
    ),
  )
  return fc.tuple(...seldom).map((all) => Object.assign({}, ...all) as Record<string, string>)
}

interface Body {
  type: string | undefined
  bytes: Buffer
}

function bodyOf({ body, method }: Operation, given: Given): fc.Arbitrary<Body | null> {
  if (!body) {
    if (method === 'GET') return fc.constant(null)
    const uncalledFor = fc.constantFrom('', '{}', '[', 'x').map((text) => ({
      type: 'application/json',
      bytes: Buffer.from(text),
    }))
    return fc.oneof({ weight: often, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: uncalledFor })
  }
  const right = valueOf(body.schema, given)
  const types = fc.constantFrom(...body.types)
  const sent = (values: fc.Arbitrary<unknown>): fc.Arbitrary<Body> =>
    fc.tuple(values, types).map(([value, type]) => ({ type, bytes: Buffer.from(JSON.stringify(value)) }))
  return fc.oneof(
    { weight: often, arbitrary: sent(right) },
    { weight: often / 2, arbitrary: sent(spoilt(right)) },
    { weight: 1, arbitrary: sent(junk) },
    {
      weight: 2,
      arbitrary: fc.tuple(sent(right), fc.nat(), fc.nat({ max: 6 })).map(([b, at, how]) => broken(b, at, how)),
    },
    ...(body.required ? [] : [{ weight: 2, arbitrary: fc.constant(null) }]),
  )
}

/** Bytes that are not the JSON that they were. */
function broken({ type, bytes }: Body, at: number, how: number): Body {
  const middle = bytes.length === 0 ? 0 : at % bytes.length
  const insert = (what: Buffer): Buffer => Buffer.concat([bytes.subarray(0, middle), what, bytes.subarray(middle)])
  switch (how) {
    case 0:
      return { type, bytes: bytes.subarray(0, middle) }
    case 1:
      return { type, bytes: insert(Buffer.from([0xff, 0xfe])) }
    case 2:
      return { type, bytes: Buffer.concat([Buffer.from('\ufeff'), bytes]) }
    case 3:
      return { type, bytes: insert(Buffer.from([0])) }
    case 4:
      return { type: 'application/xml', bytes }
    case 5:
      return { type: `${type}; charset=utf-16`, bytes }
    default:
      return { type: undefined, bytes }
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}
