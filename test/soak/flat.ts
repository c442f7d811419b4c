// When a long run counts as flat. What may not grow is compared between the first and the last third of the samples, by medians, so
// that one garbage collection or one busy moment of the machine decides nothing.

export interface Sample {
  /** Since the load began. */
  seconds: number
  /** Deliveries finished so far, and those that wait. */
  finished: number
  waiting: number
  /** Of the hub's process. */
  memoryMb: number
  /** Of the claims since the sample before: their mean. */
  claimMs: number
  /** What `select 1` took meanwhile on a connection of its own, once a second: the mean. What it grows by is the machine's doing. */
  selectMs: number
  /** The tables that are changed all the time, with their indexes: lane, delivery, destination, tenant_turn. */
  hotMb: number
  /** The tables that keep what was, with their indexes: events, history, attempts. */
  keptMb: number
}

interface Rule {
  of: string
  value: (sample: Sample) => number
  /** The most that the last third may be, given the first one. */
  most: (first: number) => number
  inWords: string
}

const RULES: readonly Rule[] = [
  {
    of: 'memory',
    value: ({ memoryMb }) => memoryMb,
    most: (first) => first * 1.15 + 16,
    inWords: 'at most 15 % and 16 MiB above the first third',
  },
  {
    of: 'claim latency, in units of `select 1`',
    value: ({ claimMs, selectMs }) => claimMs / selectMs,
    most: (first) => first * 1.5 + 2,
    inWords: 'at most half as much again and 2 above the first third',
  },
  {
    of: 'hot tables',
    value: ({ hotMb }) => hotMb,
    most: (first) => first * 1.5 + 8,
    inWords: 'at most half as much again and 8 MiB above the first third',
  },
  {
    of: 'kept bytes per delivery',
    value: ({ keptMb, finished }) => (keptMb * (1 << 20)) / Math.max(1, finished),
    most: (first) => first * 1.2,
    inWords: 'at most a fifth above the first third: it grows with what is kept, and not faster',
  },
  {
    of: 'waiting deliveries',
    value: ({ waiting }) => waiting,
    most: (first) => first * 1.5 + 500,
    inWords: 'at most half as many again and 500 more than in the first third',
  },
]

export interface Verdict {
  of: string
  first: number
  last: number
  flat: boolean
  inWords: string
}

/** Needs three samples at least. */
export function verdictsOf(samples: readonly Sample[]): Verdict[] {
  const third = Math.max(1, Math.floor(samples.length / 3))
  return RULES.map(({ of, value, most, inWords }) => {
    const first = median(samples.slice(0, third).map(value))
    const last = median(samples.slice(-third).map(value))
    return { of, first, last, flat: last <= most(first), inWords }
  })
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0
}
