// ?since and ?until of lists, and other times of requests, as the store takes them.

/** Times before 1970 mean 1970: lists compare them with ids, which begin there. */
export function timeBounds(query: { since?: string; until?: string }): { since: Date | null; until: Date | null } {
  return { since: bound(query.since), until: bound(query.until) }
}

/** Of an RFC 3339 time. A leap second, which Date does not know, is the second before it. */
export function moment(time: string): Date {
  return new Date(Math.max(0, Date.parse(time.replace(/:60(?=[.Zz+-])/, ':59'))))
}

function bound(time: string | undefined): Date | null {
  return time === undefined ? null : moment(time)
}
