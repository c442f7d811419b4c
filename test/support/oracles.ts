// The contract of a record read a second time, by other means than the code under test: split and compare numbers instead of
// regular expressions, every fault looked for instead of the first. Slow and plain on purpose.
import type { IncomingRecord } from '../../src/event/record.ts'

/** Whether the text is a UUID of version 7: its bytes, written back as RFC 9562 writes them, give the text again. */
export function isVersion7(text: string): boolean {
  const bytes = Buffer.from(text.replaceAll('-', ''), 'hex')
  if (bytes.length !== 16 || bytes[6]! >> 4 !== 7 || bytes[8]! >> 6 !== 2) return false
  const written = [
    bytes.subarray(0, 4),
    bytes.subarray(4, 6),
    bytes.subarray(6, 8),
    bytes.subarray(8, 10),
    bytes.subarray(10),
  ]
  return written.map((part) => part.toString('hex')).join('-') === text.toLowerCase()
}

/** Whether the text is an RFC 3339 date-time: read from its ends inwards, then shown to exist by the calendar of `Date`. */
export function isMoment(text: string): boolean {
  const upper = text.toUpperCase()
  if (upper !== upper.replaceAll(/[^-+0-9.:TZ]/g, '') || upper.length > 35) return false
  const { rest, offset } = splitOffset(upper)
  if (offset === null || rest[10] !== 'T') return false
  const date = numbers(rest.slice(0, 10), '-', [4, 2, 2])
  const [clock, fraction, ...more] = rest.slice(11).split('.')
  const time = numbers(clock!, ':', [2, 2, 2])
  if (!date || !time || more.length > 0) return false
  if (fraction !== undefined && (!isDigits(fraction) || fraction.length > 9)) return false
  return exists(date, time, offset)
}

function splitOffset(text: string): { rest: string; offset: number | null } {
  if (text.endsWith('Z')) return { rest: text.slice(0, -1), offset: 0 }
  const sign = text.at(-6)
  const parts = numbers(text.slice(-5), ':', [2, 2])
  if ((sign !== '+' && sign !== '-') || !parts || parts[0]! > 23 || parts[1]! > 59) return { rest: '', offset: null }
  return { rest: text.slice(0, -6), offset: (sign === '+' ? 1 : -1) * (parts[0]! * 60 + parts[1]!) }
}

function numbers(text: string, separator: string, widths: number[]): number[] | null {
  const parts = text.split(separator)
  if (parts.length !== widths.length) return null
  return parts.every((part, at) => isDigits(part) && part.length === widths[at]) ? parts.map(Number) : null
}

function isDigits(text: string): boolean {
  return consistsOf(text, '0123456789')
}

function exists(date: number[], time: number[], offset: number): boolean {
  const [year, month, day] = date as [number, number, number]
  const [hour, minute, second] = time as [number, number, number]
  // The calendar repeats every 400 years; this keeps `Date.UTC` from taking the years 0–99 for 1900–1999.
  const moment = new Date(Date.UTC((year % 400) + 2000, month - 1, day, hour, minute, Math.min(second, 59)))
  const fields = [moment.getUTCMonth() + 1, moment.getUTCDate(), moment.getUTCHours(), moment.getUTCMinutes()]
  if (fields.join() !== [month, day, hour, minute].join()) return false
  if (second !== 60) return second < 60
  const after = new Date(moment.getTime() - offset * 60_000 + 1000).toISOString()
  return after.slice(8, 19) === '01T00:00:00'
}

/** The major of a semver-like text, or null. */
export function majorOf(text: string): number | null {
  if (Buffer.byteLength(text) > 64) return null
  const [versionAndPrerelease, build, ...moreBuilds] = text.split('+') as [string, ...string[]]
  const hyphen = versionAndPrerelease.indexOf('-')
  const version = hyphen < 0 ? versionAndPrerelease : versionAndPrerelease.slice(0, hyphen)
  const prerelease = hyphen < 0 ? null : versionAndPrerelease.slice(hyphen + 1)
  const parts = (version.startsWith('v') ? version.slice(1) : version).split('.')
  if (moreBuilds.length > 0 || parts.length > 3 || !parts.every(isPlainNumber)) return null
  if (build !== undefined && !build.split('.').every(isIdentifier)) return null
  if (
    prerelease !== null &&
    !prerelease.split('.').every((part) => isIdentifier(part) && (!isDigits(part) || isPlainNumber(part)))
  )
    return null
  return Number(parts[0]) < 2_147_483_648 ? Number(parts[0]) : null
}

function isPlainNumber(text: string): boolean {
  return isDigits(text) && (text === '0' || text[0] !== '0')
}

function isIdentifier(text: string): boolean {
  return consistsOf(text, `${LOWER}${LOWER.toUpperCase()}0123456789-`)
}

const LOWER = 'abcdefghijklmnopqrstuvwxyz'

