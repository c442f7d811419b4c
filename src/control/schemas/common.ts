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

export const Uuid = Type.String({ pattern: UUID, title: 'a UUID', examples: ['019e1b6a-1e80-7d3b-9d0e-2f6a4b8c9d10'] })
export const Timestamp = Type.String({ format: 'date-time', title: 'an RFC 3339 time with an offset' })
export const Text = (description: string) => Type.String({ description })
export const Flag = (description: string) => Type.Boolean({ description })
/** Of things: none is 0. */
export const Count = (description: string) => Type.Integer({ minimum: 0, description })
export const SourceName = Grammar(isSource, {
  title: 'the name of a producing application, such as lender',
  examples: ['lender'],
})
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
  'if-match': Type.Optional(
    told(
      TagList,
      'Go on only while the object is in one of these versions, else 412: entity tags as `etag` has them, or `*`.',
    ),
  ),
  'if-none-match': Type.Optional(
    told(
      TagList,
      'Go on only while the object is in none of these versions: else a GET is answered 304, and a change 412.',
    ),
  ),
})

export const NotModified = Type.Unsafe<undefined>({ type: 'null', description: 'It is as the caller knows it' })

/** What it is, and what null means, where its description says so. */
export function Nullable<T extends TSchema>(schema: T, description?: string) {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description })
}

/** `schema` with its description. */
export function told<T extends TSchema>(schema: T, description: string): T {
  return withMore(schema, { description })
}

/** A copy of `schema` with more in it. TypeBox keeps refinements where a spread does not see them: what is spread checks less than it says. */
export function withMore<T extends object, More extends object>(schema: T, more: More): T & More {
  const copy = Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema))
  return Object.assign(copy, more) as T & More
}

/** Whether `text` is one of the ids that lists are ordered by. */
export function isUuid(text: string): boolean {
  return new RegExp(UUID).test(text)
}

/** Of a path that names one object; `owner`: whose id it is. */
export function idParams(owner: string) {
  return Type.Object({ id: told(Uuid, `The id of the ${owner}.`) })
}

/** Of every list. */
export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LIMIT,
      default: DEFAULT_LIMIT,
      title: `a whole number from 1 to ${MAX_LIMIT}`,
      description: 'The most items of a page.',
    }),
  ),
  cursor: Type.Optional(
    Type.String({ maxLength: 1024, description: '`next_cursor` of the page before; none given: the first page.' }),
  ),
}

/** Of lists that go back in time. */
export const timeQuery = {
  since: Type.Optional(told(Timestamp, 'What is of this moment or later, by the time that the list is ordered by.')),
  until: Type.Optional(told(Timestamp, 'What is of before this moment, by the time that the list is ordered by.')),
}

/** A schema that the OpenAPI document has under its name, referred to where it is used. */
export function named<T extends TSchema>(name: string, schema: T): T & { $id: string } {
  return withMore(schema, { $id: name })
}

/** Refers to a `named` schema: for answers, which are documented and not checked. */
export function refer<T extends TSchema & { $id: string }>(schema: T) {
  const { description } = schema as { description?: string }
  return Type.Unsafe<Static<T>>({ $ref: `#/components/schemas/${schema.$id}`, ...(description && { description }) })
}

/** A page of a list. */
export function Page<T extends TSchema & { $id: string }>(item: T) {
  return Type.Object(
    {
      items: Type.Array(refer(item), { description: 'In the order of the list.' }),
      next_cursor: Nullable(
        Type.String(),
        'Give it as `?cursor` for the next page; null on the last one. Opaque: what it is made of may change.',
      ),
    },
    { description: 'A page of the list' },
  )
}

/** All there is, in one answer. */
export function Everything<T extends TSchema & { $id: string }>(item: T) {
  return Type.Object(
    { items: Type.Array(refer(item), { description: 'All of them: there are no pages.' }) },
    { description: 'The whole list' },
  )
}

export const ProblemSchema = named(
  'Problem',
  Type.Object(
    {
      type: Text('A URN that names the code; stable, and not an address.'),
      title: Text('What the code means, the same for every problem of it.'),
      status: Type.Integer({ description: 'The HTTP status of the answer.' }),
      detail: Text('What went wrong with this request, for people; its wording may change.'),
      code: Type.Enum(Object.keys(errorCatalogue) as ErrorCode[], {
        description: 'What programs go by: a code never changes its meaning, and new ones may be added.',
      }),
      retryable: Flag('Whether the same request can work later.'),
      errors: Type.Array(
        Type.Object({
          path: Text('A JSON pointer into the body; ?name of the query; :name of the path; a header by its name.'),
          message: Text('What is wrong there: completes a sentence that begins with the path.'),
        }),
        { description: 'Each fault of the request; empty where there is no more to say than `detail`.' },
      ),
      request_id: Text('Finds the request in the log; the same as the header `x-request-id`.'),
    },
    { description: 'What every error is answered with (RFC 9457), as application/problem+json.' },
  ),
)
