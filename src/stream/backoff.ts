// How long to wait before trying again to reach a broker or to write a batch: doubling from a fifth of a second to five seconds,
// so that a short outage costs little and a long one ends within seconds of the other side's return.

const FIRST_MS = 200
const LONGEST_MS = 5_000

/** Milliseconds to wait after `failures` (1, 2, …) in a row. */
export function backoff(failures: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** (failures - 1))
}
