// What stands beside the body of an answer, for the API's document: its headers, and what it means. Nothing here is checked at run time; a
// test asks for real answers and compares.
import { withMore } from './common.ts'

/** A header as the document has it; `x-required`: it is on every such answer (the generator has no other place for that). */
export interface AnswerHeader {
  description: string
  type: 'string' | 'integer'
  'x-required'?: true
  examples: (string | number)[]
}

/** Those that only some routes answer with. */
const HEADERS = {
  etag: {
    type: 'string',
    description: 'The version of the subscription, for `if-match` and `if-none-match`.',
    'x-required': true,
    examples: ['"3"'],
  },
  location: {
    type: 'string',
    description: 'The path where what was made can be read.',
    'x-required': true,
    examples: ['/v1/subscriptions/019e1b6a-1e80-7d3b-9d0e-2f6a4b8c9d10'],
  },
  'content-disposition': {
    type: 'string',
    description: 'A file to be saved, never to be shown, with a name for it.',
    'x-required': true,
    examples: ['attachment; filename="quarantined-019e25f0-3b14-7c11-b2f4-9d0c7e5a3b21.bin"'],
  },
} as const satisfies Record<string, AnswerHeader>

/** The answer that `schema` describes, with the headers of this route and, where it says more than the schema, what it means here. */
export function answer<T extends object>(
  schema: T,
  { headers, description }: { headers?: readonly (keyof typeof HEADERS)[]; description?: string },
): T {
  return withMore(schema, {
    ...(headers && { headers: Object.fromEntries(headers.map((name) => [name, HEADERS[name]])) }),
    ...(description !== undefined && { description }),
  })
}
