// One attempt of one delivery: send, decide, and the row that says how it went. It changes nothing by itself; the flusher settles it.
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import type { Tracer } from '../base/tracing.ts'
import { SecretError } from '../secrets/secrets.ts'
import type { Destination, Outcome, Sink } from '../sinks/sink.ts'
import type { ClaimedJob, ClaimedLane } from '../store/lanes.ts'
import type { AttemptRow } from '../store/outcomes.ts'
import { parseSchedule } from './backoff.ts'
import { decide } from './decision.ts'
import type { Decision } from './decision.ts'
import type { DispatchMetrics } from './metrics.ts'
import type { Postponed, Postponements } from './postponement.ts'
import { continued, traceAttempt } from './trace.ts'

export interface AttemptDeps {
  clock: Clock
  log: Log
  metrics: DispatchMetrics
  random: () => number
  /** Where nobody collects traces there is none. */
  tracer?: Tracer | null
  /** The sink and the opened settings of a lane's subscription. Throws when they cannot be had. */
  destinationOf(lane: ClaimedLane): Promise<{ sink: Sink; destination: Destination }>
}

/**
 * Makes exactly one attempt. Never rejects: whatever goes wrong with it is a failed outcome. What keeps it from being made is the hub's
 * own trouble, for which nobody else is blamed: then there is no attempt, and it says until when to wait.
 */
export async function runAttempt(
  lane: ClaimedLane,
  job: ClaimedJob,
  run: AttemptDeps & { signal: AbortSignal; postponements: Postponements },
): Promise<AttemptRow | Postponed> {
  const opened = await open(lane, run)
  if ('until' in opened) return opened
  const startedAt = run.clock.now()
  const outcome = await send(opened, job, { ...run, lane, startedAt })
  if (outcome.kind === 'failed' && outcome.errorClass === 'proxy') {
    return run.postponements.begin(lane, { reason: 'proxy', message: outcome.detail })
  }
  run.postponements.end(lane)
  const now = run.clock.now()
  const common = { attemptId: job.attemptId, deliveryId: job.deliveryId, number: job.attempts + 1, startedAt }
  const { tenantId, subscriptionId, token } = lane
  const row = { ...common, tenantId, subscriptionId, token, ...endOf(lane, job, { outcome, run, startedAt, now }) }
  report(row, job, run)
  return row
}

async function open(
  lane: ClaimedLane,
  run: AttemptDeps & { postponements: Postponements },
): Promise<{ sink: Sink; destination: Destination } | Postponed> {
  try {
    return await run.destinationOf(lane)
  } catch (error) {
    const reason = error instanceof SecretError ? error.fault : 'settings'
    return run.postponements.begin(lane, { reason, message: messageOf(error) })
  }
}

async function send(
  { sink, destination }: { sink: Sink; destination: Destination },
  job: ClaimedJob,
  run: AttemptDeps & { signal: AbortSignal; lane: ClaimedLane; startedAt: number },
): Promise<Outcome> {
  try {
    const attempt = {
      destination,
      event: continued(job.event, run.tracer),
      attemptId: job.attemptId,
      number: job.attempts + 1,
      now: run.startedAt,
    }
    return await sink.deliver(attempt, run.signal)
  } catch (error) {
    run.log.error(
      { err: error, subscription_id: run.lane.subscriptionId, delivery_id: job.deliveryId },
      'attempt broke',
    )
    const detail = `the hub could not make the attempt: ${messageOf(error)}`
    return { kind: 'failed', errorClass: 'internal', detail, status: null, response: Buffer.alloc(0), retryAfter: null }
  }
}

type Identity = 'attemptId' | 'deliveryId' | 'tenantId' | 'subscriptionId' | 'token' | 'number' | 'startedAt'

function endOf(
  lane: ClaimedLane,
  job: ClaimedJob,
  end: { outcome: Outcome; run: AttemptDeps; startedAt: number; now: number },
): Omit<AttemptRow, Identity> {
  const { outcome, run, startedAt, now } = end
  if (outcome.kind === 'failed' && outcome.errorClass === 'aborted') return brokenOff(job, now)
  const { schedule, malformed } = parseSchedule(lane.retrySchedule)
  if (malformed) run.metrics.malformedSchedules.inc()
  const failures = job.failures + (outcome.kind === 'failed' ? 1 : 0)
  const decision = decide({ outcome, failures: job.failures + 1, schedule, now, random: run.random })
  return {
    durationMs: Math.max(0, now - startedAt),
    outcome: outcome.kind,
    status: outcome.status,
    errorClass: outcome.kind === 'failed' ? outcome.errorClass : null,
    errorDetail: outcome.kind === 'failed' ? outcome.detail.replaceAll('\0', '').slice(0, 1000) : null,
    response: outcome.response,
    failures,
    aside: job.aside || lane.ordering !== 'strict',
    ...fateOf(decision),
  }
}

/** We broke it off ourselves, to stop in time: no step is used up, it keeps its place, and whoever claims the lane next sends it again. */
function brokenOff(job: ClaimedJob, now: number): Omit<AttemptRow, Identity> {
  return {
    durationMs: null,
    outcome: 'outcome_unknown',
    status: null,
    errorClass: null,
    errorDetail: null,
    response: Buffer.alloc(0),
    failures: job.failures,
    aside: job.aside,
    fate: 'retry',
    reason: null,
    dueAt: now,
  }
}

function fateOf(decision: Decision): Pick<AttemptRow, 'fate' | 'reason' | 'dueAt'> {
  switch (decision.kind) {
    case 'delivered':
      return { fate: 'delivered', reason: null, dueAt: null }
    case 'retry':
      return { fate: 'retry', reason: null, dueAt: decision.dueAt }
    case 'dead_letter':
      return { fate: 'dead_lettered', reason: decision.reason, dueAt: null }
    default:
      return decision satisfies never
  }
}

/** The one wide line of an attempt: ids, never a body. A success is routine, a failure is not. */
function report(row: AttemptRow, job: ClaimedJob, run: AttemptDeps): void {
  run.metrics.attempts.inc({ outcome: row.outcome, error_class: row.errorClass ?? 'none' })
  const seconds = (row.durationMs ?? 0) / 1000
  run.metrics.attemptSeconds.observe(seconds)
  if (row.fate === 'delivered' && job.kind === 'event') {
    const attempt = row.number === 1 ? 'first' : 'later'
    run.metrics.endToEndSeconds.observe({ attempt }, Math.max(0, (row.startedAt - job.eventTime) / 1000 + seconds))
  }
  if (row.reason && job.kind !== 'test') run.metrics.deadLettered.inc({ reason: row.reason })
  if (run.tracer) traceAttempt(run.tracer, row, job)
  const level = row.outcome === 'delivered' ? 'debug' : row.fate === 'retry' ? 'info' : 'warn'
  if (!run.log.isLevelEnabled(level)) return
  run.log[level](
    {
      tenant_id: row.tenantId,
      subscription_id: row.subscriptionId,
      event_id: job.event.id,
      event_type: job.event.key,
      delivery_id: row.deliveryId,
      attempt_id: row.attemptId,
      attempt: row.number,
      outcome: row.outcome,
      status: row.status,
      error_class: row.errorClass,
      detail: row.errorDetail,
      duration_ms: row.durationMs,
      fate: row.fate,
      retry_at: row.dueAt === null ? null : new Date(row.dueAt).toISOString(),
    },
    'attempt',
  )
}
