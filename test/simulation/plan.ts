// What happens in one simulated world, as a list of actions that can be read, and shortened, by itself. The seed decides the rest:
// who goes first where several could, how long an answer takes, what the jitter is.
import type { Ordering } from '../../src/event/subscription.ts'
import { seededRandom } from '../support/random.ts'
import type { Mood } from './receivers.ts'
import type { ArmedFault } from './scheduler.ts'

export interface Plan {
  seed: number
  hubs: number
  options: {
    workers: number
    claimBatch: number
    autodisable: { enabled: boolean; windowMs: number; spreadMs: number }
    /** A timer's tick comes at most so often, so that much falls due together. */
    tickEveryMs: number
    /** How often an action is begun while others are still busy. */
    overlap: number
  }
  subscriptions: PlannedSubscription[]
  /** In order of time. */
  actions: Action[]
}

export interface PlannedSubscription {
  tenant: string
  destination: string
  ordering: Ordering
  /** As it is stored. */
  schedule: unknown
  timeoutMs: number
  eventTypes: string[]
  origin: string | null
  schemaMajor: number | null
}

export interface PlannedEvent {
  source: string
  resource: string
  major: number
  /** Kills whatever process tries to deliver it. */
  toxic: boolean
}

export type Change =
  | { kind: 'disable' | 'enable' | 'unverify' | 'verify' | 'delete' | 'touch' }
  | { kind: 'move'; destination: string }
  | { kind: 'schedule'; schedule: unknown }
  /** Of one of its deliveries, finished or not, by hand. */
  | { kind: 'retry'; nth: number }
  /** Of its destination's breaker, by hand. */
  | { kind: 'reset' }

/** `at` in ms since the start. */
export type Action = { at: number } & (
  | { kind: 'arrive'; tenant: string; events: PlannedEvent[] }
  | { kind: 'mood'; destination: string; mood: Mood }
  | { kind: 'edit'; subscription: number; change: Change }
  | { kind: 'fault'; hub: number; fault: ArmedFault }
  /** As on SIGTERM: what is in the air may take so long, and another process takes its place. */
  | { kind: 'stop'; hub: number; graceMs: number }
)

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000] as const

/** The world of `seed`. */
export function drawPlan(seed: number): Plan {
  const draw = drawing(seed)
  const tenants = ['ada', 'bob', 'cyd'].slice(0, draw.whole(1, 3))
  const subscriptions = Array.from({ length: draw.whole(1, 6) }, () => drawSubscription(draw, tenants))
  const days = draw.of([0.2, 1, 3, 8, 20])
  const actions = [
    ...draw.times(draw.whole(4, 14), () => drawArrival(draw, tenants, days * DAY)),
    ...draw.times(draw.whole(0, 8), () => drawMoods(draw, subscriptions, days * DAY)).flat(),
    ...draw.times(draw.of([0, 0, 2, 6]), () => drawEdit(draw, subscriptions, days * DAY)),
    ...draw.times(draw.of([0, 1, 3, 8]), () => drawFault(draw, days * DAY)),
    ...draw.times(draw.of([0, 0, 1, 3]), () => drawStop(draw, days * DAY)),
  ]
  return {
    seed,
    hubs: draw.of([1, 2, 2, 3]),
    options: {
      workers: draw.of([1, 2, 8]),
      claimBatch: draw.of([1, 3, 16]),
      autodisable: draw.of([
        { enabled: true, windowMs: 120 * HOUR, spreadMs: 12 * HOUR },
        { enabled: true, windowMs: 6 * HOUR, spreadMs: HOUR },
        { enabled: true, windowMs: 2 * HOUR, spreadMs: 3 * HOUR },
        { enabled: false, windowMs: HOUR, spreadMs: MINUTE },
      ]),
      tickEveryMs: draw.of([0, 200, 10 * SECOND, 10 * MINUTE]),
      overlap: draw.of([0, 0.02, 0.1, 0.4]),
    },
    subscriptions,
    actions: actions.sort((a, b) => a.at - b.at),
  }
}

type Drawing = ReturnType<typeof drawing>

function drawing(seed: number) {
  const random = seededRandom(seed)
  for (let n = 0; n < 4; n++) random()
  const whole = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1))
  return {
    whole,
    chance: (share: number): boolean => random() < share,
    of: <T>(choices: readonly T[]): T => choices[whole(0, choices.length - 1)]!,
    times: <T>(n: number, make: () => T): T[] => Array.from({ length: n }, make),
  }
}

