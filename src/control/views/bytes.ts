// Bytes in a JSON answer: as text where they are text, so that a person can read them, else as base64.
import { isUtf8 } from 'node:buffer'
import type { IncomingRecord } from '../../event/record.ts'

export interface BytesView {
  text: string | null
  encoding: 'utf-8' | 'base64' | null
}

/** Both null where there are no bytes. */
export function viewBytes(bytes: Buffer | null): BytesView {
  if (bytes === null) return { text: null, encoding: null }
  return isUtf8(bytes)
    ? { text: bytes.toString(), encoding: 'utf-8' }
    : { text: bytes.toString('base64'), encoding: 'base64' }
}

/** A record's headers, readable and as base64. */
export function viewHeaders(headers: IncomingRecord['headers']) {
  return headers.map(([name, value]) => ({
    name: name?.toString() ?? null,
    value: value?.toString() ?? null,
    name_base64: name?.toString('base64') ?? null,
    value_base64: value?.toString('base64') ?? null,
  }))
}

export function isoTime(date: Date): string {
  return date.toISOString()
}

export function isoTimeOrNull(date: Date | null): string | null {
  return date?.toISOString() ?? null
}
