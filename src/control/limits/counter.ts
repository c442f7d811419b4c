// Counting by key in windows of time: in this process, or in Redis, where every replica counts into the same numbers. A window
// begins with a key's first count and ends for good; Redis counts and reads in one atomic script, by its own clock.
import type { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes, type RateLimiterAbstract } from 'rate-limiter-flexible'
import { HubError } from '../../base/errors.ts'
import type { Troubles } from '../../base/troubles.ts'

export interface Limit {
  /** Says in headers what is counted. */
  name: string
  max: number
  /** Whole seconds. */
  windowMs: number
}

export interface Count {
  limit: Limit
  /** False for every one beyond the limit. */
  allowed: boolean
  remaining: number
  /** Until the window ends. */
  resetMs: number
}

export interface Counter {
  /** Counts one more. Rejects with `unavailable` when Redis is away and may not be done without. */
  add(key: string): Promise<Count>
}

export interface CounterDeps {
  redis: Redis | null
  troubles: Troubles
}

const NAMESPACE = 'streaming-hub:rate'
export const REDIS_AWAY = 'Redis cannot be reached: requests are not counted across replicas'

/** `failOpen`: while Redis is away, this process counts by itself. */
export function createCounter(limit: Limit, { redis, troubles }: CounterDeps, failOpen: boolean): Counter {
  const options = { points: limit.max, duration: limit.windowMs / 1_000, keyPrefix: `${NAMESPACE}:${limit.name}` }
  const alone = new RateLimiterMemory(options)
  if (redis === null) return { add: async (key) => countOf(limit, await consume(alone, key)) }
  const shared = new RateLimiterRedis({ ...options, storeClient: redis })
  const add = async (key: string): Promise<Count> => {
    try {
      const counted = await consume(shared, key)
      troubles.clear(REDIS_AWAY)
      return countOf(limit, counted)
    } catch (error) {
      troubles.raise(REDIS_AWAY, error)
      if (failOpen) return countOf(limit, await consume(alone, key))
      throw new HubError('unavailable', 'Requests cannot be counted at the moment.', { cause: error })
    }
  }
  return { add }
}

/** The library rejects with the same result for one that is beyond the limit. */
async function consume(limiter: RateLimiterAbstract, key: string): Promise<RateLimiterRes> {
  try {
    return await limiter.consume(key)
  } catch (result) {
    if (result instanceof RateLimiterRes) return result
    throw result
  }
}

function countOf(limit: Limit, { consumedPoints, remainingPoints, msBeforeNext }: RateLimiterRes): Count {
  return {
    limit,
    allowed: consumedPoints <= limit.max,
    remaining: remainingPoints,
    resetMs: Math.max(0, msBeforeNext),
  }
}
