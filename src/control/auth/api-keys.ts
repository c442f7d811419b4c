// API keys as a way to authenticate, in every mode: `Authorization: Bearer shk_…` or `x-api-key`. A key is looked up once in five
// seconds at most, so one that is revoked stops within five seconds on every replica, and at once on the one that revoked it. When
// it was last used is written down once a minute, for all keys together. Unknown, wrong, revoked and expired keys get one answer.
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../base/clock.ts'
import { HubError, messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import type { Service } from '../../base/service.ts'
import { findApiKeyByPrefix, recordApiKeyUses, type StoredApiKey } from '../../store/api-keys.ts'
import type { Pool } from '../../store/pool.ts'
import { isSameSecret, looksLikeKey, readKey, shownPrefix } from './api-key.ts'
import type { Authenticator } from './authenticate.ts'
import { bearerToken } from './bearer.ts'
import { isScope, type Principal } from './principal.ts'

/** How long what was found, or not found, is believed. */
const BELIEVED_MS = 5_000
const WRITTEN_EVERY_MS = 60_000
/** Known keys, and unknown ones apart from them: guesses do not drive out what is in use. A few megabytes each. */
const MOST_REMEMBERED = 10_000

export interface ApiKeyDeps {
  pool: Pool
  clock: Clock
  log: Log
}

export class ApiKeys implements Authenticator, Service {
  readonly name = 'api_key'
  readonly #deps: ApiKeyDeps
  readonly #known: LRUCache<string, StoredApiKey>
  readonly #unknown: LRUCache<string, true>
  readonly #lookups = new Map<string, Promise<StoredApiKey | null>>()
  readonly #used = new Map<string, Date>()
  readonly #stopping = new AbortController()
  #writing: Promise<void> = Promise.resolve()

  constructor(deps: ApiKeyDeps) {
    this.#deps = deps
    const believed = { max: MOST_REMEMBERED, ttl: BELIEVED_MS, ttlResolution: 0, perf: deps.clock }
    this.#known = new LRUCache(believed)
    this.#unknown = new LRUCache(believed)
  }

  async authenticate(request: FastifyRequest): Promise<Principal | null> {
    const texts = keysIn(request)
    if (texts.length === 0) return null
    const given = texts.length === 1 ? readKey(texts[0] ?? '') : null
    const stored = given && (await this.#find(given.prefix))
    const now = this.#deps.clock.now()
    if (given === null || !isSameSecret(given, stored?.secretSha256 ?? null) || !stored || !isActive(stored, now))
      throw new HubError('unauthenticated', 'The API key is not valid.')
    this.#used.set(stored.id, new Date(now))
    return principalOf(stored)
  }

  /** The key was changed here: it is looked up anew. */
  forget(prefix: string): void {
    this.#known.delete(prefix)
  }

  /** Writes down now and then when keys were used. */
  async start(): Promise<void> {
    this.#writing = this.#writeUntilStopped()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#writing
    await this.writeUses()
  }

  /** Never rejects: what cannot be written now is written the next time. */
  async writeUses(): Promise<void> {
    const uses = [...this.#used].map(([id, at]) => ({ id, at }))
    if (uses.length === 0) return
    this.#used.clear()
    try {
      await recordApiKeyUses(this.#deps.pool, uses)
    } catch (error) {
      this.#deps.log.debug({ err: messageOf(error) }, 'the last uses of API keys are not written yet')
      for (const { id, at } of uses) if (!this.#used.has(id)) this.#used.set(id, at)
    }
  }

  async #writeUntilStopped(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await this.#deps.clock.sleep(WRITTEN_EVERY_MS, signal)
      if (!signal.aborted) await this.writeUses()
    }
  }

  async #find(prefix: string): Promise<StoredApiKey | null> {
    const known = this.#known.get(prefix)
    if (known) return known
    if (this.#unknown.has(prefix)) return null
    const lookup = this.#lookups.get(prefix) ?? this.#lookUp(prefix)
    this.#lookups.set(prefix, lookup)
    return await lookup.finally(() => this.#lookups.delete(prefix))
  }

  async #lookUp(prefix: string): Promise<StoredApiKey | null> {
    const found = await findApiKeyByPrefix(this.#deps.pool, prefix)
    if (found) this.#known.set(prefix, found)
    else this.#unknown.set(prefix, true)
    return found
  }
}

/** Different ones in both places are no key. */
function keysIn(request: FastifyRequest): string[] {
  const header = request.headers['x-api-key']
  const bearer = bearerToken(request)
  const texts = [...(header === undefined ? [] : [String(header)]), ...(bearer && looksLikeKey(bearer) ? [bearer] : [])]
  return [...new Set(texts)]
}

function isActive({ revokedAt, expiresAt }: StoredApiKey, now: number): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt.getTime() > now)
}

function principalOf({ id, tenantId, scopes, prefix }: StoredApiKey): Principal {
  const actor = { kind: 'api_key', id, name: shownPrefix(prefix) } as const
  return { ...actor, tenantId, isConfined: tenantId !== null, scopes: new Set(scopes.filter(isScope)) }
}
