// Values that fit a JSON schema of the API's document, and the same with one place spoilt. What a schema only says in words (`title`) is
// taken from its examples.
import * as fc from 'fast-check'

export interface Schema {
  $ref?: string
  type?: unknown
  title?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  patternProperties?: Record<string, Schema>
  items?: Schema
  minItems?: number
  maxItems?: number
  pattern?: string
  format?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  examples?: unknown[]
}

const MOST_CHARACTERS = 60
const MOST_ITEMS = 4

/** Values of properties by their names, instead of what the schema alone would give: addresses, above all, that may be called. */
export type Given = Record<string, fc.Arbitrary<unknown>>

export function valueOf(schema: Schema, given: Given): fc.Arbitrary<unknown> {
  if (schema.examples?.length && isOnlyTold(schema)) return fc.constantFrom(...schema.examples)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((branch) => valueOf(branch, given)))
  switch (schema.type) {
    case 'string':
      return textOf(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -1000, max: schema.maximum ?? 2 ** 31 - 1 })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(valueOf(schema.items ?? {}, given), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? MOST_ITEMS, MOST_ITEMS),
      })
    case 'object':
      return objectOf(schema, given)
    default:
      return fc.jsonValue({ maxDepth: 3 })
  }
}

/** A text whose grammar is not in the schema. */
function isOnlyTold({ type, title, pattern }: Schema): boolean {
  return (type === 'string' && title !== undefined && pattern === undefined) || type === 'array'
}

function textOf({ pattern, format, minLength = 0, maxLength = MOST_CHARACTERS, title }: Schema): fc.Arbitrary<string> {
  if (format === 'date-time')
    return fc
      .date({ min: new Date('2020-01-01'), max: new Date('2035-01-01'), noInvalidDate: true })
      .map((date) => date.toISOString())
  if (pattern !== undefined) return fc.oneof(matching(pattern), fc.string({ minLength: 1, maxLength: MOST_CHARACTERS }))
  if (title?.includes('producing application')) return fc.constantFrom('lender', 'ledger')
  return fc.string({ minLength, maxLength: Math.min(maxLength, MOST_CHARACTERS), unit: 'grapheme' })
}

/** Not every pattern can be read backwards: then a word. */
function matching(pattern: string): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'), { size: 'small' })
  } catch {
    return fc.stringMatching(/^[a-z][a-z0-9 -]{0,30}$/)
  }
}

function objectOf(schema: Schema, given: Given): fc.Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties: rest, patternProperties = {} } = schema
  const known = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, given[name] ?? valueOf(of, given)])),
    { requiredKeys: required },
  )
  const ofOthers = typeof rest === 'object' ? rest : Object.values(patternProperties)[0]
  if (!ofOthers) return known
  const names = fc.oneof(fc.stringMatching(/^x-[a-z]{1,8}$/), fc.string({ maxLength: 8 }))
  const others = fc.dictionary(names, valueOf(ofOthers, given), { maxKeys: 3 })
  return fc.tuple(known, others).map(([a, b]) => ({ ...b, ...(a as object) }))
}

/** What no caller should send, and some do. */
export const junk: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, '', ' ', 0, -1, 1e308, 2 ** 53, 0.5, true, [], {}, [null], [[[[[]]]]], { '': {} }),
  fc.constantFrom('\u0000', 'a\u0000b', '\ud800', 'x\udfffy', '\u202e', '\ufeff', '\r\nx-evil: 1', '__proto__', '%00'),
  fc.constantFrom("' or 1=1 --", '${x}', '../../etc/passwd', '{{7*7}}', '\\', '"', '<script>', '🎉'.repeat(200)),
  fc.nat({ max: 20_000 }).map((length) => 'x'.repeat(length)),
  fc.nat({ max: 2_000 }).map(nested),
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.integer({ min: -(2 ** 53), max: 2 ** 53 }),
  fc.jsonValue({ maxDepth: 2 }),
)

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 ? [value] : { a: value }
  return value
}

type Place = (string | number)[]

/** `of` with one of its places replaced by junk, taken away, or with a neighbour that is unknown. */
export function spoilt(of: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const how = fc.constantFrom('replace', 'replace', 'remove', 'add')
  return fc.tuple(of, fc.nat(), junk, how).map(([value, at, bad, what]) => {
    const all = placesOf(value)
    return spoil(value, all[at % all.length] ?? [], { what, bad })
  })
}

function placesOf(value: unknown, place: Place = []): Place[] {
  if (typeof value !== 'object' || value === null) return [place]
  return [place, ...Object.entries(value).flatMap(([name, inner]) => placesOf(inner, [...place, name]))]
}

function spoil(value: unknown, [name, ...rest]: Place, how: { what: string; bad: unknown }): unknown {
  if (name === undefined) {
    if (how.what !== 'add') return how.bad
    return typeof value === 'object' && value !== null ? { ...value, unknown_field: how.bad } : how.bad
  }
  const copy: Record<string, unknown> = { ...(value as object) }
  if (rest.length === 0 && how.what === 'remove') delete copy[name]
  else copy[name] = spoil(copy[name], rest, how)
  return Array.isArray(value) ? Object.values(copy) : copy
}
