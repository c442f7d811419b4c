// What the doctor says of one thing: how it is, and what to do.

export interface Finding {
  /** What was looked at, in a word or two. */
  check: string
  verdict: 'ok' | 'warn' | 'fail'
  /** What was found; holds no secret. */
  detail: string
  /** What to do; null where there is nothing to do. */
  advice: string | null
}

/** A check answers one finding or more. It may reject: that is a failure with the rejection's message. */
export interface Check {
  name: string
  /** What to do when it rejects or does not answer. */
  advice: string
  run(): Promise<Finding[]>
}

export function ok(check: string, detail: string): Finding {
  return { check, verdict: 'ok', detail, advice: null }
}

export function warn(check: string, detail: string, advice: string): Finding {
  return { check, verdict: 'warn', detail, advice }
}

export function fail(check: string, detail: string, advice: string): Finding {
  return { check, verdict: 'fail', detail, advice }
}
