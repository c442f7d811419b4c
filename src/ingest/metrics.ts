// What ingest counts. Names and units by Prometheus conventions; never a tenant or a subscription as a label.
import { Counter, Histogram } from '@prometheus-io/client'
import type { Registry } from '../base/metrics.ts'

export type IngestMetrics = ReturnType<typeof ingestMetrics>

/** Defines ingest's metrics on `registry`. */
export function ingestMetrics(registry: Registry) {
  const registers = [registry]
  return {
    records: new Counter({
      name: 'hub_ingested_records_total',
      help: 'Records by what became of them: accepted, duplicate, dropped, quarantined',
      labelNames: ['verdict'] as const,
      registers,
    }),
    quarantined: new Counter({
      name: 'hub_quarantined_records_total',
      help: 'Quarantined records by reason',
      labelNames: ['reason'] as const,
      registers,
    }),
    deliveries: new Counter({ name: 'hub_matches_total', help: 'Deliveries made by matching', registers }),
    batchRecords: new Histogram({
      name: 'hub_ingest_batch_records',
      help: 'Records of one batch, from Kafka or over HTTP',
      buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000],
      registers,
    }),
    writeSeconds: new Histogram({
      name: 'hub_ingest_write_seconds',
      help: 'Time of one batch: verdicts and transaction',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
      registers,
    }),
  }
}

export type DeadLetterMetrics = ReturnType<typeof deadLetterMetrics>

/** Defines on `registry` what is counted of the producers' dead letters. There are as many sources as topics. */
export function deadLetterMetrics(registry: Registry) {
  return {
    kept: new Counter({
      name: 'hub_producer_dead_letters_total',
      help: "Producers' dead letters kept",
      labelNames: ['source'] as const,
      registers: [registry],
    }),
  }
}
