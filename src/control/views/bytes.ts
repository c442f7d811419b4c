// Bytes in a JSON answer: as text where they are text, so that a person can read them, else as base64.
import { isUtf8 } from 'node:buffer'

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

export function isoTime(date: Date): string {
  return date.toISOString()
}

export function isoTimeOrNull(date: Date | null): string | null {
  return date?.toISOString() ?? null
}
