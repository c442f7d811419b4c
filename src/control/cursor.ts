// Cursors of lists: opaque to callers, so that what they are made of may change. A cursor belongs to its list; one that was
// altered, or made by another list, is refused instead of answering a page from nowhere.
import { HubError } from '../base/errors.ts'

/** The key of a page's last item, as text that is safe in a URL. */
export function encodeCursor(list: string, key: string): string {
  return Buffer.from(JSON.stringify([list, key])).toString('base64url')
}

/** The key in a cursor of `list`; null where none is given. `isKey` says what a key of this list looks like. Throws `invalid_request`. */
export function decodeCursor(list: string, cursor: string | undefined, isKey: (key: string) => boolean): string | null {
  if (cursor === undefined) return null
  const decoded = parse(Buffer.from(cursor, 'base64url').toString())
  if (Array.isArray(decoded) && decoded.length === 2 && decoded[0] === list) {
    const key: unknown = decoded[1]
    if (typeof key === 'string' && isKey(key)) return key
  }
  const faults = [{ path: '?cursor', message: 'must be the next_cursor of a page of this list' }]
  throw new HubError('invalid_request', 'The cursor is not one of this list.', { faults })
}

/** A page of the API: the items, and the cursor behind the last of them when there is more. `found` holds one more than `limit` then. */
export function pageOf<Row, Item>(
  found: readonly Row[],
  page: { list: string; limit: number; key: (row: Row) => string; view: (row: Row) => Item },
): { items: Item[]; next_cursor: string | null } {
  const rows = found.slice(0, page.limit)
  const last = rows.at(-1)
  const more = found.length > rows.length && last !== undefined
  return { items: rows.map(page.view), next_cursor: more ? encodeCursor(page.list, page.key(last)) : null }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
