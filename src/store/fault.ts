// Whose fault a failed write may be: what it holds (the same write would be refused again, here and on any other day), or the
// database's (down, full, read-only, deadlocked, out of connections or of time: the same write will pass later). The class alone
// is a suspicion and no proof: a sequence that is used up, a partition that is missing, a counter that overflows have the same ones.

// SQLSTATE classes, PostgreSQL's appendix A. 22: data exception (bad text, out of range). 23: integrity constraint violation.
// 54: program limit exceeded (an index row that is too large). 21, 42 are bugs of ours and not the record's: they stall, and are seen.
const RECORD_FAULT_CLASSES = new Set(['22', '23', '54'])

/** True when `error` may be PostgreSQL's refusal of what a row holds; false for all else, connection errors included. */
export function mayBeRecordFault(error: unknown): boolean {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' && code.length === 5 && RECORD_FAULT_CLASSES.has(code.slice(0, 2))
}
