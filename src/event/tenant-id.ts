// What a tenant's id may be: any text that is no nuisance in a header, a log line or a database.

const MAX_BYTES = 256

/** Completes "must be …". */
export const TENANT_ID_RULE = `1 to ${MAX_BYTES} bytes of UTF-8 that are not all white space, without control characters`

export function isTenantId(text: string): boolean {
  return Buffer.byteLength(text) <= MAX_BYTES && text.trim() !== '' && !/\p{Cc}/u.test(text) && text.isWellFormed()
}
