// Durations as people write them in the configuration and in the API: `250ms`, `30s`, `5m`, `12h`, `7d`, also joined: `1h30m`.

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const LARGEST_FIRST = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const
const DURATION = /^(?:\d{1,12}(?:\.\d{1,6})?(?:ms|s|m|h|d))+$/
const PART = /([\d.]+)(ms|s|m|h|d)/g

/** Whole milliseconds, `0` without a unit too; null for anything that is not a duration. */
export function parseDuration(text: string): number | null {
  if (text === '0') return 0
  if (!DURATION.test(text)) return null
  let ms = 0
  for (const [, count, unit] of text.matchAll(PART)) ms += Number(count) * UNIT_MS[unit!]!
  return Math.round(ms)
}

/** The shortest text in one unit that `parseDuration` reads back as the same number; `ms` is a whole number, not negative. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s'
  const [unit, size] = LARGEST_FIRST.find(([, unitMs]) => ms % unitMs === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
