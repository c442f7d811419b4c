// What an answer says about limits: the fields of draft-ietf-httpapi-ratelimit-headers-10, as structured fields (RFC 9651).
import type { Count } from './counter.ts'

/** None where nothing is limited. */
export function rateLimitHeaders(counts: readonly Count[]): Record<string, string> {
  if (counts.length === 0) return {}
  const policies = counts.map(({ limit: { name, max, windowMs } }) => `"${name}";q=${max};w=${windowMs / 1_000}`)
  const states = counts.map(({ limit, remaining, resetMs }) => `"${limit.name}";r=${remaining};t=${seconds(resetMs)}`)
  return { 'ratelimit-policy': policies.join(', '), ratelimit: states.join(', ') }
}

/** `Retry-After`: never too early, and never at once. */
export function retryAfter(resetMs: number): number {
  return Math.max(1, seconds(resetMs))
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}
