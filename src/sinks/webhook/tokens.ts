// The access tokens that deliveries show their receivers, by OAuth 2.0's client credentials grant. One token serves all deliveries
// of a tenant with the same credentials until shortly before it runs out; when there is none, the first delivery asks for it and
// those that come meanwhile wait for the same answer, each no longer than its own time-out. The token endpoint is called over the
// same guarded connections as a receiver. Tokens are held in memory only.
import { LRUCache } from 'lru-cache'
import { messageOf } from '../../base/errors.ts'
import { tokenIn } from '../../base/client-credentials.ts'
import { failed, type Failed } from './failures.ts'
import { post, type Answer, type OutboundAgent } from './post.ts'

/** Everything about one set of credentials that does not change. */
export interface TokenGrant {
  /** The same for the same credentials of the same tenant alone. */
  key: string
  url: URL
  headers: Record<string, string>
  body: Buffer
}

interface Token {
  text: string
  /** Epoch ms. */
  renewAt: number
  expiresAt: number
}

const MAX_TOKENS = 10_000
/** How long an endpoint has for its answer, whoever waits for it. */
const ANSWER_MS = 10_000
const MAX_ANSWER_BYTES = 64 * 1024
/** Of a token that does not say how long it lives. */
const DEFAULT_LIFETIME_MS = 60_000
/** None is trusted for longer, whatever it says. */
const MAX_LIFETIME_MS = 24 * 3_600_000
/** A token is not used in the last part of its life: a tenth, and at most this. */
const MAX_MARGIN_MS = 30_000

export class Tokens {
  readonly #agent: OutboundAgent
  readonly #held = new LRUCache<string, Token>({ max: MAX_TOKENS })
  readonly #fetching = new Map<string, Promise<Token | Failed>>()
  readonly #closing = new AbortController()

  constructor(agent: OutboundAgent) {
    this.#agent = agent
  }

  /** A token that is valid at `now` (epoch ms), or why there is none within `timeoutMs`. Never rejects. */
  async get(
    grant: TokenGrant,
    wait: { now: number; timeoutMs: number; signal: AbortSignal },
  ): Promise<string | Failed> {
    const held = this.#held.get(grant.key)
    if (held && wait.now < held.renewAt) return held.text
    const fetched = await within(this.#fetch(grant, wait.now), wait)
    if (!('kind' in fetched)) return fetched.text
    // One that cannot be renewed is used as long as it is valid.
    return held && wait.now < held.expiresAt && this.#held.get(grant.key) === held ? held.text : fetched
  }

  /** The receiver has refused `token`: the next delivery asks for another one. */
  forget(grant: TokenGrant, token: string): void {
    if (this.#held.get(grant.key)?.text === token) this.#held.delete(grant.key)
  }

  /** Breaks off what is under way. */
  close(): void {
    this.#closing.abort()
  }

  #fetch(grant: TokenGrant, now: number): Promise<Token | Failed> {
    const underWay = this.#fetching.get(grant.key)
    if (underWay) return underWay
    const fetching = this.#ask(grant, now).then((token) => {
      this.#fetching.delete(grant.key)
      if (!('kind' in token)) this.#held.set(grant.key, token)
      return token
    })
    this.#fetching.set(grant.key, fetching)
    return fetching
  }

  /** Many may wait for it: no single delivery's end is its own. */
  async #ask({ url, headers, body }: TokenGrant, now: number): Promise<Token | Failed> {
    const request = { url, headers, body, timeoutMs: ANSWER_MS, keepBytes: MAX_ANSWER_BYTES }
    const answer = await post(this.#agent, request, this.#closing.signal)
    return answer.kind === 'failed' ? ofEndpoint(answer) : tokenOf(answer, now)
  }
}

function tokenOf(answer: Answer, now: number): Token | Failed {
  try {
    const { text, lifetimeMs } = tokenIn({ status: answer.status, text: answer.body.toString('utf8') })
    const lifetime = Math.min(lifetimeMs ?? DEFAULT_LIFETIME_MS, MAX_LIFETIME_MS)
    const margin = Math.min(lifetime / 10, MAX_MARGIN_MS)
    return { text, renewAt: now + lifetime - margin, expiresAt: now + lifetime }
  } catch (error) {
    return failed('auth_failed', `The token endpoint gave no token: ${messageOf(error)}.`)
  }
}

/** What a delivery failed for, when it was the call of its token endpoint that failed. */
function ofEndpoint(failure: Failed): Failed {
  const { errorClass, detail } = failure
  if (['internal', 'aborted', 'proxy', 'tunnel'].includes(errorClass)) return failure
  if (errorClass === 'refused_address') return failed(errorClass, `Of the token endpoint: ${detail}`)
  return failed('auth_failed', `The token endpoint gave no token: ${detail.charAt(0).toLowerCase()}${detail.slice(1)}`)
}

/** What `promise` comes to, unless the time is over first, or the attempt. */
async function within<T>(
  promise: Promise<T>,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<T | Failed> {
  const cut = Promise.withResolvers<Failed>()
  const abort = (): void => cut.resolve(failed('aborted', 'The hub ended the attempt before it had a token.'))
  const late = (): void =>
    cut.resolve(failed('auth_failed', `The token endpoint gave no token within ${timeoutMs} ms.`))
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  const timer = setTimeout(late, timeoutMs)
  try {
    return await Promise.race([promise, cut.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
  }
}
