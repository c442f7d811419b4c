// What all schemas are made of. A schema is the one source of a request's check, of its type and of its documentation. A leaf's
// `title` is the noun phrase that a fault's "must be …" ends with.
import { Type, type Static, type TSchema } from 'typebox'
import { errorCatalogue, type ErrorCode } from '../../base/errors.ts'
import { duration } from '../../base/parser.ts'
import { isSource } from '../../event/source.ts'
import { isEventTypePattern } from '../../matching/match.ts'
import { parseTagList } from '../preconditions.ts'

const UUID = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'

export const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
const MAX_URL_LENGTH = 2048

export const Uuid = Type.String({ pattern: UUID, title: 'a UUID', examples: ['01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'] })
export const Timestamp = Type.String({ format: 'date-time', title: 'an RFC 3339 time with an offset' })
export const SourceName = Grammar(isSource, { title: 'the name of a producing application, such as lender' })
export const EventPattern = Grammar(isEventTypePattern, {
  title: 'an event type <resource>.<event>, <resource>.* or *',
  examples: ['loan_application.approved'],
})
/** Text that PostgreSQL can hold and a log line can show: one line, in the direction that it was written in. */
export const Line = (noun: string, maxLength: number) =>
  Type.String({
    pattern: `^(?=.*\\S)[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]{1,${maxLength}}$`,
    title: `${noun} of 1 to ${maxLength} characters, not only white space, without control characters`,
  })
/** Bounds are durations too, and belong to it. */
export function DurationText(min: string, max: string) {
  const parser = duration(min, max)
  return Grammar((text) => parser.parse(text) !== null, { title: parser.expected, examples: [max] })
}

/** A text with a grammar that is stated elsewhere: the schema asks it. */
function Grammar(isOne: (text: string) => boolean, options: { title: string; examples?: string[] }) {
  return Type.Refine(Type.String(options), isOne, () => `must be ${options.title}`)
}

/** An absolute URL, of whatever scheme: what may be a destination is decided elsewhere. */
export const UrlText = Grammar(
  (text) => text.length <= MAX_URL_LENGTH && /^[^\s\p{Cc}]+$/u.test(text) && URL.canParse(text),
  {
    title: `a URL of at most ${MAX_URL_LENGTH} characters`,
  },
)

const TagList = Grammar((text) => parseTagList(text) !== null, {
  title: '* or a list of entity tags',
  examples: ['"7"'],
})

/** Of routes that change an object which has a version. */
export const ConditionalHeaders = Type.Object({
  'if-match': Type.Optional(TagList),
  'if-none-match': Type.Optional(TagList),
})

export const NotModified = Type.Unsafe<undefined>({ type: 'null', description: 'It is as the caller knows it' })

/** The same schema with another description. What a schema refines with is not enumerable: a spread would lose it, and the check. */
export function told<T extends TSchema>(schema: T, description: string): T {
  const copy = Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema)) as T
  return Object.assign(copy, { description })
}

export function Nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()])
}

/** Whether `text` is one of the ids that lists are ordered by. */
export function isUuid(text: string): boolean {
  return new RegExp(UUID).test(text)
}

export const IdParams = Type.Object({ id: Uuid })

/** Of every list. */
export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LIMIT,
      default: DEFAULT_LIMIT,
      title: `a whole number from 1 to ${MAX_LIMIT}`,
    }),
  ),
  cursor: Type.Optional(Type.String({ maxLength: 1024, description: 'next_cursor of the page before' })),
}

/** Of lists that go back in time. */
export const timeQuery = {
  since: Type.Optional(Timestamp),
  until: Type.Optional(Timestamp),
}

/** A schema that the OpenAPI document has under its name, referred to where it is used. */
export function named<T extends TSchema>(name: string, schema: T): T & { $id: string } {
  return { ...schema, $id: name }
}

/** Refers to a `named` schema: for answers, which are documented and not checked. */
export function refer<T extends TSchema & { $id: string }>(schema: T) {
  return Type.Unsafe<Static<T>>({ $ref: `#/components/schemas/${schema.$id}` })
}

/** A page of a list. */
export function Page<T extends TSchema & { $id: string }>(item: T) {
  return Type.Object({
    items: Type.Array(refer(item)),
    next_cursor: Nullable(Type.String({ description: 'Give it as ?cursor for the next page; null on the last one.' })),
  })
}

export const ProblemSchema = named(
  'Problem',
  Type.Object(
    {
      type: Type.String(),
      title: Type.String(),
      status: Type.Integer(),
      detail: Type.String(),
      code: Type.Enum(Object.keys(errorCatalogue) as ErrorCode[]),
      retryable: Type.Boolean({ description: 'Whether the same request can work later.' }),
      errors: Type.Array(
        Type.Object({
          path: Type.String({
            description: 'A JSON pointer into the body; ?name of the query; :name of the path; a header by its name.',
          }),
          message: Type.String(),
        }),
      ),
      request_id: Type.String(),
    },
    {
      description: 'RFC 9457',
      examples: [
        {
          type: 'urn:streaming-hub:problem:invalid_request',
          title: 'The request is malformed',
          status: 400,
          detail: 'The request is not valid: /sink/url must be an https URL.',
          code: 'invalid_request',
          retryable: false,
          errors: [{ path: '/sink/url', message: 'must be an https URL' }],
          request_id: '01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10',
        },
      ],
    },
  ),
)
