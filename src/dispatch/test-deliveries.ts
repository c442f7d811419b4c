// Sends the tests that tenants ask for by hand: each by exactly one attempt, made as every attempt is (address guard, credentials,
// signatures, the record of it), and by whichever replica takes it first. Tests are apart from the lanes: they wait behind no
// backlog and no breaker, and what they come to changes neither order, breaker nor streak.
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { settledBefore } from '../base/patience.ts'
import type { Pool } from '../store/pool.ts'
import { abandonTests, cancelTest, claimTests, finishTest, type ClaimedTest } from '../store/test-deliveries.ts'
import { runAttempt, type AttemptDeps } from './attempt.ts'
import { isPostponed, type Postponements } from './postponement.ts'

/** Of a process, and of one tenant: a receiver that hangs holds its place for a minute. */
const IN_AIR = { all: 32, tenant: 4 }
/** How much longer than its attempt a test is ours: time for the outcome to be written. */
const MARGIN_MS = 15_000
/** Whoever asked has long gone. */
const WAITS_AT_MOST_MS = 15 * 60_000
/** How often it looks by itself: who asks elsewhere waits for it. */
const LOOK_MS = 500
const WRITE_AGAIN_MS = 500

export class TestDeliveries {
  readonly #deps: AttemptDeps & { pool: Pool; postponements: Postponements }
  readonly #clock: Clock
  readonly #inAir = new Map<Promise<void>, string>()
  readonly #stopping = new AbortController()
  readonly #brokenOff = new AbortController()
  #wake = new AbortController()
  #loop: Promise<void> = Promise.resolve()
  #failing = false

  constructor(deps: AttemptDeps & { pool: Pool; postponements: Postponements }) {
    this.#deps = deps
    this.#clock = deps.clock
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Starts nothing new and lets what is in the air end; at the deadline it is broken off, and recorded as of unknown outcome. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping.abort()
    this.wake()
    const ended = this.#loop.then(() => this.settled())
    await settledBefore(deadline, ended)
    this.#brokenOff.abort()
    await ended
  }

  /** There is a test to send: look at once. */
  wake(): void {
    this.#wake.abort()
  }

  /** Takes the tests that there is room for and starts their attempts. One step of the loop. */
  async step(): Promise<void> {
    const now = this.#clock.now()
    const { pool } = this.#deps
    await abandonTests(pool, { now: new Date(now), waitedSince: new Date(now - WAITS_AT_MOST_MS) })
    const limit = Math.min(IN_AIR.tenant, IN_AIR.all - this.#inAir.size)
    if (limit <= 0) return
    const claim = { now: new Date(now), limit, cappedTenants: this.#cappedTenants(), marginMs: MARGIN_MS }
    for (const test of await claimTests(pool, claim)) this.#start(test)
  }

  /** Resolves when no test is in the air. */
  async settled(): Promise<void> {
    while (this.#inAir.size > 0) await Promise.all(this.#inAir.keys())
  }

  #cappedTenants(): string[] {
    const counts = new Map<string, number>()
    for (const tenantId of this.#inAir.values()) counts.set(tenantId, (counts.get(tenantId) ?? 0) + 1)
    return [...counts].filter(([, count]) => count >= IN_AIR.tenant).map(([tenantId]) => tenantId)
  }

  #start(test: ClaimedTest): void {
    const running: Promise<void> = this.#send(test).finally(() => {
      this.#inAir.delete(running)
      this.wake()
    })
    this.#inAir.set(running, test.lane.tenantId)
  }

  async #send({ lane, job }: ClaimedTest): Promise<void> {
    const { pool, postponements } = this.#deps
    const end = await runAttempt(lane, job, { ...this.#deps, signal: this.#brokenOff.signal, postponements })
    const now = new Date(this.#clock.now())
    const cancelled = { id: job.deliveryId, error: 'the hub cannot open its settings or secrets now', now }
    const write = async () => await (isPostponed(end) ? cancelTest(pool, cancelled) : finishTest(pool, end, now))
    try {
      await write()
    } catch {
      // Once more, and then it is found as one without an outcome.
      await this.#clock.sleep(WRITE_AGAIN_MS, this.#brokenOff.signal)
      await write().catch((error: unknown) =>
        this.#deps.log.error({ delivery_id: job.deliveryId, err: messageOf(error) }, "a test's outcome is not written"),
      )
    }
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#wake = new AbortController()
      try {
        await this.step()
        this.#failing = false
      } catch (error) {
        if (!this.#failing) this.#deps.log.warn({ err: messageOf(error) }, 'tests are not sent')
        this.#failing = true
      }
      await this.#clock.sleep(LOOK_MS, this.#wake.signal)
    }
  }
}
