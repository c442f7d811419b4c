// How PostgreSQL would run the statements of a store function: so that a test can hold them to their indexes, and to a bounded
// amount of work whatever is stored beside what is asked for.
import type { Database, Pool } from '../../src/store/pool.ts'
import { tenantStore, type TenantDatabase } from '../../src/store/tenant.ts'
import { transaction } from '../../src/store/transaction.ts'
import { tenantDatabase } from './tenant.ts'

export interface Plan {
  text: string
  /** Tables that are read from end to end. */
  sequentialScans: string[]
  /** Pages touched, when run. */
  buffers: number
}

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: PlanNode[]
}

/**
 * Runs `work`, and explains (with analyze: runs again, and rolls back) each statement that it made: as `tenantId`, so with what
 * row security adds, or as the hub itself.
 */
export async function plansOf(
  pool: Pool,
  work: (db: TenantDatabase) => Promise<unknown>,
  tenantId: string | null = null,
): Promise<Plan[]> {
  const made: Statement[] = []
  const query = async (given: string | { text: string; values?: unknown[] }, values?: unknown[]): Promise<unknown> => {
    const statement =
      typeof given === 'string'
        ? { text: given, values: values ?? [] }
        : { text: given.text, values: given.values ?? [] }
    made.push(statement)
    return await (tenantId === null ? pool : tenantDatabase(pool, tenantId)).query(statement.text, statement.values)
  }
  await work({ tenantId, query } as unknown as TenantDatabase)
  return await Promise.all(made.map(async (statement) => await planOf(pool, tenantId, statement)))
}

interface Statement {
  text: string
  values: unknown[]
}

class RollBack extends Error {}

async function planOf(pool: Pool, tenantId: string | null, statement: Statement): Promise<Plan> {
  let plan: Plan | undefined
  const run = async (db: Database): Promise<never> => {
    plan = await explain(db, statement)
    throw new RollBack()
  }
  const running = tenantId === null ? transaction(pool, run) : tenantStore(pool)({ tenantId }, run)
  await running.catch((error: unknown) => {
    if (!(error instanceof RollBack)) throw error
  })
  return plan!
}

async function explain(db: Database, { text, values }: Statement): Promise<Plan> {
  const { rows } = await db.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
    `explain (analyze, buffers, format json) ${text}`,
    values,
  )
  const root = rows[0]!['QUERY PLAN'][0]!.Plan
  return {
    text,
    sequentialScans: sequentialScans(root),
    buffers: root['Shared Hit Blocks'] + root['Shared Read Blocks'],
  }
}

function sequentialScans(node: PlanNode): string[] {
  const own = node['Node Type'] === 'Seq Scan' ? [node['Relation Name'] ?? '?'] : []
  return [...own, ...(node.Plans ?? []).flatMap(sequentialScans)]
}
