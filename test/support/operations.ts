// The API's operations as its own document has them, and a request for each: so that a test of all routes takes in a new one by
// itself, and says what it lacks where it cannot.
import assert from 'node:assert/strict'
import type { Scope } from '../../src/control/auth/principal.ts'
import type { Call, TestControl } from './control.ts'

export interface Operation {
  method: NonNullable<Call['method']>
  /** With `{…}` for what is put in. */
  path: string
  /** Null: it asks for no credential. */
  scope: Scope | null
  /** The example of its body; null: it takes none. */
  body: unknown
  /** What can be put into its query. */
  query: string[]
}

interface Media {
  schema: { required?: string[] }
  example?: unknown
  examples?: Record<string, { value: unknown }>
}

interface Described {
  security?: Record<string, Scope[]>[]
  requestBody?: { content: Record<string, Media> }
  parameters?: { in: string; name: string }[]
}

export function operationsOf(control: TestControl): Operation[] {
  const { paths } = control.server.api.swagger() as unknown as { paths: Record<string, Record<string, Described>> }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({
      method: method.toUpperCase() as Operation['method'],
      path,
      scope: scopeOf(`${method} ${path}`, described),
      body: bodyOf(`${method} ${path}`, described),
      query: (described.parameters ?? []).filter((parameter) => parameter.in === 'query').map(({ name }) => name),
    })),
  )
}

function scopeOf(place: string, { security }: Described): Scope | null {
  assert.ok(security, `${place} does not say what it asks for`)
  const scopes = new Set(security.flatMap((scheme) => Object.values(scheme).flat()))
  assert.equal(scopes.size, security.length === 0 ? 0 : 1, place)
  return [...scopes][0] ?? null
}

function bodyOf(place: string, { requestBody }: Described): unknown {
  const media = Object.values(requestBody?.content ?? {})[0]
  if (!media) return null
  const example = media.example ?? Object.values(media.examples ?? {})[0]?.value
  assert.ok(example ?? !media.schema.required?.length, `the body of ${place} has no example`)
  return example ?? {}
}
