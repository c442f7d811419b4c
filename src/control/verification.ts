// Verification: a probe of the destination, and what its outcome changes. `verify` waits for it; `begin` lets it go on behind an
// answer that must not wait, such as that of a creation, which shows the secret that the receiver does not know yet.
import { HubError, messageOf } from '../base/errors.ts'
import type { Actor } from '../event/actor.ts'
import type { Log } from '../base/log.ts'
import type { Subscription } from '../event/subscription.ts'
import type { Outcome } from '../sinks/sink.ts'
import type { AsTenant } from '../store/tenant.ts'
import { insist, NO_CONDITIONS, type Conditions } from './preconditions.ts'
import { getSubscription, recordProbe, type SubscriptionDeps } from './subscriptions.ts'

/** More probes than these do not go on behind answers: their owners ask for them. */
const MAX_IN_BACKGROUND = 64

export interface VerificationDeps extends SubscriptionDeps {
  asTenant: AsTenant
  log: Log
  /** One probe with the newest settings; resolves within the subscription's time-out, or when `signal` aborts. */
  probe(subscription: Subscription, signal: AbortSignal): Promise<Outcome>
}

/** Which subscription, whose, in which version when the probe begins, and who asks. */
interface Verified {
  tenantId: string
  id: string
  conditions?: Conditions
  by: Actor
}

export class Verification {
  readonly #deps: VerificationDeps
  readonly #background = new Set<Promise<void>>()
  readonly #stopping = new AbortController()

  constructor(deps: VerificationDeps) {
    this.#deps = deps
  }

  /**
   * Throws `not_found`, `precondition_failed`, `conflict` when the sink was changed meanwhile, and `unavailable` when the hub itself
   * cannot probe now.
   */
  async verify(object: Verified): Promise<{ outcome: Outcome; subscription: Subscription }> {
    const { asTenant } = this.#deps
    const probed = await asTenant(object, (db) => getSubscription(db, object.id))
    insist(probed, object.conditions ?? NO_CONDITIONS)
    this.#goOn()
    const outcome = await this.#deps.probe(probed, this.#stopping.signal)
    this.#goOn()
    if (outcome.kind === 'failed' && outcome.errorClass === 'proxy') throw new HubError('unavailable', outcome.detail)
    const found = { probed, by: object.by, worked: outcome.kind === 'delivered' }
    const { subscription, recorded } = await asTenant(object, (db) => recordProbe(db, found, this.#deps))
    if (!recorded) throw new HubError('conflict', 'The sink was changed while it was probed; verify again.')
    return { outcome, subscription }
  }

  /** Starts a verification that nobody waits for. Its failure is no error: the subscription's state tells. */
  begin(object: Verified): void {
    if (this.#background.size >= MAX_IN_BACKGROUND || this.#stopping.signal.aborted) return
    const running = this.#runInBackground(object).finally(() => this.#background.delete(running))
    this.#background.add(running)
  }

  /** Resolves when no verification is under way in the background. */
  async settled(): Promise<void> {
    await Promise.all(this.#background)
  }

  /** Breaks off what is under way. */
  cutOff(): void {
    this.#stopping.abort()
  }

  /** A probe that was cut off says nothing about the receiver. */
  #goOn(): void {
    if (this.#stopping.signal.aborted)
      throw new HubError('unavailable', 'The hub is stopping: verify again a little later.')
  }

  async #runInBackground(object: Verified): Promise<void> {
    const log = this.#deps.log.child({ subscription_id: object.id, tenant_id: object.tenantId })
    try {
      const { outcome, subscription } = await this.verify(object)
      log.info({ outcome: outcome.kind, verification_state: subscription.verificationState }, 'verified')
    } catch (error) {
      log.warn({ err: messageOf(error) }, 'not verified')
    }
  }
}
