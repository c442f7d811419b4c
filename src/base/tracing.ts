// Traces (OpenTelemetry). Loaded only where somebody collects them: without a tracer the hot paths compare with null and go on. Spans
// are handed over when they have ended, with ids that their stage derives from what they are of, so that what happens hours apart,
// in other processes, finds its parent without anything being stored for it. Spans are dropped rather than ever held up for.
import type * as Api from '@opentelemetry/api'
import type * as Sdk from '@opentelemetry/sdk-trace'
import type { Log } from './log.ts'

/** Where a span hangs: below `parentId`, or at the trace's root. `sampled`: whether the parent is recorded. */
interface TracePosition {
  traceId: string
  parentId: string | null
  sampled: boolean
}

interface EndedSpan {
  name: string
  kind: 'consumer' | 'client'
  at: TracePosition
  spanId: string
  /** Epoch ms. */
  startedAt: number
  endedAt: number
  /** Never a body, a header's value, a URL or a secret. Those that are null are left out. */
  attributes: Readonly<Record<string, string | number | boolean | null>>
  /** What kind of failure it ended in; null: in none. */
  errorType: string | null
}

export interface Tracer {
  /** Whether a span here is recorded: the same answer in every process that samples alike. */
  isSampled(at: TracePosition): boolean
  /** Keeps the span if it is to be sampled. Never throws, never waits. */
  record(span: EndedSpan): void
  /** Hands over what is waiting, as far as that can be done within a few seconds. Never rejects. */
  close(): Promise<void>
}

export type SamplerName =
  | 'always_on'
  | 'always_off'
  | 'traceidratio'
  | 'parentbased_always_on'
  | 'parentbased_always_off'
  | 'parentbased_traceidratio'

export interface TracerOptions {
  sampler: SamplerName
  /** From 0 to 1: the share of traces that the samplers by ratio take. */
  ratio: number
  serviceVersion: string
  log: Log
}

const CLOSE_MS = 3_000

/** A tracer that exports by OTLP over HTTP, to where the standard `OTEL_EXPORTER_OTLP_…` variables say. Loads the SDK. */
export async function openTracer(options: TracerOptions): Promise<Tracer> {
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto')
  return await tracerTo(toldOnce(new OTLPTraceExporter(), options.log), options)
}

/** A tracer that gives what it samples to `exporter`, in batches. */
export async function tracerTo(exporter: Sdk.SpanExporter, options: TracerOptions): Promise<Tracer> {
  const [api, sdk, resources] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
  ])
  const sampler = samplerOf(options, sdk)
  const ids = { generateTraceId: () => next.at.traceId, generateSpanId: () => next.spanId }
  let next: Pick<EndedSpan, 'at' | 'spanId'> = { at: { traceId: '', parentId: null, sampled: false }, spanId: '' }
  const { serviceNameEnvDetector, resourceAttributesEnvDetector, resourceFromAttributes } = resources
  const given = resources.detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] })
  const provider = new sdk.TracerProvider({
    sampler,
    idGenerator: ids,
    resource: resources
      .defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'streaming-hub', 'service.version': options.serviceVersion }))
      .merge(given),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter, exportTimeoutMillis: CLOSE_MS })],
  })
  const tracer = provider.getTracer('streaming-hub', options.serviceVersion)
  return {
    isSampled: (at) => {
      const { decision } = sampler.shouldSample(contextAt(at, api), at.traceId, '', api.SpanKind.INTERNAL, {}, [])
      return decision === sdk.SamplingDecision.RECORD_AND_SAMPLED
    },
    record: (ended) => {
      next = ended
      const span = tracer.startSpan(
        ended.name,
        {
          kind: ended.kind === 'client' ? api.SpanKind.CLIENT : api.SpanKind.CONSUMER,
          startTime: ended.startedAt,
          attributes: withoutNulls(ended.attributes),
        },
        contextAt(ended.at, api),
      )
      if (ended.errorType !== null) {
        span.setAttribute('error.type', ended.errorType)
        span.setStatus({ code: api.SpanStatusCode.ERROR })
      }
      span.end(ended.endedAt)
    },
    close: () => provider.shutdown().catch(() => undefined),
  }
}

function contextAt({ traceId, parentId, sampled }: TracePosition, api: typeof Api) {
  if (parentId === null) return api.ROOT_CONTEXT
  const traceFlags = sampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE
  return api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId: parentId, traceFlags, isRemote: true })
}

/** A sampler without `parentbased_` in its name does not ask what the producer decided. */
function samplerOf({ sampler, ratio }: TracerOptions, sdk: typeof Sdk): Sdk.Sampler {
  const [, respectful, name] = /^(parentbased_)?(.*)$/.exec(sampler) ?? []
  const root =
    name === 'always_off'
      ? new sdk.AlwaysOffSampler()
      : name === 'traceidratio'
        ? new sdk.TraceIdRatioBasedSampler(ratio)
        : new sdk.AlwaysOnSampler()
  return respectful ? new sdk.ParentBasedSampler({ root }) : root
}

function withoutNulls(attributes: EndedSpan['attributes']): Record<string, string | number | boolean> {
  const known: Record<string, string | number | boolean> = {}
  for (const [name, value] of Object.entries(attributes)) if (value !== null) known[name] = value
  return known
}

/** A collector that is away is said once, and once that it is back: spans are lost meanwhile. */
function toldOnce(exporter: Sdk.SpanExporter, log: Log): Sdk.SpanExporter {
  let failing = false
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.error && !failing) log.warn({ err: result.error.message }, 'traces cannot be handed over: lost')
        if (!result.error && failing) log.info('traces are handed over again')
        failing = result.error !== undefined
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush && { forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve() }),
  }
}
