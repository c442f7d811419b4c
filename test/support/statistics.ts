// Statistics for tests that draw: with a fixed seed, so that none fails by chance.

/** Whether values are drawn from the uniform distribution on [0, high]: Kolmogorov–Smirnov at p > 0.001. */
export function isUniform(values: readonly number[], high: number): boolean {
  // The critical value of the statistic for p = 0.001 is 1.9495 / √n.
  return distanceFromUniform(values, high) < 1.9495 / Math.sqrt(values.length)
}

/** The Kolmogorov–Smirnov statistic: the largest distance between the values' distribution and the uniform one on [0, high]. */
function distanceFromUniform(values: readonly number[], high: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const n = sorted.length
  return Math.max(...sorted.map((value, i) => Math.max((i + 1) / n - value / high, value / high - i / n)))
}
