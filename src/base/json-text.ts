// Finds where the parts of a JSON text stand in its bytes, so that a part can be kept as it was written: what JSON.parse gives back
// has lost big integers' digits, duplicate keys and white space. The walk trusts the text to be valid JSON; `parseJsonText` makes
// sure of it, and is the only way in.
import { isUtf8 } from 'node:buffer'
import { messageOf } from './errors.ts'
import { cut } from './quote.ts'

/** Where a value stands: from its first byte up to the one behind its last. */
export interface Span {
  start: number
  end: number
}

export interface JsonText {
  bytes: Buffer
  /** The outermost value. */
  root: Span
}

/** A valid JSON text, its outermost value without the white space around it; or one sentence that says why it is none. */
export function parseJsonText(bytes: Buffer, maxDepth: number): JsonText | string {
  if (bytes.length === 0) return 'is empty'
  if (!isUtf8(bytes)) return 'is not UTF-8'
  // Before it is parsed: a megabyte of brackets would become a million arrays.
  if (isDeeperThan(bytes, maxDepth)) return `is nested deeper than ${maxDepth} levels`
  try {
    JSON.parse(bytes.toString())
  } catch (error) {
    return `is not JSON: ${messageOf(error)}`
  }
  return { bytes, root: { start: skipped(bytes, 0, isSpace), end: bytes.findLastIndex((byte) => !isSpace(byte)) + 1 } }
}

/** What is wrong with a text that is not well-formed Unicode: JSON's escapes can write one, and nothing can hold it. */
export const HALF_A_PAIR = 'has half a surrogate pair in it, which no text can carry'

/** One step of a JSON pointer, with the slash before it; cut where it is very long. */
export function pointerStep(name: string): string {
  return `/${cut(name, 100).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/** The members of an object in their order, duplicates kept. */
export function membersOf(bytes: Buffer, object: Span): { name: string; value: Span }[] {
  const parts = partsOf(bytes, object)
  const members = []
  for (let at = 0; at < parts.length; at += 2) {
    members.push({ name: JSON.parse(textOf(bytes, parts[at]!)) as string, value: parts[at + 1]! })
  }
  return members
}

/** The values inside an array; for an object its names and values by turns. */
export function partsOf(bytes: Buffer, { start, end }: Span): Span[] {
  const parts: Span[] = []
  let at = skipped(bytes, start + 1, isBetweenValues)
  while (at < end - 1) {
    const behind = valueEnd(bytes, at)
    parts.push({ start: at, end: behind })
    at = skipped(bytes, behind, isBetweenValues)
  }
  return parts
}

/** A value as it was written. */
export function textOf(bytes: Buffer, { start, end }: Span): string {
  return bytes.toString('utf8', start, end)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a

function isOpening(byte: number | undefined): boolean {
  return byte === 0x5b || byte === 0x7b
}

function isClosing(byte: number | undefined): boolean {
  return byte === 0x5d || byte === 0x7d
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isBetweenValues(byte: number | undefined): boolean {
  return isSpace(byte) || byte === COMMA || byte === COLON
}

function isInScalar(byte: number | undefined): boolean {
  return !isBetweenValues(byte) && !isClosing(byte)
}

function skipped(bytes: Buffer, from: number, isSkipped: (byte: number | undefined) => boolean): number {
  let at = from
  while (at < bytes.length && isSkipped(bytes[at])) at++
  return at
}

function valueEnd(bytes: Buffer, start: number): number {
  if (bytes[start] === QUOTE) return stringEnd(bytes, start)
  return isOpening(bytes[start]) ? containerEnd(bytes, start) : skipped(bytes, start, isInScalar)
}

/** Of a broken text too (its end, where the string has none). */
function stringEnd(bytes: Buffer, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at + 1
}

function containerEnd(bytes: Buffer, start: number): number {
  let depth = 0
  let at = start
  do {
    if (isOpening(bytes[at])) depth++
    if (isClosing(bytes[at])) depth--
    at = bytes[at] === QUOTE ? stringEnd(bytes, at) : at + 1
  } while (depth > 0)
  return at
}

function isDeeperThan(bytes: Buffer, maxDepth: number): boolean {
  let depth = 0
  for (let at = 0; at < bytes.length; at = bytes[at] === QUOTE ? stringEnd(bytes, at) : at + 1) {
    if (isOpening(bytes[at]) && ++depth > maxDepth) return true
    if (isClosing(bytes[at])) depth--
  }
  return false
}
