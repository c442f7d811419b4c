// A process that dispatches as a hub does, on a clock that runs faster, to a sink that one payload crashes: for processes.test.ts.
// What it has sent it tells its parent.
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import type { Clock } from '../../src/base/clock.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { dispatchMetrics } from '../../src/dispatch/metrics.ts'
import type { Sink } from '../../src/sinks/sink.ts'
import { createPool } from '../../src/store/pool.ts'
import { systemClock } from '../../src/base/clock.ts'
import { testOptions } from '../support/dispatch.ts'
import { delivered, failed } from '../support/scripted-sink.ts'

const [dsn = '', epoch = '', speed = ''] = process.argv.slice(2)

const clock: Clock = {
  now: () => Number(epoch) + (Date.now() - Number(epoch)) * Number(speed),
  sleep: (ms, signal) => systemClock.sleep(ms / Number(speed), signal),
}

const sink: Sink = {
  deliver: async ({ event, destination, number }, signal) => {
    const data = event.data?.toString() ?? ''
    process.send?.({ tenantId: destination.tenantId, eventId: event.id, number, at: clock.now() })
    await clock.sleep(200, signal)
    if (data === 'toxic') process.abort()
    return data === 'broken' ? failed() : delivered
  },
  probe: async () => delivered,
  close: async () => undefined,
}

const dispatcher = new Dispatcher({
  pool: createPool({ dsn, maxConnections: 6, applicationName: 'test', onError: () => undefined }),
  clock,
  log: silentLog,
  metrics: dispatchMetrics(createRegistry({ processMetrics: false })),
  random: Math.random,
  options: testOptions,
  destinationOf: async (lane) => ({
    sink,
    destination: {
      subscriptionId: lane.subscriptionId,
      tenantId: lane.tenantId,
      sink: { kind: 'webhook', url: 'https://example.com/', headers: {} },
      contentMode: 'binary',
      timeoutMs: lane.timeoutMs,
      signingKeys: [],
    },
  }),
})
await dispatcher.start()
process.on('disconnect', () => process.exit())
