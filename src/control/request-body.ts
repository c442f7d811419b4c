// The JSON body of a request. What JSON lets a reader pass over (another charset, bytes that are no text, a name that is there twice, digits
// that a number cannot hold) would be changed without a word: it is refused, with where it stands.
import type { FastifyRequest } from 'fastify'
import { HubError, type Fault } from '../base/errors.ts'
import { HALF_A_PAIR, membersOf, parseJsonText, partsOf, pointerStep, textOf, type Span } from '../base/json-text.ts'
import type { Api } from './api.ts'
import { invalid } from './validation.ts'

const TYPES = ['application/json', 'application/merge-patch+json']
const CHARSETS = ['utf-8', 'us-ascii']
/** Deeper than anything that people write. */
const MAX_DEPTH = 32

/** Makes `api` read JSON bodies, and refuse all others. No body is none, whatever content type is named for it. */
export function readJsonBodies(api: Api): void {
  api.removeAllContentTypeParsers()
  api.addContentTypeParser<Buffer>(TYPES, { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) => {
    if (body.length === 0) return undefined
    refuseEncoding(request)
    return valueOf(body)
  })
  api.addContentTypeParser<Buffer>('*', { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) => {
    if (body.length === 0) return undefined
    const given = request.headers['content-type']
    throw unsupported(
      'content-type',
      `${given === undefined ? 'is missing' : 'is another'}: send ${TYPES.join(' or ')}`,
    )
  })
}

function refuseEncoding({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding']?.toLowerCase() ?? 'identity'
  if (encoding !== 'identity') throw unsupported('content-encoding', 'is not taken: send the body as it is')
  const charset = /;\s*charset="?([^";\s]*)/i.exec(headers['content-type'] ?? '')?.[1]?.toLowerCase()
  if (charset !== undefined && !CHARSETS.includes(charset))
    throw unsupported('content-type', 'has another charset: JSON is UTF-8')
}

function unsupported(path: string, message: string): HubError {
  return new HubError('unsupported_media_type', `${path} ${message}.`, { faults: [{ path, message }] })
}

function valueOf(body: Buffer): unknown {
  const json = parseJsonText(body, MAX_DEPTH)
  if (typeof json === 'string')
    throw new HubError('invalid_request', `The body ${json}.`, { faults: [{ path: '', message: json }] })
  const faults = [...faultsOf(body, json.root, '')]
  if (faults.length > 0) throw invalid(faults.slice(0, MAX_FAULTS))
  return JSON.parse(body.toString())
}

const MAX_FAULTS = 50

/** What would not be kept as it is written. */
function* faultsOf(bytes: Buffer, value: Span, path: string): Generator<Fault> {
  const first = String.fromCharCode(bytes[value.start]!)
  if (first === '{') yield* faultsOfObject(bytes, value, path)
  else if (first === '[')
    for (const [at, part] of partsOf(bytes, value).entries()) yield* faultsOf(bytes, part, `${path}/${at}`)
  else if (first === '"') {
    if (!(JSON.parse(textOf(bytes, value)) as string).isWellFormed()) yield { path, message: HALF_A_PAIR }
  } else if (!keepsDigits(textOf(bytes, value)))
    yield {
      path,
      message: 'has more digits than a JSON number keeps, or is too large or small for one: write it as a text',
    }
}

function* faultsOfObject(bytes: Buffer, object: Span, path: string): Generator<Fault> {
  const names = new Set<string>()
  for (const { name, value } of membersOf(bytes, object)) {
    const place = `${path}${pointerStep(name)}`
    if (!name.isWellFormed()) yield { path: place, message: `${HALF_A_PAIR}: its name` }
    // It means the prototype to many a reader of JSON.
    if (name === '__proto__') yield { path: place, message: 'is a name that is not allowed' }
    if (names.has(name)) yield { path: place, message: 'is there more than once' }
    names.add(name)
    yield* faultsOf(bytes, value, place)
  }
}

/** Whether the literal, read as a double and written again, is still the same number. True for what is no number. */
function keepsDigits(literal: string): boolean {
  const asked = decimal(literal)
  return asked === null || asked === decimal(String(Number(literal)))
}

/** A number's significant digits and the power of ten that they are multiplied by, so that equal numbers are equal texts; zero has no sign. */
function decimal(literal: string): string | null {
  const [, sign, whole, fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(literal) ?? []
  if (whole === undefined) return null
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
}
