// Pieces of the sentences that say why a record is no event. What they quote comes from outside: it is cut, and every character
// that does not print (controls, NUL, bidirectional marks, what Unicode has not assigned) is written as its number, so that the
// sentence can be stored, logged and shown anywhere.

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u

/** `text` in double quotes, at most `limit` characters of it (100 when left out), with an ellipsis where it was cut. */
export function quoted(text: string, limit = 100): string {
  return `"${cut(text, limit)}"`
}

/** `text` made printable, at most `limit` characters long; the last one is an ellipsis where it was cut. */
export function cut(text: string, limit: number): string {
  let shown = ''
  for (const character of text.slice(0, limit * 2)) {
    const piece = UNPRINTABLE.test(character) ? `\\u{${character.codePointAt(0)!.toString(16)}}` : character
    if (shown.length + piece.length >= limit) return `${shown}…`
    shown += piece
  }
  return shown
}

/** The first bytes in hexadecimal. */
export function hex(bytes: Buffer): string {
  const shown = bytes
    .subarray(0, 24)
    .toString('hex')
    .replace(/..(?!$)/g, '$& ')
  return bytes.length > 24 ? `${shown} … (${bytes.length} bytes)` : shown
}
