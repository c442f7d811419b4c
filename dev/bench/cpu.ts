// The processor time of processes, from /proc: what a figure per event is made of. Linux only.
import { readdir, readFile } from 'node:fs/promises'

/** Linux reports process times in ticks of 10 ms on every common platform. */
const US_PER_TICK = 10_000

/** The CPU time in µs that process `pid` and its children, living and ended, have used so far. */
export async function cpuOf(pid: number): Promise<number> {
  let ticks = 0
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const fields = await statOf(entry)
    if (!fields) continue
    const [parent, own, ended] = fields
    if (Number(entry) === pid) ticks += own + ended
    else if (parent === pid) ticks += own
  }
  return ticks * US_PER_TICK
}

async function statOf(entry: string): Promise<[parent: number, own: number, ended: number] | null> {
  // A process may end while it is looked at.
  const text = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => null)
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ')
  if (!fields) return null
  const at = (index: number): number => Number(fields[index - 3])
  return [at(4), at(14) + at(15), at(16) + at(17)]
}
