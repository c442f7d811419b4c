// When an event's data can stand in a JSON text as it is, byte for byte: reading and writing it anew would change big numbers,
// duplicate keys and escapes.
import { isUtf8 } from 'node:buffer'
import { DEFAULT_DATA_CONTENT_TYPE, type Event } from './event.ts'

export function contentTypeOf({ attributes }: Pick<Event, 'attributes'>): string {
  return attributes['datacontenttype'] || DEFAULT_DATA_CONTENT_TYPE
}

/** It says that it is JSON, and is. */
export function hasJsonData(event: Pick<Event, 'attributes' | 'data'>): boolean {
  return event.data !== null && isJsonType(contentTypeOf(event)) && isJson(event.data)
}

function isJsonType(contentType: string): boolean {
  return /^[^/;]+\/([^;]+\+)?json\s*(;|$)/i.test(contentType)
}

function isJson(data: Buffer): boolean {
  if (!isUtf8(data)) return false
  try {
    JSON.parse(data.toString('utf8'))
    return true
  } catch {
    return false
  }
}
