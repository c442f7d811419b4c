// Guessing credentials: an address that brings too many wrong ones is not asked about further ones until its window ends, except for
// credentials that have been right before. So whoever shares the address (a proxy, an office) goes on working.
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../base/clock.ts'
import type { Counter } from './counter.ts'
import { networkOf } from './network.ts'

/** Of each, about a megabyte. */
const MOST_REMEMBERED = 10_000

export interface Caller {
  ip: string
  headers: IncomingHttpHeaders
}

export class FailedLogins {
  readonly #counter: Counter
  readonly #clock: Clock
  /** Until when, in epoch ms, by network. */
  readonly #blocked = new LRUCache<string, number>({ max: MOST_REMEMBERED })
  /** Digests of credentials that were right. */
  readonly #right = new LRUCache<string, true>({ max: MOST_REMEMBERED })

  constructor(counter: Counter, clock: Clock) {
    this.#counter = counter
    this.#clock = clock
  }

  /** For how many ms more the caller's credential is not even looked at; 0: it is. */
  blockedFor({ ip, headers }: Caller): number {
    const until = this.#blocked.get(networkOf(ip)) ?? 0
    const digest = credentialDigest(headers)
    if (digest === null || this.#right.has(digest)) return 0
    return Math.max(0, until - this.#clock.now())
  }

  /** The credential was wrong. A request without any is no guess. */
  async failed({ ip, headers }: Caller): Promise<void> {
    const digest = credentialDigest(headers)
    if (digest === null) return
    this.#right.delete(digest)
    const network = networkOf(ip)
    const { remaining, resetMs } = await this.#counter.add(network)
    if (remaining === 0) this.#blocked.set(network, this.#clock.now() + resetMs)
  }

  succeeded({ headers }: Caller): void {
    const digest = credentialDigest(headers)
    if (digest !== null) this.#right.set(digest, true)
  }
}

function credentialDigest({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string | null {
  if (authorization === undefined && apiKey === undefined) return null
  return createHash('sha256')
    .update(JSON.stringify([authorization, apiKey]))
    .digest('base64')
}
