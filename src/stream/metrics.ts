// What the stream counts. Two streams may share a registry (facts, and the producers' dead letters): their group tells them apart.
import { Counter, Gauge, Histogram } from '@prometheus-io/client'
import { createRegistry, type Registry } from '../base/metrics.ts'

export type StreamMetrics = ReturnType<typeof streamMetrics>

/** The stream's metrics on `registry`, defined there once; without one they are counted for nobody. */
export function streamMetrics(registry: Registry = createRegistry({ processMetrics: false })) {
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[]): Counter<Label> =>
    (registry.getSingleMetric<Label>(name) as Counter<Label> | undefined) ??
    new Counter({ name, help, labelNames, registers: [registry] })
  return {
    batches: counter('hub_stream_batches_total', 'Batches written', ['group', 'topic']),
    records: counter('hub_stream_records_total', 'Records written', ['group', 'topic']),
    commitsRefused: counter('hub_stream_commits_refused_total', 'Offset commits that the broker did not take', [
      'group',
    ]),
    rebalances: counter('hub_stream_rebalances_total', 'Joins of the consumer group completed', ['group']),
    lag: lagGauge(registry),
    writeSeconds: writeHistogram(registry),
  }
}

function lagGauge(registry: Registry): Gauge<'group' | 'topic' | 'partition'> {
  const name = 'hub_stream_lag_records'
  const help = 'Offsets between what is committed and the end, of the partitions that this process owns'
  const labelNames = ['group', 'topic', 'partition'] as const
  const known = registry.getSingleMetric<(typeof labelNames)[number]>(name) as Gauge<(typeof labelNames)[number]>
  return known ?? new Gauge({ name, help, labelNames, registers: [registry] })
}

function writeHistogram(registry: Registry): Histogram<'group' | 'outcome'> {
  const name = 'hub_stream_write_seconds'
  const labelNames = ['group', 'outcome'] as const
  const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
  const known = registry.getSingleMetric<(typeof labelNames)[number]>(name) as Histogram<(typeof labelNames)[number]>
  return (
    known ??
    new Histogram({ name, help: 'Time that writing one batch took', labelNames, buckets, registers: [registry] })
  )
}
