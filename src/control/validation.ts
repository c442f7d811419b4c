// Requests are checked against their TypeBox schemas; every fault is told at once, with where it is: a JSON pointer into the
// body, `?name` of a query parameter, `:name` of the path, a header by its name. Where a schema node has a `title`, it completes "must be …".
import type { FastifySchemaCompiler } from 'fastify'
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Settings } from 'typebox/system'
import { Value } from 'typebox/value'
import { HubError, type Fault } from '../base/errors.ts'

/** More faults than a person reads, few enough for an answer. */
const MAX_FAULTS = 50

/** For Fastify: the text of a query becomes what its schema says, where it is exactly that; all else is taken as it is. */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const check = createCheck(schema, pathOf(httpPart))
  if (httpPart !== 'querystring') return (value: unknown) => outcome(() => check(value))
  const { properties } = schema as { properties: Record<string, { type?: string }> }
  return (query: object) =>
    outcome(() => check(mapValues(query, (text, name) => fromText(text, properties[name]?.type))))
}

/** A check of bodies that do not come straight from the wire: answers the value, or throws `invalid_request` with all faults. */
export function createCheck<T extends TSchema>(
  schema: T,
  pathFor = (pointer: string) => pointer,
): (value: unknown) => Static<T> {
  Settings.Set({ maxErrors: MAX_FAULTS })
  const compiled = Compile(schema)
  return (value) => {
    if (compiled.Check(value)) return value
    const faults = faultsOf(schema, compiled.Errors(value)).map(({ path, message }) => ({
      path: pathFor(path),
      message,
    }))
    throw invalid(faults)
  }
}

/** `invalid_request` with these faults. */
export function invalid(faults: readonly Fault[]): HubError {
  const [first, ...others] = faults
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  const place = first?.path ? `${first.path} ` : ''
  return new HubError('invalid_request', `The request is not valid: ${place}${first?.message}${more}.`, { faults })
}

function outcome(check: () => unknown): { value: unknown } | { error: Error } {
  try {
    return { value: check() }
  } catch (error) {
    if (error instanceof HubError) return { error }
    throw error
  }
}

function pathOf(httpPart: string | undefined): (pointer: string) => string {
  if (httpPart === 'querystring') return (pointer) => `?${pointer.slice(1)}`
  if (httpPart === 'params') return (pointer) => `:${pointer.slice(1)}`
  if (httpPart === 'headers') return (pointer) => pointer.slice(1)
  return (pointer) => pointer
}

function mapValues(object: object, change: (value: unknown, name: string) => unknown): object {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)]))
}

function fromText(text: unknown, type: string | undefined): unknown {
  if (typeof text !== 'string') return text
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text)
  if (type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  return text
}

interface SchemaError {
  keyword: string
  schemaPath: string
  instancePath: string
  message: string
  params: object
}

function faultsOf(schema: TSchema, errors: readonly SchemaError[]): Fault[] {
  const telling = errors.filter((error) => !isEcho(schema, error, errors) && !isOfUntoldBranch(schema, error, errors))
  const faults = telling.flatMap((error) => faultOf(schema, error))
  return [...new Map(faults.map((fault) => [`${fault.path} ${fault.message}`, fault])).values()]
}

/**
 * Errors that only repeat others: the summary of unknown fields, a union's `null` branch's, and a union's own; or, where the union
 * has a title, those of its branches.
 */
function isEcho(schema: TSchema, error: SchemaError, errors: readonly SchemaError[]): boolean {
  if (error.keyword === 'additionalProperties') return true
  const isTitled = (path: string): boolean => nodeAt(schema, path)?.title !== undefined
  if (unionsOf(error.schemaPath).some(({ union }) => isTitled(union.slice(0, -'/anyOf'.length)))) return true
  if (error.keyword === 'anyOf' && !isTitled(error.schemaPath))
    return errors.some((other) => other.schemaPath.startsWith(`${error.schemaPath}/anyOf/`))
  const isNullBranch = error.keyword === 'type' && typeOf(error) === 'null'
  return isNullBranch && errors.some((other) => other !== error && other.instancePath.startsWith(error.instancePath))
}

/**
 * Of objects that are told apart by their `kind`, only the errors of the kind that was meant help; of no known kind, only that. (A
 * branch that has nothing against the kind is the one that was meant.)
 */
function isOfUntoldBranch(schema: TSchema, error: SchemaError, errors: readonly SchemaError[]): boolean {
  const isOther = (branch: string): boolean => errors.some((other) => isAboutKind(other, branch))
  return unionsOf(error.schemaPath).some(({ union, branch }) => {
    if (!isOther(branch)) return false
    const branches = Object.keys(nodeAt(schema, union) ?? {}).map((n) => `${union}/${n}`)
    return !isAboutKind(error, branch) || !branches.every(isOther)
  })
}

/** Whether it says that the kind of a union's branch is missing, or another one. */
function isAboutKind(error: SchemaError, branch: string): boolean {
  if (error.schemaPath === `${branch}/properties/kind`) return true
  return error.keyword === 'required' && error.schemaPath === branch && requiredOf(error).includes('kind')
}

/** The unions on a schema's path, and which branch of each the path takes. */
function unionsOf(schemaPath: string): { union: string; branch: string }[] {
  return [...schemaPath.matchAll(/\/anyOf\/\d+(?=\/|$)/g)].map(({ index, 0: step }) => ({
    union: `${schemaPath.slice(0, index)}/anyOf`,
    branch: schemaPath.slice(0, index) + step,
  }))
}

function faultOf(schema: TSchema, error: SchemaError): Fault[] {
  const path = error.instancePath
  if (error.keyword === 'required') {
    const ofUnion = unionsOf(error.schemaPath).some(({ branch }) => isAboutKind(error, branch))
    const names = ofUnion ? ['kind'] : requiredOf(error)
    return names.map((name) => ({ path: `${path}/${name}`, message: 'is required' }))
  }
  const node = nodeAt(schema, error.schemaPath)
  if (error.keyword === 'boolean') return [{ path, message: 'is not a known field' }]
  if (node?.title !== undefined) return [{ path, message: `must be ${node.title}` }]
  if (Array.isArray(node?.enum)) return [{ path, message: `must be one of ${node.enum.join(', ')}` }]
  if (error.keyword === 'type') return [{ path, message: `must be ${TYPES[typeOf(error)] ?? typeOf(error)}` }]
  return [{ path, message: error.message }]
}

function nodeAt(schema: TSchema, schemaPath: string): { title?: string; enum?: unknown } | undefined {
  return Value.Pointer.Get(schema, schemaPath.slice(1)) as { title?: string; enum?: unknown } | undefined
}

const TYPES: Record<string, string> = {
  object: 'an object',
  array: 'a list',
  string: 'a text',
  integer: 'a whole number',
  boolean: 'true or false',
}

function requiredOf(error: SchemaError): string[] {
  return (error.params as { requiredProperties: string[] }).requiredProperties
}

function typeOf(error: SchemaError): string {
  return String((error.params as { type?: unknown }).type)
}
