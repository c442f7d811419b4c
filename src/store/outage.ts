// Is the database away, rather than a statement wrong? Then whoever asked may ask again later.

// Node's codes of connections that cannot be made or were cut.
const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT', // a socket file that is not there
])

// SQLSTATE classes. 08: connection; 25: read-only (a standby); 40: rolled back (deadlock, serialisation); 53: out of resources;
// 55: lock not available; 57: shutting down, cancelled, timed out; 58: system error, such as a disk's.
const CLASSES = new Set(['08', '25', '40', '53', '55', '57', '58'])

// The driver's own errors carry no code.
const DRIVER =
  /^(?:timeout exceeded when trying to connect|timeout expired|Query read timeout|Connection terminated|Client has encountered a connection error|Cannot use a pool after calling end)/

/** True when `error` says that the database cannot be reached or cannot serve now. */
export function isOutage(error: unknown): boolean {
  if (error instanceof AggregateError && error.errors.some(isOutage)) return true
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  if (typeof code !== 'string') return DRIVER.test(error.message)
  return NETWORK.has(code) || (code.length === 5 && CLASSES.has(code.slice(0, 2)))
}
