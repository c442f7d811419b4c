// A lane's turn: a leased lane's claimed jobs, run in its order, and then its release. A fifo or strict lane has one attempt in
// the air at a time and starts the next one only after the last one's outcome is durable; a parallel lane starts them all.
import type { Clock } from '../base/clock.ts'
import type { ClaimedJob, ClaimedLane } from '../store/lanes.ts'
import type { AttemptRow, LaneStep } from '../store/outcomes.ts'
import type { Settled, Settlement } from './flusher.ts'
import type { Slot } from './slots.ts'

export interface TurnDeps {
  clock: Clock
  /** One attempt; never rejects. */
  attempt(lane: ClaimedLane, job: ClaimedJob): Promise<AttemptRow>
  /** Resolves when the settlement is durable; never rejects. */
  settle(settlement: Settlement): Promise<Settled>
  /** True once nothing new may be started. */
  stopping(): boolean
  slot: Slot
  /** Epoch ms: until when the lane is ours. */
  leaseUntil: number
  leaseMarginMs: number
}

/** Runs a claimed lane's jobs and gives it back. Resolves when it is released, or lost. Never rejects. */
export async function runTurn(lane: ClaimedLane, turn: TurnDeps): Promise<void> {
  const [first] = lane.jobs
  if (!first) return void (await turn.settle(settlement(lane, { attempt: null, inAir: [], underWay: false, turn })))
  await (lane.ordering === 'parallel' ? runTogether(lane, turn) : runInLine(lane, turn))
}

async function runInLine(lane: ClaimedLane, turn: TurnDeps): Promise<void> {
  let { leaseUntil } = turn
  for (const [at, job] of lane.jobs.entries()) {
    // Woken after a long pause: the lease would not outlast the attempt, and somebody else may have the lane.
    if (turn.clock.now() + lane.timeoutMs > leaseUntil) return
    turn.slot.restart()
    const attempt = await turn.attempt(lane, job)
    const blocked = attempt.fate === 'retry' && !attempt.aside
    const next = blocked || turn.stopping() ? undefined : lane.jobs[at + 1]
    const settled = await turn.settle(settlement(lane, { attempt, inAir: next ? [next] : [], underWay: false, turn }))
    if (settled.kind !== 'going') return
    leaseUntil = settled.leaseUntil
  }
}

async function runTogether(lane: ClaimedLane, turn: TurnDeps): Promise<void> {
  if (turn.clock.now() + lane.timeoutMs > turn.leaseUntil) return
  const inAir = new Set(lane.jobs)
  const ended = lane.jobs.map(async (job) => {
    const attempt = await turn.attempt(lane, job)
    inAir.delete(job)
    await turn.settle(settlement(lane, { attempt, inAir: [...inAir], underWay: true, turn }))
  })
  await Promise.all(ended)
}

function settlement(
  lane: ClaimedLane,
  end: { attempt: AttemptRow | null; inAir: readonly ClaimedJob[]; underWay: boolean; turn: TurnDeps },
): Settlement {
  const { attempt, inAir, underWay, turn } = end
  const step: LaneStep = {
    subscriptionId: lane.subscriptionId,
    token: lane.token,
    wakeGen: lane.wakeGen,
    version: lane.version,
    inAir,
    underWay,
    leaseMs: lane.timeoutMs + turn.leaseMarginMs,
    settled: attempt !== null,
    streak: streakOf(attempt),
  }
  const { tenantId, destinationKey } = lane
  const troubled = lane.probe || lane.breakerFailures > 0
  return { destination: { tenantId, destinationKey }, attempt, step, troubled }
}

function streakOf(attempt: AttemptRow | null): LaneStep['streak'] {
  if (attempt?.outcome !== 'failed') {
    return { cleared: attempt !== null, firstFailureAt: null, lastFailureAt: null }
  }
  const failedAt = attempt.startedAt + attempt.durationMs
  return { cleared: false, firstFailureAt: failedAt, lastFailureAt: failedAt }
}
