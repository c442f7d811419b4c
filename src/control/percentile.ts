// Percentiles of what was counted in classes.

/**
 * The `fraction` percentile (0.5: the median) of values counted by class, or null where none were. `bounds` are the classes' upper
 * bounds; what is in the class beyond the last one counts as the last bound. Within a class values are taken as spread evenly, so
 * the answer is off by less than the width of the class that the true one is in.
 */
export function percentile(counts: readonly number[], bounds: readonly number[], fraction: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  // The rank of the percentile as PostgreSQL's percentile_disc has it: the first value that covers the fraction.
  const rank = Math.max(1, Math.ceil(fraction * total))
  let before = 0
  for (const [at, count] of counts.entries()) {
    if (before + count >= rank) {
      const upper = bounds[at] ?? bounds.at(-1) ?? 0
      const lower = at === 0 ? 0 : (bounds[at - 1] ?? upper)
      return Math.round(lower + ((upper - lower) * (rank - before)) / count)
    }
    before += count
  }
  return null
}
