// `Idempotency-Key`: a POST that is sent again with the same key is answered as it was the first time, and nothing is done twice. One pair of
// hooks for every route that is a POST, before its handler and before its answer goes out. A key is its caller's: tenants and credentials
// never meet. While the first is under way the second one is told to come back. A process that dies in between, or that cannot keep the
// answer, leaves a claim that ends after `CLAIM_MS`: whoever comes with the key then may do the work again.
//
// Kept are answers of work that was done or decided: successes, and 404, 409 and 422. After any other answer the key is free.
import { createHash, randomUUID } from 'node:crypto'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Clock } from '../base/clock.ts'
import { Type } from 'typebox'
import { HubError, messageOf } from '../base/errors.ts'
import type { SecretBox } from '../secrets/secrets.ts'
import {
  claimIdempotencyKey,
  findIdempotentAnswer,
  freeIdempotencyKey,
  keepIdempotentAnswer,
  type IdempotencyClaim,
} from '../store/idempotency.ts'
import type { Pool } from '../store/pool.ts'
import { principalOf } from './auth/authenticate.ts'

export interface IdempotencyDeps {
  pool: Pool
  clock: Clock
  secrets: SecretBox
  idempotencyTtlMs: number
}

const HEADER = 'idempotency-key'
/** Longer than any request may take. */
const CLAIM_MS = 120_000
const RETRY_SECONDS = 1
const KEPT_FAILURES = new Set([404, 409, 422])
const KEPT_HEADERS = ['content-type', 'location', 'etag'] as const
/** Larger answers are not kept; there is none. */
const MOST_BYTES = 256 * 1024
const FIELD = 'idempotent_answer'

/** The header as routes document it. */
export const IDEMPOTENCY_HEADER = Type.String({
  pattern: String.raw`^[\x21-\x7e]{1,255}$`,
  description:
    'Makes it safe to send this again: for a day (`IDEMPOTENCY_TTL`) the same caller gets the first answer for the same key, with ' +
    '`idempotent-replayed: true`. 1 to 255 visible ASCII characters, such as a UUID of your own.',
  examples: ['4f1c0c5e-6d0b-4a39-9d5f-4f2f0d1c7a11'],
})

interface KeptAnswer {
  asked: string
  status: number
  headers: Record<string, string>
  body: string
}

/** A request that works under a key. */
interface Working extends IdempotencyClaim {
  tenantId: string
  asked: string
}

/** Puts the hooks on a route that takes POST. */
export function takeIdempotencyKeys(route: RouteOptions, deps: IdempotencyDeps): void {
  const working = new WeakMap<FastifyRequest, Working>()
  const begin = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const key = request.headers[HEADER]
    if (request.method !== 'POST' || typeof key !== 'string') return undefined
    const asking = askingOf(request, key)
    const kept = await claimed(asking, deps).catch((error: unknown) => {
      if (error instanceof HubError && error.code === 'idempotency_in_progress')
        reply.header('retry-after', RETRY_SECONDS)
      throw error
    })
    if (kept !== null) return replay(reply, kept, asking)
    working.set(request, asking)
    return undefined
  }
  const end = async (request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> => {
    const asking = working.get(request)
    working.delete(request)
    if (asking) await settle(asking, { reply, payload, request }, deps)
    return payload
  }
  route.preHandler = [begin, ...[route.preHandler ?? []].flat()]
  route.onSend = [...[route.onSend ?? []].flat(), end]
}

function askingOf(request: FastifyRequest, key: string): Working {
  const { tenantId, kind, id } = principalOf(request)
  const { method, url, body } = request
  return {
    id: uuidOf(digest([tenantId, kind, id, key])),
    token: randomUUID(),
    tenantId: tenantId ?? '',
    asked: digest([method, url, body ?? null]).toString('base64'),
  }
}

/** Null: the work is ours. Throws while it is somebody else's. */
async function claimed(asking: Working, { pool, clock, secrets }: IdempotencyDeps): Promise<KeptAnswer | null> {
  const now = new Date(clock.now())
  const isOurs = await claimIdempotencyKey(pool, { ...asking, now, lockedUntil: new Date(now.getTime() + CLAIM_MS) })
  try {
    // After the claim: who had it before has kept its answer by then.
    const sealed = await findIdempotentAnswer(pool, { id: asking.id, now })
    if (sealed === null && isOurs) return null
    if (sealed === null)
      throw new HubError('idempotency_in_progress', 'The first request with this key is under way: ask again.')
    const kept = JSON.parse((await secrets.open(sealed, contextOf(asking))).toString()) as KeptAnswer
    if (isOurs) await freeIdempotencyKey(pool, asking)
    return kept
  } catch (error) {
    if (isOurs) await freeIdempotencyKey(pool, asking)
    throw error
  }
}

function replay(reply: FastifyReply, kept: KeptAnswer, { asked }: Working): FastifyReply {
  if (kept.asked !== asked)
    throw new HubError(
      'idempotency_key_reused',
      'This key was used for another request: take a new one for a new request.',
    )
  return reply
    .code(kept.status)
    .headers({ ...kept.headers, 'idempotent-replayed': 'true' })
    .send(kept.body)
}

/** Keeps the answer, or frees the key. The answer goes out in any case: where neither works, the claim ends by itself. */
async function settle(
  asking: Working,
  { reply, payload, request }: { reply: FastifyReply; payload: unknown; request: FastifyRequest },
  { pool, clock, secrets, idempotencyTtlMs }: IdempotencyDeps,
): Promise<void> {
  try {
    const body = payload === undefined || payload === null ? '' : payload
    const status = reply.statusCode
    const isKept = (status >= 200 && status < 300) || KEPT_FAILURES.has(status)
    if (!isKept || typeof body !== 'string' || Buffer.byteLength(body) > MOST_BYTES)
      return await freeIdempotencyKey(pool, asking)
    const headers = Object.fromEntries(
      KEPT_HEADERS.flatMap((name) => (reply.hasHeader(name) ? [[name, String(reply.getHeader(name))]] : [])),
    )
    const kept: KeptAnswer = { asked: asking.asked, status, headers, body }
    const sealed = await secrets.seal(JSON.stringify(kept), contextOf(asking))
    await keepIdempotentAnswer(pool, { ...asking, sealed, expiresAt: new Date(clock.now() + idempotencyTtlMs) })
  } catch (error) {
    request.log.error({ err: messageOf(error) }, 'the answer is not kept for its idempotency key')
  }
}

function contextOf({ tenantId, id }: Working): { tenantId: string; subscriptionId: string; field: string } {
  return { tenantId, subscriptionId: id, field: FIELD }
}

function digest(parts: readonly unknown[]): Buffer {
  return createHash('sha256').update(JSON.stringify(parts)).digest()
}

function uuidOf(bytes: Buffer): string {
  return bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
