// Replays as the API shows them.
import type { Replay, ReplayRange } from '../../store/replays.ts'
import type { ReplayCountJson, ReplayJson } from '../schemas/replay.ts'
import { isoTime, isoTimeOrNull } from './bytes.ts'

export function viewReplay(r: Replay): ReplayJson {
  return {
    id: r.id,
    ...viewReplayCount(r, r.total),
    status: r.status,
    queued: r.queued,
    skipped: r.skipped,
    delivered: r.delivered,
    dead_lettered: r.deadLettered,
    unfinished: r.outstanding.length,
    created_at: isoTime(r.createdAt),
    updated_at: isoTime(r.updatedAt),
    finished_at: isoTimeOrNull(r.finishedAt),
  }
}

export function viewReplayCount(range: ReplayRange, total: number): ReplayCountJson {
  return {
    subscription_id: range.subscriptionId,
    since: isoTime(range.since),
    until: isoTime(range.until),
    states: [...range.states],
    total,
  }
}