function drawSubscription(draw: Drawing, tenants: string[]): PlannedSubscription {
  return {
    tenant: draw.of(tenants),
    destination: draw.of(['x', 'x', 'y', 'z']),
    ordering: draw.of(['fifo', 'fifo', 'strict', 'parallel']),
    schedule: drawSchedule(draw),
    timeoutMs: draw.of([1 * SECOND, 10 * SECOND, 30 * SECOND, 60 * SECOND]),
    eventTypes: draw.of([['*'], ['*'], ['loan.*'], ['loan.approved', 'card.*']]),
    origin: draw.of([null, null, 'lender']),
    schemaMajor: draw.of([null, null, 1]),
  }
}

function drawSchedule(draw: Drawing): unknown {
  return draw.of<unknown>([
    null,
    null,
    [0],
    [0, 0, 0],
    [0, MINUTE, HOUR],
    [0, 5 * SECOND, 10 * MINUTE, 2 * HOUR, 10 * HOUR],
    [],
    'often',
    [0, -5],
    [0, 11 * HOUR],
  ])
}

function drawArrival(draw: Drawing, tenants: string[], span: number): Action {
  const events = draw.times(draw.of([1, 1, 2, 5, 12]), () => ({
    source: draw.of(['lender', 'lender', 'ledger']),
    resource: draw.of(['loan', 'loan', 'card']),
    major: draw.of([1, 1, 2]),
    toxic: draw.chance(0.01),
  }))
  return { at: draw.whole(0, span), kind: 'arrive', tenant: draw.of(tenants), events }
}

/** A bad time, and its end. */
function drawMoods(draw: Drawing, subscriptions: PlannedSubscription[], span: number): Action[] {
  const { tenant, destination } = draw.of(subscriptions)
  const at = draw.whole(0, span)
  const mood = draw.of<Mood>([
    { kind: 'down' },
    { kind: 'down' },
    { kind: 'refusing' },
    { kind: 'gone' },
    { kind: 'slow', share: draw.of([0.1, 0.97, 1]) },
    { kind: 'flapping', failing: draw.of([0.2, 0.5, 0.9]) },
    { kind: 'lossy', lost: 0.5 },
    { kind: 'busy', retryAfter: draw.of(['1', '120', '99999999999', 'Fri, 15 May 2026 13:00:00 GMT', '-3', 'soon']) },
  ])
  const lasts = draw.of([10 * MINUTE, HOUR, 6 * HOUR, 2 * DAY, 7 * DAY])
  const key = `${tenant}/${destination}`
  return [
    { at, kind: 'mood', destination: key, mood },
    { at: at + lasts, kind: 'mood', destination: key, mood: { kind: 'healthy' } },
  ]
}

function drawEdit(draw: Drawing, subscriptions: PlannedSubscription[], span: number): Action {
  const subscription = draw.whole(0, subscriptions.length - 1)
  const change = draw.of<Change>([
    { kind: 'disable' },
    { kind: 'disable' },
    { kind: 'enable' },
    { kind: 'enable' },
    { kind: 'unverify' },
    { kind: 'verify' },
    { kind: 'delete' },
    { kind: 'touch' },
    { kind: 'retry', nth: draw.whole(0, 50) },
    { kind: 'retry', nth: draw.whole(0, 50) },
    { kind: 'reset' },
    { kind: 'move', destination: draw.of(['x', 'y', 'moved']) },
    { kind: 'schedule', schedule: drawSchedule(draw) },
  ])
  return { at: draw.whole(0, span), kind: 'edit', subscription, change }
}

function drawStop(draw: Drawing, span: number): Action {
  const graceMs = draw.of([0, 5 * SECOND, 60 * SECOND])
  return { at: draw.whole(0, span), kind: 'stop', hub: draw.whole(0, 2), graceMs }
}

function drawFault(draw: Drawing, span: number): Action {
  const fault: ArmedFault = {
    kind: draw.of(['crash', 'crash', 'pause', 'error']),
    afterSteps: draw.whole(0, 25),
    answerLost: draw.chance(0.5),
    lastsMs: draw.of([0, 5 * SECOND, 20 * SECOND, 2 * MINUTE, HOUR]),
  }
  return { at: draw.whole(0, span), kind: 'fault', hub: draw.whole(0, 2), fault }
}
