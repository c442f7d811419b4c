// What the control plane counts: requests by the route's template, never by what callers put into a path.
import { Counter, Gauge, Histogram } from '@prometheus-io/client'
import type { Registry } from '../base/metrics.ts'

/** Defines the control plane's metrics on `registry`. */
export function httpMetrics(registry: Registry) {
  const registers = [registry]
  return {
    requests: new Counter({
      name: 'hub_http_requests_total',
      help: 'Requests by method, route and class of the status',
      labelNames: ['method', 'route', 'status'] as const,
      registers,
    }),
    seconds: new Histogram({
      name: 'hub_http_request_seconds',
      help: 'Time until the answer was sent',
      labelNames: ['method', 'route'] as const,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
      registers,
    }),
    authFailures: new Counter({
      name: 'hub_http_auth_failures_total',
      help: 'Requests that did not get in, by the kind of credential that decided (none: there was none) and why',
      labelNames: ['kind', 'reason'] as const,
      registers,
    }),
    refused: new Counter({
      name: 'hub_http_refused_total',
      help: 'Requests that were turned away, by the limit that they met: a tier of routes, or what protects the hub itself',
      labelNames: ['tier'] as const,
      registers,
    }),
  }
}

/** Defines the pull's metrics on `registry`; `waiting` tells how many long polls wait now. */
export function pullMetrics(registry: Registry, waiting: () => number) {
  const registers = [registry]
  return {
    waiters: new Gauge({
      name: 'hub_pull_waiters',
      help: 'Pulls that wait for an event to come',
      registers,
      collect() {
        this.set(waiting())
      },
    }),
    events: new Counter({ name: 'hub_pull_events_total', help: 'Events that were handed out by the pull', registers }),
  }
}

export type PullMetrics = ReturnType<typeof pullMetrics>
export type AuthFailures = HttpMetrics['authFailures']
export type HttpMetrics = ReturnType<typeof httpMetrics>
