// What keeps the hub on its feet whoever comes: connections and the time they may take are bounded, and while it has more to do than
// it can, tenants' requests are answered 503 at once. Health and operators' routes are served on: that is when they are needed.
import type { ServerOptions } from 'node:http'
import { getHeapStatistics } from 'node:v8'
import underPressure from '@fastify/under-pressure'
import { HubError } from '../base/errors.ts'
import type { Api } from './api.ts'
import type { HttpMetrics } from './metrics.ts'

/** In ms. */
export interface HttpTimes {
  /** Until all headers have come. */
  headersTimeout: number
  /** Until the whole request has come. */
  requestTimeout: number
  /** How often the two are checked. */
  connectionsCheckingInterval: number
  /** Without a byte either way. Longer than the longest wait for an answer: a receiver is probed for a minute at most. */
  connectionTimeout: number
  /** Between two requests of one connection. Longer than a load balancer keeps one, which is a minute with most. */
  keepAliveTimeout: number
}

export const HTTP_TIMES: HttpTimes = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
  connectionTimeout: 120_000,
  keepAliveTimeout: 75_000,
}

/** As Fastify and Node take them. */
export function serverTimes(times: HttpTimes): Omit<HttpTimes, keyof ServerOptions> & { http: ServerOptions } {
  const { headersTimeout, connectionsCheckingInterval, ...others } = times
  return { ...others, http: { headersTimeout, connectionsCheckingInterval } }
}

/** A connection costs some 20 KiB, and a file descriptor. */
const MAX_CONNECTIONS = 4_096

/** What is more is closed at once. */
export function boundConnections({ server }: Api, metrics: HttpMetrics): void {
  server.maxConnections = MAX_CONNECTIONS
  server.on('drop', () => metrics.refused.inc({ tier: 'connections' }))
}

export interface Pressure {
  /** An event loop that is this late, in ms, serves nobody any more. */
  maxEventLoopDelay: number
  /** Of the heap that the process may have: beyond it, it would only collect garbage, and then die. */
  maxHeapUsedBytes: number
}

export const PRESSURE: Pressure = {
  maxEventLoopDelay: 2_000,
  maxHeapUsedBytes: 0.9 * getHeapStatistics().heap_size_limit,
}

/** Answers 503 on the routes that are added to `api` from now on. */
export async function refuseUnderPressure(api: Api, pressure: Pressure, metrics: HttpMetrics): Promise<void> {
  await api.register(underPressure, {
    ...pressure,
    pressureHandler: (request) => {
      if (request.routeOptions.config.access === 'admin') return
      metrics.refused.inc({ tier: 'pressure' })
      throw new HubError('unavailable', 'The hub has more to do than it can: ask again a little later.')
    },
  })
}
