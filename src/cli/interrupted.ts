// Waiting for Ctrl-C.

/**
 * Resolves at the first SIGINT or SIGTERM. Later ones change nothing: a terminal and npm each send one for the same Ctrl-C, and
 * the second must not cut off the tidying up.
 */
export function interrupted(): Promise<void> {
  return new Promise((resolve) => process.on('SIGINT', () => resolve()).on('SIGTERM', () => resolve()))
}
