// A script that is interrupted (Ctrl-C, or told to stop) leaves nothing of what it started behind. PostgreSQL above all: it hears nothing
// of the terminal.
import { constants } from 'node:os'

const open = new Set<AsyncDisposableStack>()

/** A stack whose contents end with the block that holds it, or when the process is told to stop: the youngest stack first. */
export function interruptible(): AsyncDisposableStack {
  const running = new AsyncDisposableStack()
  if (open.size === 0) for (const signal of SIGNALS) process.on(signal, end)
  open.add(running)
  running.defer(() => forget(running))
  return running
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
let ending = false

/** A terminal and npm each send one: the second one changes nothing. */
function end(signal: (typeof SIGNALS)[number]): void {
  if (ending) return
  ending = true
  // What is under way fails when that on which it works ends: nobody has to be told.
  process.on('uncaughtException', () => undefined)
  void endAll().finally(() => process.exit(128 + constants.signals[signal]))
}

async function endAll(): Promise<void> {
  for (const running of [...open].reverse()) await running.disposeAsync()
}

function forget(running: AsyncDisposableStack): void {
  open.delete(running)
  if (open.size === 0) for (const signal of SIGNALS) process.off(signal, end)
}
