// What a run came to, for people.
import type { PropertyReport } from './run.ts'

const MOST_COMPLAINTS = 20

/** A line for each operation, and the first complaint of each kind with how to send its request again. */
export function reportOf({ answers, complaints }: PropertyReport): string {
  const lines = [...answers]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([operation, counts]) => {
      const each = [...counts].sort(([a], [b]) => a - b).map(([status, count]) => `${status} × ${count}`)
      return `| ${operation} | ${each.join(', ')} |`
    })
  const kinds = Map.groupBy(complaints, ({ operation, complaint }) => `${operation}: ${complaint.slice(0, 40)}`)
  const told = [...kinds.values()].slice(0, MOST_COMPLAINTS).map((of) => {
    const { operation, complaint, curl } = of[0]!
    return `${operation}: ${complaint.slice(0, 500)} (${of.length} times)\n  ${curl.slice(0, 1_000)}`
  })
  const table = ['| operation | answers |', '| --- | --- |', ...lines].join('\n')
  return [table, `${complaints.length} complaints`, ...told].join('\n\n')
}
