// Makes a failing plan shorter: leaves out actions, events, hubs and subscriptions as long as it still fails, in whatever way.
import type { Pool } from '../../src/store/pool.ts'
import type { Action, Plan } from './plan.ts'
import { describe, runPlan } from './run.ts'
import type { Result } from './run.ts'

export interface Failure {
  plan: Plan
  result: Result
  /** Worlds that were run to find it. */
  tried: number
}

const MAX_TRIES = 300
const LAST_LINES = 60

/** The shortest failing plan that can be found in reasonable time. */
export async function shrink(plan: Plan, result: Result, pool: Pool): Promise<Failure> {
  let best: Failure = { plan, result, tried: 0 }
  const attempt = async (shorter: Plan): Promise<boolean> => {
    if (best.tried >= MAX_TRIES) return false
    best.tried++
    const again = await runPlan(shorter, pool)
    if (again.violation === null) return false
    best = { plan: shorter, result: again, tried: best.tried }
    return true
  }
  for (let size = Math.ceil(plan.actions.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < best.plan.actions.length;) {
      const actions = best.plan.actions.toSpliced(at, size)
      if (!(await attempt({ ...best.plan, actions }))) at += size
    }
  }
  while (best.plan.hubs > 1 && (await attempt({ ...best.plan, hubs: best.plan.hubs - 1 })));
  await dropSubscriptions(() => best.plan, attempt)
  await dropEvents(() => best.plan, attempt)
  return best
}

async function dropSubscriptions(best: () => Plan, attempt: (plan: Plan) => Promise<boolean>): Promise<void> {
  for (let at = best().subscriptions.length - 1; at >= 0 && best().subscriptions.length > 1; at--) {
    const plan = best()
    const actions = plan.actions.flatMap((action): Action[] => {
      if (action.kind !== 'edit' || action.subscription < at) return [action]
      return action.subscription === at ? [] : [{ ...action, subscription: action.subscription - 1 }]
    })
    await attempt({ ...plan, actions, subscriptions: plan.subscriptions.toSpliced(at, 1) })
  }
}

async function dropEvents(best: () => Plan, attempt: (plan: Plan) => Promise<boolean>): Promise<void> {
  for (let at = 0; at < best().actions.length; at++) {
    for (;;) {
      const action = best().actions[at]
      if (action?.kind !== 'arrive' || action.events.length < 2) break
      const fewer = { ...action, events: action.events.slice(0, Math.floor(action.events.length / 2)) }
      if (!(await attempt({ ...best(), actions: best().actions.with(at, fewer) }))) break
    }
  }
}

/** A failure for people: the seed, the plan, and the end of what happened. */
export function report({ plan, result, tried }: Failure): string {
  const { seed, hubs, options, subscriptions, actions } = plan
  return [
    `seed ${seed}: ${result.violation}`,
    `the shortest of ${tried} worlds that show it: ${hubs} hubs, ${JSON.stringify(options)}`,
    ...subscriptions.map((subscription, at) => `  s${at} ${JSON.stringify(subscription)}`),
    ...actions.map((action) => `  ${describe(action)}`),
    `what happened (${result.history.length} lines, the last ${LAST_LINES}):`,
    ...result.history.slice(-LAST_LINES).map((line) => `  ${line}`),
  ].join('\n')
}
