// When a failed delivery is tried again. A schedule's step n is the longest delay before attempt n + 1; the delay that is
// taken is uniform between 0 and the step (full jitter), so that the deliveries of one outage do not come back in one wave.
// A receiver's `Retry-After` can raise a delay up to its step, never beyond it: a receiver cannot park its deliveries.

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The longest delays in ms before attempts 1 to 8; with all of them taken in full: 27 h 35 min 5 s. */
export const DEFAULT_SCHEDULE_MS: readonly number[] = Object.freeze([
  0,
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  10 * HOUR,
])

export const MAX_SCHEDULE_STEPS = 12
export const MAX_STEP_MS = 10 * HOUR

/**
 * A subscription's stored schedule: null means the default curve, and so does anything that is not 1–12 whole numbers of
 * ms between 0 and 10 h; the latter is reported as `malformed` and never fails a delivery. Never throws.
 */
export function parseSchedule(stored: unknown): { schedule: readonly number[]; malformed: boolean } {
  if (stored === null || stored === undefined) return { schedule: DEFAULT_SCHEDULE_MS, malformed: false }
  if (isSchedule(stored)) return { schedule: stored, malformed: false }
  return { schedule: DEFAULT_SCHEDULE_MS, malformed: true }
}

/**
 * The delay in ms (a whole number) before the next attempt, or null when the schedule is used up. `failures` counts the
 * steps that are used up: 0 before the first attempt, 1 after the first failure. `random` gives numbers in [0, 1).
 */
export function nextDelay(retry: {
  schedule: readonly number[]
  failures: number
  /** The receiver's header as it stood, or null. */
  retryAfter: string | null
  /** Epoch ms. */
  now: number
  random: () => number
}): number | null {
  const step = retry.schedule[retry.failures]
  if (step === undefined) return null
  const jittered = Math.floor(retry.random() * (step + 1))
  return Math.min(step, Math.max(jittered, retryAfterMs(retry.retryAfter, retry.now)))
}

/**
 * How long from `now` (epoch ms) a `Retry-After` header asks to wait, in ms: a number of seconds in digits alone, or an HTTP
 * date in one of the three forms of RFC 9110. 0 for a time that has passed and for anything else. Has no upper bound.
 */
export function retryAfterMs(header: string | null, now: number): number {
  const text = header?.trim() ?? ''
  if (/^[0-9]+$/.test(text)) return Number(text) * SECOND
  return Math.max(0, (parseHttpDate(text, now) ?? now) - now)
}

function isSchedule(stored: unknown): stored is number[] {
  return Array.isArray(stored) && stored.length >= 1 && stored.length <= MAX_SCHEDULE_STEPS && stored.every(isStep)
}

function isStep(step: unknown): boolean {
  return Number.isInteger(step) && (step as number) >= 0 && (step as number) <= MAX_STEP_MS
}

const HTTP_DATE_FORMS = [
  /^[A-Z][a-z]{2}, (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/, // IMF-fixdate
  /^[A-Z][a-z]+day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) GMT$/, // RFC 850
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/, // asctime
]

function parseHttpDate(text: string, now: number): number | null {
  for (const form of HTTP_DATE_FORMS) {
    const found = form.exec(text)?.groups
    if (!found) continue
    const day = found['day']!.replace(' ', '0')
    const date = `${day} ${found['month']} ${fullYear(found['year']!, now)} ${found['time']} GMT`
    const parsed = new Date(date)
    // The way back tells a date that exists from one that the platform's parser has repaired (31 February).
    return Number.isNaN(parsed.getTime()) || parsed.toUTCString().slice(5) !== date ? null : parsed.getTime()
  }
  return null
}

/** RFC 9110: a year of two digits that seems more than 50 years ahead is of the century before. */
function fullYear(year: string, now: number): string {
  if (year.length === 4) return year
  const thisYear = new Date(now).getUTCFullYear()
  const inThisCentury = thisYear - (thisYear % 100) + Number(year)
  return String(inThisCentury > thisYear + 50 ? inThisCentury - 100 : inThisCentury)
}
