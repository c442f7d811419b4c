// Puts examples into the API's document. Those of named schemas are data, in `examples.json`, and tell of one tenant, one subscription and one
// afternoon; whole answers and lists get theirs from them.
import data from './examples.json' with { type: 'json' }

const EXAMPLES: Record<string, readonly unknown[] | undefined> = data

export interface SchemaNode {
  $ref?: string
  description?: string
  examples?: readonly unknown[]
  anyOf?: readonly SchemaNode[]
  type?: string
  properties?: Record<string, SchemaNode>
  items?: SchemaNode
}

/** Of the named schema; none where nobody has written one (a test finds that). */
export function examplesOf(name: string): readonly unknown[] {
  return EXAMPLES[name] ?? []
}

/** What stands in a media type's `example` or `examples`, made from what its schema refers to. Nothing where there is none. */
export function mediaExamples(schema: SchemaNode): {
  example?: unknown
  examples?: Record<string, { value: unknown }>
} {
  const all = schema.$ref ? examplesOf(nameIn(schema.$ref)) : [exampleOf(schema)].filter((one) => one !== undefined)
  if (all.length <= 1) return all.length === 1 ? { example: all[0] } : {}
  return { examples: Object.fromEntries(all.map((value, at) => [`example${at + 1}`, { value }])) }
}

function exampleOf(schema: SchemaNode): unknown {
  if (schema.$ref) return examplesOf(nameIn(schema.$ref))[0]
  if (schema.examples) return schema.examples[0]
  if (schema.anyOf) return exampleOfUnion(schema.anyOf)
  if (schema.items) return [exampleOf(schema.items)]
  if (!schema.properties) return undefined
  const each = Object.entries(schema.properties).map(([name, property]) => [name, exampleOf(property)] as const)
  return Object.fromEntries(each.filter(([, value]) => value !== undefined))
}

/** A page of one item is the last one: what may be null is, unless its schema shows something else. */
function exampleOfUnion(branches: readonly SchemaNode[]): unknown {
  const shown = branches.map(exampleOf).find((value) => value !== undefined)
  return shown === undefined && branches.some(({ type }) => type === 'null') ? null : shown
}

function nameIn(ref: string): string {
  return ref.replace('#/components/schemas/', '')
}
