// Runs the worlds of many seeds, on as many databases at once: while one waits for PostgreSQL, another goes on.
import type { Pool } from '../../src/store/pool.ts'
import { drawPlan } from './plan.ts'
import { runPlan } from './run.ts'
import { shrink } from './shrink.ts'
import type { Failure } from './shrink.ts'

export interface Sum {
  worlds: number
  steps: number
  attempts: number
  deliveries: number
  days: number
}

/** Calls `onFailure` for each seed that fails; until it answers false. */
export async function runSeeds(run: {
  pools: readonly Pool[]
  from: number
  seeds: number
  shrinking: boolean
  onFailure: (failure: Failure) => boolean
}): Promise<Sum> {
  const sum: Sum = { worlds: 0, steps: 0, attempts: 0, deliveries: 0, days: 0 }
  let next = run.from
  const work = async (pool: Pool): Promise<void> => {
    while (next < run.from + run.seeds) {
      const plan = drawPlan(next++)
      const result = await runPlan(plan, pool)
      sum.worlds++
      sum.steps += result.steps
      sum.attempts += result.attempts
      sum.deliveries += result.deliveries
      sum.days += result.virtualMs / 86_400_000
      if (result.violation === null) continue
      const failure = run.shrinking ? await shrink(plan, result, pool) : { plan, result, tried: 1 }
      if (!run.onFailure(failure)) next = Infinity
    }
  }
  // A transaction stands still here for as long as others take their steps, on whatever machine.
  for (const pool of run.pools) pool.on('connect', (client) => void client.query(NO_HURRY))
  await Promise.all(run.pools.map(work))
  return sum
}

const NO_HURRY = 'set idle_in_transaction_session_timeout = 0; set statement_timeout = 0'
