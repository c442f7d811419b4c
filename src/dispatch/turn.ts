// A lane's turn: a leased lane's claimed jobs, run in its order, and then its release. A fifo or strict lane has one attempt in
// the air at a time and starts the next one only after the last one's outcome is durable. A parallel lane starts them all, and
// takes more while the process has slots to spare, so that one slow answer does not hold up what arrives behind it. Of one lane
// there is never more than one settlement under way.
import type { Clock } from '../base/clock.ts'
import type { ClaimedJob, ClaimedLane } from '../store/lanes.ts'
import type { AttemptRow, LaneStep } from '../store/outcomes.ts'
import { isOfDestination } from './autodisable.ts'
import type { Settled, Settlement } from './flusher.ts'
import { isPostponed, type Postponed } from './postponement.ts'
import type { Slot } from './slots.ts'

export interface TurnDeps {
  clock: Clock
  /** One attempt, if it can be made now; never rejects. */
  attempt: (lane: ClaimedLane, job: ClaimedJob) => Promise<AttemptRow | Postponed>
  /** Resolves when the settlement is durable; never rejects. */
  settle: (settlement: Settlement) => Promise<Settled>
  /** More jobs of a parallel lane that is leased, marked as in the air; none when the process has no slots to spare. Never rejects. */
  more: (lane: ClaimedLane, atMost: number) => Promise<ClaimedJob[]>
  /** Calls `notice` whenever the process has slots to spare, until the function that it gives back is called. */
  onSpare: (notice: () => void) => () => void
  /** True once nothing new may be started. */
  stopping: () => boolean
  /** Takes a slot for jobs. */
  enter: (jobs: readonly ClaimedJob[]) => Slot
  /** Epoch ms: until when the lane is ours. */
  leaseUntil: number
  leaseMarginMs: number
  /** How many of a parallel lane may be in the air. */
  parallel: number
}

/** Runs a claimed lane's jobs and gives it back. Resolves when it is released, or lost. Never rejects. */
export async function runTurn(lane: ClaimedLane, turn: TurnDeps): Promise<void> {
  const together = lane.ordering === 'parallel' && !lane.solo && !lane.probe
  // Claimed while the process was asked to stop: nothing of it has begun.
  if (lane.jobs.length === 0 || turn.stopping()) await release(lane, turn)
  else await (together ? runTogether(lane, turn) : runInLine(lane, turn))
}

async function runInLine(lane: ClaimedLane, turn: TurnDeps): Promise<void> {
  const slot = turn.enter(lane.jobs)
  let { leaseUntil } = turn
  for (const [at, job] of lane.jobs.entries()) {
    if (!outlasts(leaseUntil, lane, turn)) {
      await release(lane, turn)
      break
    }
    slot.restart()
    const attempt = await turn.attempt(lane, job)
    if (isPostponed(attempt)) {
      await release(lane, turn, attempt.until)
      break
    }
    const blocked = attempt.fate === 'retry' && !attempt.aside
    const next = blocked || turn.stopping() ? undefined : lane.jobs[at + 1]
    const end = { attempts: [attempt], inAir: next ? [next] : [], underWay: false }
    const settled = await turn.settle(settlement(lane, turn, end))
    if (settled.kind !== 'going') break
    leaseUntil = settled.leaseUntil
  }
  slot.leave()
}

async function runTogether(lane: ClaimedLane, turn: TurnDeps): Promise<void> {
  if (!outlasts(turn.leaseUntil, lane, turn)) return await release(lane, turn)
  const inAir = new Set<ClaimedJob>()
  const ended: AttemptRow[] = []
  let notBefore: number | null = null
  let wake = Promise.withResolvers<void>()
  let hasEnded = false
  const start = async (job: ClaimedJob): Promise<void> => {
    const slot = turn.enter([job])
    inAir.add(job)
    const attempt = await turn.attempt(lane, job)
    slot.leave()
    inAir.delete(job)
    if (isPostponed(attempt)) notBefore = attempt.until
    else ended.push(attempt)
    hasEnded = true
    wake.resolve()
  }
  const forget = turn.onSpare(() => wake.resolve())
  for (const job of lane.jobs) void start(job)
  for (let ours = true; inAir.size > 0 || hasEnded;) {
    await wake.promise
    wake = Promise.withResolvers()
    if (hasEnded) {
      hasEnded = false
      const end = { attempts: ended.splice(0), inAir: [...inAir], underWay: true, notBefore }
      ours = (await turn.settle(settlement(lane, turn, end))).kind === 'going'
    }
    const room = turn.parallel - inAir.size - ended.length
    if (ours && notBefore === null && !turn.stopping() && inAir.size > 0 && room >= turn.parallel / 2) {
      const leaseUntil = turn.clock.now() + leaseMs(lane, turn)
      const more = await turn.more(lane, room)
      // Those that are not started are in the air no more with the next settlement.
      if (outlasts(leaseUntil, lane, turn) && !turn.stopping()) for (const job of more) void start(job)
    }
  }
  forget()
}

/** Gives the lane back without an attempt: nothing is in the air, and nobody is to be blamed. */
async function release(lane: ClaimedLane, turn: TurnDeps, notBefore: number | null = null): Promise<void> {
  await turn.settle(settlement(lane, turn, { attempts: [], inAir: [], underWay: false, notBefore }))
}

function leaseMs(lane: ClaimedLane, turn: TurnDeps): number {
  return lane.timeoutMs + turn.leaseMarginMs
}

/** False when woken after a long pause: the lease would run out before the attempt, and somebody else may have the lane. */
function outlasts(leaseUntil: number, lane: ClaimedLane, turn: TurnDeps): boolean {
  return turn.clock.now() + lane.timeoutMs <= leaseUntil
}

function settlement(
  lane: ClaimedLane,
  turn: TurnDeps,
  end: { attempts: AttemptRow[]; inAir: readonly ClaimedJob[]; underWay: boolean; notBefore?: number | null },
): Settlement {
  const step: LaneStep = {
    subscriptionId: lane.subscriptionId,
    token: lane.token,
    wakeGen: lane.wakeGen,
    version: lane.version,
    inAir: end.inAir,
    underWay: end.underWay,
    leaseMs: leaseMs(lane, turn),
    notBefore: end.notBefore ?? null,
    streak: streakOf(end.attempts),
  }
  const destination = { tenantId: lane.tenantId, destinationKey: lane.destinationKey }
  return { destination, attempts: end.attempts, step, probe: lane.probe }
}

/** What attempts, in the order in which they ended, do to the lane's failure streak. */
function streakOf(attempts: readonly AttemptRow[]): LaneStep['streak'] {
  const streak: LaneStep['streak'] = { cleared: false, firstFailureAt: null, lastFailureAt: null }
  for (const { outcome, errorClass, startedAt, durationMs } of attempts) {
    if (outcome === 'outcome_unknown' || !isOfDestination(errorClass)) continue
    const failedAt = outcome === 'failed' ? startedAt + (durationMs ?? 0) : null
    if (failedAt === null) streak.cleared = true
    streak.firstFailureAt = failedAt === null ? null : (streak.firstFailureAt ?? failedAt)
    streak.lastFailureAt = failedAt
  }
  return streak
}
