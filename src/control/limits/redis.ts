// The connection to Redis, where replicas count requests together. It comes and goes without any harm to the process: what needs it
// is told at once that it is away, and it is tried again for ever.
import { Redis } from 'ioredis'
import { readAuthorities } from '../../base/authorities.ts'
import type { Service } from '../../base/service.ts'
import type { Troubles } from '../../base/troubles.ts'
import { REDIS_AWAY } from './counter.ts'

export interface RedisSettings {
  host: string
  port: number
  password: string | null
  tls: boolean
  /** PEM text, or the path of a PEM file: trusted beside the public authorities. */
  caCert: string | null
  /** Until it counts as away. */
  timeoutMs: number
}

export interface SharedCounts extends Service {
  readonly redis: Redis
}

const LONGEST_PAUSE_MS = 2_000
/** A handshake takes several turns, and happens once. */
const LEAST_CONNECT_MS = 2_000

/** Not connected yet. Rejects with one sentence when the authority's certificate cannot be read. */
export async function connectRedis(settings: RedisSettings, troubles: Troubles): Promise<SharedCounts> {
  const { host, port, password, timeoutMs } = settings
  const ca = settings.caCert === null ? {} : { ca: await readAuthorities(settings.caCert, 'Redis') }
  const redis = new Redis({
    host,
    port,
    ...(password !== null && { password }),
    ...(settings.tls && { tls: ca }),
    lazyConnect: true,
    connectTimeout: Math.max(timeoutMs, LEAST_CONNECT_MS),
    commandTimeout: timeoutMs,
    // What waits for it would be answered too late: better to know at once.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    // After a failover the old primary still answers; its name leads to the new one by then.
    reconnectOnError: ({ message }) => message.startsWith('READONLY'),
    retryStrategy: (attempt) => Math.min(50 * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS),
  })
  let stopped = false
  redis.on('error', (error) => {
    if (!stopped) troubles.raise(REDIS_AWAY, error)
  })
  redis.on('ready', () => troubles.clear(REDIS_AWAY))
  return {
    name: 'redis',
    redis,
    // Being away is no reason not to start.
    start: async () => await redis.connect().catch(() => undefined),
    stop: async () => {
      stopped = true
      redis.disconnect()
    },
  }
}
