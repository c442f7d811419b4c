// Grouped counts as operators see them: each item has what was asked for, and nothing else.

interface Counted {
  bucket: Date | null
  count: number
  last_at: Date
}

/** `found` holds one more than `limit` where there are more. */
export function viewCounts<Group extends string>(
  found: readonly (Counted & Record<Group, string | null>)[],
  { by, limit }: { by: readonly Group[]; limit: number },
) {
  return {
    items: found.slice(0, limit).map((each) => ({
      ...(each.bucket && { bucket: each.bucket.toISOString() }),
      ...groupsOf(each, by),
      count: each.count,
      last_at: each.last_at.toISOString(),
    })),
    more: found.length > limit,
  }
}

function groupsOf<Group extends string>(row: Record<Group, string | null>, by: readonly Group[]) {
  return Object.fromEntries(by.map((group) => [group, row[group]])) as Record<Group, string | null>
}
