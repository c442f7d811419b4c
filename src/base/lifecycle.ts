// Starts the parts of a process in order and stops them in reverse, within a bound that no part can exceed. Parts of one stage
// need nothing of each other to end, so they stop together: one that hangs takes no time from the others.
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import type { Service } from './service.ts'

export interface Lifecycle {
  /** Starts one part after the other; ends early, without an error, once `stop` was called. Rejects when a part cannot start. */
  start(): Promise<void>
  /**
   * Stops everything. Parts finish what is under way until `deadline` aborts, and let go then; who has not ended a moment later is
   * left behind. Answers the names of those: none, when all has ended well. May be called twice, also while it starts. Never rejects.
   */
  stop(deadline: AbortSignal): Promise<readonly string[]>
  /** All parts have been started, and nobody has asked to stop. */
  running(): boolean
}

/** After the deadline: for what has been broken off to be written down and given back. */
const GIVE_BACK_MS = 1_100
/** What comes after a part that hung still gets so long. */
const GRACE_MS = 100

export function createLifecycle(made: {
  clock: Clock
  log: Log
  /** Aborted when a stop begins. */
  stopping: AbortController
  /** In the order of their start; null: a part that this process does not have. */
  stages: readonly (readonly (Service | null)[])[]
  /** What the parts have used; closed when they have ended. */
  closing: readonly { name: string; close: () => Promise<void> }[]
}): Lifecycle {
  const stages = made.stages.map((stage) => stage.filter((service) => service !== null))
  const { stopping } = made
  let started = false
  let stopped: Promise<readonly string[]> | null = null
  return {
    start: async () => {
      for (const service of stages.flat()) {
        if (stopping.signal.aborted) return
        await service.start()
      }
      started = true
    },
    stop: (deadline) => (stopped ??= stopAll(stages, deadline, made)),
    running: () => started && !stopping.signal.aborted,
  }
}

async function stopAll(
  stages: readonly (readonly Service[])[],
  deadline: AbortSignal,
  made: Parameters<typeof createLifecycle>[0],
): Promise<readonly string[]> {
  const { clock, log, stopping, closing } = made
  stopping.abort()
  await using patience = patienceAfter(deadline, clock)
  const end = async (name: string, ending: Promise<void>): Promise<string[]> => {
    const ended = ending.then(
      () => true,
      (error: unknown) => {
        log.error({ err: error, part: name }, 'stop failed')
        return true
      },
    )
    return (await Promise.race([ended, patience.lost().then(() => false)])) ? [] : [name]
  }
  const left: string[] = []
  for (const stage of stages.toReversed()) {
    left.push(...(await Promise.all(stage.map((part) => end(part.name, part.stop(deadline))))).flat())
  }
  left.push(...(await Promise.all(closing.map(({ name, close }) => end(name, close())))).flat())
  if (left.length > 0) log.error({ parts: left }, 'stopped without waiting any longer for parts that hang')
  return left
}

/** `lost` resolves a moment after the deadline, and never less than another moment after it was asked. Leaves no timer behind. */
function patienceAfter(deadline: AbortSignal, clock: Clock) {
  const ended = new AbortController()
  const reached = Promise.withResolvers<void>()
  const begin = (): void => reached.resolve()
  if (deadline.aborted) begin()
  else deadline.addEventListener('abort', begin, { once: true, signal: ended.signal })
  const over = reached.promise.then(() => clock.sleep(GIVE_BACK_MS, ended.signal))
  return {
    lost: async (): Promise<void> => void (await Promise.all([over, clock.sleep(GRACE_MS, ended.signal)])),
    [Symbol.asyncDispose]: async () => {
      ended.abort()
      begin()
    },
  }
}
