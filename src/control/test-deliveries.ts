// A test of a subscription: it is stored for whichever replica sends it, and its outcome is waited for without holding a connection.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { findDelivery, listAttempts, type Attempt, type Delivery } from '../store/deliveries.ts'
import type { AsTenant } from '../store/tenant.ts'
import { insertTestDelivery } from '../store/test-deliveries.ts'
import type { SendTestBody } from './schemas/test-delivery.ts'
import { getSubscription } from './subscriptions.ts'
import { testEvent } from './test-event.ts'

export interface TestDeps {
  asTenant: AsTenant
  clock: Clock
  /** How long an outcome is waited for beyond the subscription's time-out; null: not at all. */
  testWaitMs: number | null
  /** Called when there is a test to send. */
  onTest: () => void
}

export interface TestOutcome {
  delivery: Delivery
  /** Null: none was made, or none yet. */
  attempt: Attempt | null
}

const LOOK_MS = { first: 15, longest: 500 }

/** Stores a test. Throws `not_found`, `invalid_request`; `conflict` for data of one's own to an address that is not verified. */
export async function sendTest(
  object: { tenantId: string; id: string },
  wish: SendTestBody,
  deps: TestDeps,
): Promise<{ deliveryId: string; timeoutMs: number }> {
  const now = new Date(deps.clock.now())
  const sent = await deps.asTenant(object, async (db) => {
    const subscription = await getSubscription(db, object.id)
    if (wish.data !== undefined && subscription.verificationState !== 'active')
      throw new HubError('conflict', "The address is not verified: until it is, it gets the hub's own sample only.")
    const event = testEvent(subscription, wish, now)
    const deliveryId = await insertTestDelivery(db, { subscriptionId: subscription.id, event, now })
    return { deliveryId, timeoutMs: subscription.timeoutMs }
  })
  deps.onTest()
  return sent
}

/** What has become of a test by the time that it is finished, or that `waitMs` have passed, or `signal` aborts. */
export async function awaitTest(
  test: { tenantId: string; deliveryId: string; waitMs: number },
  deps: TestDeps,
  signal: AbortSignal,
): Promise<TestOutcome> {
  const until = deps.clock.now() + test.waitMs
  for (let pause = LOOK_MS.first; ; pause = Math.min(pause * 2, LOOK_MS.longest)) {
    const outcome = await look(test, deps)
    const isOver = signal.aborted || deps.clock.now() >= until
    if (outcome.delivery.finishedAt !== null || isOver) return outcome
    await deps.clock.sleep(pause, signal)
  }
}

async function look({ tenantId, deliveryId }: { tenantId: string; deliveryId: string }, { asTenant }: TestDeps) {
  return await asTenant({ tenantId }, async (db): Promise<TestOutcome> => {
    const delivery = await findDelivery(db, deliveryId)
    if (!delivery) throw new HubError('not_found', 'The test is gone.')
    const [attempt = null] = delivery.attempts > 0 ? await listAttempts(db, delivery, { after: null, limit: 1 }) : []
    return { delivery, attempt }
  })
}
