// A producer's manifest: what the types of its events mean, as JSON. Read with patience: an entry that is wrong is left out and told, the
// others stay; members that are not known are passed over.
import type { Fault } from '../base/errors.ts'
import { parseJsonText } from '../base/json-text.ts'
import { isSource } from '../event/source.ts'
import type { DescribedType } from '../store/manifests.ts'

const MAX_DEPTH = 32
const MAX_TYPES = 2_000
/** Of those that are told. */
const MAX_FAULTS = 100
const EVENT_TYPE = /^[A-Za-z0-9_-]{1,128}\.[A-Za-z0-9_-]{1,128}$/

export interface Manifest {
  types: DescribedType[]
  /** What was not taken, by its JSON pointer. */
  leftOut: Fault[]
}

/** Reads a manifest; or answers in one sentence why it is none. */
export function readManifest(bytes: Buffer): Manifest | string {
  const json = parseJsonText(bytes, MAX_DEPTH)
  if (typeof json === 'string') return `the manifest ${json}`
  const { source, event_types: entries } = membersIn(JSON.parse(bytes.toString()))
  if (typeof source !== 'string' || !isSource(source))
    return '/source is not the name of a producing application, such as lender'
  if (!Array.isArray(entries)) return '/event_types is not a list'
  if (entries.length > MAX_TYPES) return `/event_types has more than ${MAX_TYPES} entries`
  const types = new Map<string, DescribedType>()
  const leftOut: Fault[] = []
  for (const [at, entry] of (entries as unknown[]).entries()) {
    const path = `/event_types/${at}`
    const read = readEntry(source, entry)
    if ('path' in read) leftOut.push({ ...read, path: `${path}${read.path}` })
    else if (types.has(read.eventKey)) leftOut.push({ path, message: 'describes a type a second time' })
    else types.set(read.eventKey, read)
  }
  return { types: [...types.values()], leftOut: leftOut.slice(0, MAX_FAULTS) }
}

function membersIn(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

/** The entry, or what is wrong with it first. */
function readEntry(source: string, entry: unknown): DescribedType | Fault {
  const { event_type: eventKey, title, description, data_schema: dataSchema } = membersIn(entry)
  if (typeof eventKey !== 'string' || !EVENT_TYPE.test(eventKey))
    return { path: '/event_type', message: 'is not an event type <resource>.<event>' }
  const texts = { title, description, data_schema: dataSchema }
  for (const [name, { isOne, expected }] of Object.entries(TEXTS)) {
    const text = texts[name as keyof typeof TEXTS] ?? null
    if (text !== null && !(typeof text === 'string' && text.isWellFormed() && isOne(text)))
      return { path: `/${name}`, message: `is not ${expected}` }
  }
  return {
    source,
    eventKey,
    title: textOrNull(title),
    description: textOrNull(description),
    dataSchema: textOrNull(dataSchema),
  }
}

function textOrNull(text: unknown): string | null {
  return typeof text === 'string' ? text : null
}

/** Controls and marks that turn the direction of text have no place in what is shown. */
const UNSHOWABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u

const TEXTS = {
  title: {
    expected: 'a line of 1 to 200 characters',
    isOne: (text: string) => text.trim() !== '' && text.length <= 200 && !UNSHOWABLE.test(text),
  },
  description: {
    expected: 'a text of 1 to 4,000 characters without control characters, but for line feeds and tabs',
    isOne: (text: string) =>
      text.trim() !== '' && text.length <= 4_000 && !UNSHOWABLE.test(text.replace(/[\n\t]/g, '')),
  },
  data_schema: {
    expected: 'an http or https URL of at most 2,048 characters',
    isOne: (text: string) => text.length <= 2_048 && /^https?:\/\/[\x21-\x7e]+$/.test(text) && URL.canParse(text),
  },
}
