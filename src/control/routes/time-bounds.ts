// ?since and ?until of lists, as the store takes them.

/** Times before 1970 mean 1970: lists compare them with ids, which begin there. */
export function timeBounds(query: { since?: string; until?: string }): { since: Date | null; until: Date | null } {
  return { since: bound(query.since), until: bound(query.until) }
}

function bound(time: string | undefined): Date | null {
  return time === undefined ? null : new Date(Math.max(0, Date.parse(time)))
}
