// Conditional requests (RFC 9110, 13): a change that is meant for what its caller has seen, and not for what others have made of it
// since. The entity tag of an object is its version, so two changes with one tag cannot both go through.
import { HubError } from '../base/errors.ts'

/** `*`, or tags as they are written: `"7"`, `W/"7"`. */
type TagList = '*' | readonly string[]

export interface Conditions {
  /** Null: the header was not sent. */
  ifMatch: TagList | null
  ifNoneMatch: TagList | null
}

export const NO_CONDITIONS: Conditions = { ifMatch: null, ifNoneMatch: null }

/** The strong tag of an object in this version. */
export function entityTag({ version }: { version: number }): string {
  return `"${version}"`
}

/** Of headers that fit `ConditionalHeaders`. */
export function conditionsOf(headers: { 'if-match'?: string; 'if-none-match'?: string }): Conditions {
  return { ifMatch: parsed(headers['if-match']), ifNoneMatch: parsed(headers['if-none-match']) }
}

/** Throws `precondition_failed` where a change was asked for on a condition that the object, locked, does not fulfil. */
export function insist(object: { version: number }, conditions: Conditions): void {
  if (matches(object, conditions.ifMatch) && !isKnown(object, conditions)) return
  throw new HubError(
    'precondition_failed',
    'It is in another version than If-Match or If-None-Match asks for: read it again.',
  )
}

/** Whether who reads has this version already. Throws `precondition_failed` where `If-Match` asks for another one. */
export function isUnchanged(object: { version: number }, { ifMatch, ifNoneMatch }: Conditions): boolean {
  insist(object, { ifMatch, ifNoneMatch: null })
  return isKnown(object, { ifMatch, ifNoneMatch })
}

/** Null: it is neither `*` nor a list of entity tags. */
export function parseTagList(text: string): TagList | null {
  if (text.trim() === '*') return '*'
  if (!TAG_LIST.test(text)) return null
  return text.match(TAG) ?? null
}

const TAG = /(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g
/** Empty elements are let through, as recipients of lists have to. */
const TAG_LIST = new RegExp(`^[ \\t,]*(?:${TAG.source}[ \\t]*(?:,[ \\t,]*|$))+$`)

function parsed(text: string | undefined): TagList | null {
  return text === undefined ? null : parseTagList(text)
}

/** The strong comparison: a weak tag never matches. */
function matches(object: { version: number }, tags: TagList | null): boolean {
  return tags === null || tags === '*' || tags.includes(entityTag(object))
}

/** The weak comparison. */
function isKnown(object: { version: number }, { ifNoneMatch: tags }: Conditions): boolean {
  if (tags === null || tags === '*') return tags === '*'
  return tags.some((tag) => tag.replace(/^W\//, '') === entityTag(object))
}
