// How PostgreSQL would run the statements of a store function: so that a test can hold them to their indexes, and to a bounded
// amount of work whatever is stored beside what is asked for.
import type { Database, Pool } from '../../src/store/pool.ts'

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

/** Runs `work`, and explains (with analyze: runs again, and rolls back) each statement that it made. */
export async function plansOf(pool: Pool, work: (db: Database) => Promise<unknown>): Promise<Plan[]> {
  const made: { text: string; values: unknown[] }[] = []
  const query = async (given: string | { text: string; values?: unknown[] }, values?: unknown[]): Promise<unknown> => {
    const statement =
      typeof given === 'string'
        ? { text: given, values: values ?? [] }
        : { text: given.text, values: given.values ?? [] }
    made.push(statement)
    return await pool.query(statement.text, statement.values)
  }
  await work({ query } as unknown as Database)
  return await Promise.all(made.map(async (statement) => await explain(pool, statement)))
}

async function explain(pool: Pool, { text, values }: { text: string; values: unknown[] }): Promise<Plan> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
      `explain (analyze, buffers, format json) ${text}`,
      values,
    )
    const root = rows[0]!['QUERY PLAN'][0]!.Plan
    return {
      text,
      sequentialScans: sequentialScans(root),
      buffers: root['Shared Hit Blocks'] + root['Shared Read Blocks'],
    }
  } finally {
    await client.query('rollback')
    client.release()
  }
}

function sequentialScans(node: PlanNode): string[] {
  const own = node['Node Type'] === 'Seq Scan' ? [node['Relation Name'] ?? '?'] : []
  return [...own, ...(node.Plans ?? []).flatMap(sequentialScans)]
}