function consistsOf(text: string, alphabet: string): boolean {
  return text !== '' && Array.from(text).every((character) => alphabet.includes(character))
}

/** What must come of a record: the reasons that its first broken stage allows, or its acceptance or drop. */
export type Expected = { kind: 'accept' | 'drop' } | { kind: 'quarantine'; reasons: Set<string> }

/** Decides by the contract's text alone. */
export function expectedVerdict(record: IncomingRecord): Expected {
  const { values, faults } = readAll(record)
  if (faults.size > 0) return { kind: 'quarantine', reasons: faults }
  for (const stage of [missing, ownFaults, disagreements]) {
    const reasons = stage(values, record)
    if (reasons.size > 0) return { kind: 'quarantine', reasons }
  }
  if (values.get('systemevent') === 'true') return { kind: 'drop' }
  const tenant = values.get('tenantid')
  if (tenant === undefined) return { kind: 'quarantine', reasons: new Set(['missing_tenant']) }
  const isFit = Buffer.byteLength(tenant) <= 256 && !hasControl(tenant) && /\S/.test(tenant)
  return isFit ? { kind: 'accept' } : { kind: 'quarantine', reasons: new Set(['invalid_tenant']) }
}

type Values = Map<string, string>

/** What is not UTF-8 does not come back when it is written again. */
function decoded(bytes: Buffer): string | null {
  const text = bytes.toString()
  return Buffer.from(text).equals(bytes) ? text : null
}

function readAll({ headers }: IncomingRecord): { values: Values; faults: Set<string> } {
  const all = new Map<string, Set<string>>()
  const faults = new Set<string>()
  for (const [key, value] of headers) {
    const name = key && decoded(key)
    if (!name?.startsWith('ce-') || name === 'ce-') continue
    const text = decoded(value ?? Buffer.alloc(0))
    if (text === null) faults.add('not_utf8')
    const seen = all.get(name.slice(3)) ?? new Set()
    if (text !== null) all.set(name.slice(3), seen.add(text))
    if (seen.size > 1) faults.add('conflicting_attribute')
  }
  const values = new Map(
    [...all].map(([name, texts]) => [name, [...texts][0]!] as const).filter(([, text]) => text !== ''),
  )
  return { values, faults }
}

const REQUIRED = ['specversion', 'id', 'source', 'type', 'time', 'schemaversion', 'resourcetype', 'eventtype']

function missing(values: Values): Set<string> {
  return new Set(REQUIRED.every((name) => values.has(name)) ? [] : ['missing_attribute'])
}

function ownFaults(values: Values): Set<string> {
  const is = (name: string, fits: (value: string) => boolean) => fits(values.get(name)!)
  const found = new Set<string>()
  if (!is('specversion', (value) => value === '1.0')) found.add('unsupported_specversion')
  if (!is('id', isVersion7)) found.add('invalid_id')
  if (!is('source', isLowerSegment)) found.add('invalid_source')
  if (!is('time', isMoment)) found.add('invalid_time')
  if (!is('schemaversion', (value) => majorOf(value) !== null)) found.add('invalid_schemaversion')
  if (!is('resourcetype', isSegment)) found.add('invalid_resourcetype')
  if (!is('eventtype', isSegment)) found.add('invalid_eventtype')
  // The own codes above stand before the two shared ones in the contract's table.
  return found.size > 0 ? new Set([[...found][0]!]) : textFaults(values)
}

function isSegment(text: string): boolean {
  return text.length <= 128 && consistsOf(text, `${LOWER}${LOWER.toUpperCase()}0123456789_-`)
}

function isLowerSegment(text: string): boolean {
  return text.length <= 223 && consistsOf(text, `${LOWER}0123456789_-`) && !'_-'.includes(text[0]!)
}

function textFaults(values: Values): Set<string> {
  const limits = new Map([
    ['subject', 1024],
    ['datacontenttype', 256],
    ['dataschema', 2048],
  ])
  const found = new Set<string>()
  for (const [name, text] of values) {
    if (REQUIRED.includes(name) || name === 'tenantid') continue
    if (Buffer.byteLength(text) > (limits.get(name) ?? Infinity)) found.add('attribute_too_long')
    if (hasControl(text)) found.add('control_character')
  }
  return found
}

function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 32 || (code > 126 && code < 160)) return true
  }
  return false
}

function disagreements(values: Values, { topic, value }: IncomingRecord): Set<string> {
  const [source, type, resource, event] = ['source', 'type', 'resourcetype', 'eventtype'].map((name) =>
    values.get(name)!,
  )
  if (topic !== ['lerian', 'streaming', source].join('.')) return new Set(['source_topic_mismatch'])
  if (type !== ['studio', 'lerian', source, resource, event].join('.')) return new Set(['type_mismatch'])
  return new Set(value && value.length > 1024 * 1024 ? ['payload_too_large'] : [])
}
