// How one replica divides the connections that it may open. Each part of the work has some of its own, so that a burst in one of
// them (of API requests, of partitions that catch up, of outcomes) waits by itself and starves no other.

type Role = 'all' | 'ingest' | 'delivery'

export interface ConnectionBudget {
  /** The API, HTTP ingest and /readyz. */
  control: number
  /** Writing what comes from Kafka; 0: not this role's work. */
  ingest: number
  /** Claims, outcomes, due retries, replays; 0: not this role's work. */
  dispatch: number
  /** Holds the lock of the chores, and does them. */
  upkeep: 1
  /** Waits for notices that something is ready. */
  listener: 0 | 1
}

/** The least that each role can work with. */
export const FEWEST_CONNECTIONS: Readonly<Record<Role, number>> = { all: 5, ingest: 3, delivery: 4 }

/** Of what is left after the single ones; dispatch, or in the role ingest the ingest, gets the rest. */
const CONTROL_SHARE = 0.4
const INGEST_SHARE = 0.25

/** Divides `total`, which is no less than the role's fewest; the sum is never more than `total`. */
export function connectionBudget(role: Role, total: number): ConnectionBudget {
  const listener = role === 'ingest' ? 0 : 1
  const shared = total - 1 - listener
  const control = atLeastOne(shared * CONTROL_SHARE)
  switch (role) {
    case 'all': {
      const ingest = atLeastOne(shared * INGEST_SHARE)
      return { control, ingest, dispatch: shared - control - ingest, upkeep: 1, listener }
    }
    case 'ingest':
      return { control, ingest: shared - control, dispatch: 0, upkeep: 1, listener }
    case 'delivery':
      return { control, ingest: 0, dispatch: shared - control, upkeep: 1, listener }
    default:
      return role satisfies never
  }
}

function atLeastOne(connections: number): number {
  return Math.max(1, Math.floor(connections))
}
