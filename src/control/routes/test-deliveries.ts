// /v1/subscriptions/:id/test: one event made up, sent, and told of.
import type { EventEmitter } from 'node:events'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { answer } from '../schemas/answers.ts'
import { idParams, refer } from '../schemas/common.ts'
import { SendTest, TestResult } from '../schemas/test-delivery.ts'
import { awaitTest, sendTest, type TestDeps } from '../test-deliveries.ts'
import { viewAttempt, viewDelivery } from '../views/delivery.ts'

export interface TestDeliveryRouteDeps extends TestDeps {
  /** Aborted when the hub begins to stop: nobody is waited for then. */
  stopping: AbortSignal
}

export function testDeliveryRoutes(api: Api, deps: TestDeliveryRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/test',
    config: { access: 'subscriptions:write', limit: 'aggressive', problems: ['not_found', 'conflict'] },
    schema: {
      operationId: 'testSubscription',
      summary: 'Send a test event now, and see how its one attempt went',
      description: `A delivery of kind \`test\`, sent as every other is: through the address guard, with the subscription's credentials and signatures, and
recorded. It goes out although the subscription is disabled or its breaker open, before whatever is queued, and once: a failed one is
dead-lettered at once. It changes neither order, breaker, failure streak nor health, and is never replayed. A receiver knows it by \`ce-test: true\`
(structured: the attribute \`test\`), and by its type \`hub.test\` where none is given. Waits for the attempt as long as the subscription's time-out and a
little more; 202 where it is not finished by then: look at the delivery.`,
      tags: ['subscriptions'],
      params: idParams('subscription'),
      body: SendTest,
      response: {
        200: answer(refer(TestResult), { description: 'The attempt was made', headers: ['location'] }),
        202: answer(refer(TestResult), {
          description: 'It is not finished yet: look at the delivery',
          headers: ['location'],
        }),
      },
    },
    preValidation: async (request) => {
      request.body ??= {}
    },
    handler: async (request, reply) => {
      const object = { tenantId: callerOf(request).tenantId, id: request.params.id }
      const { deliveryId, timeoutMs } = await sendTest(object, request.body, deps)
      const waitMs = deps.testWaitMs === null ? 0 : timeoutMs + deps.testWaitMs
      const wait = (signal: AbortSignal) => awaitTest({ ...object, deliveryId, waitMs }, deps, signal)
      const { delivery, attempt } = await whileWanted(request.raw.socket, deps.stopping, wait)
      reply.code(delivery.finishedAt === null ? 202 : 200).header('location', `/v1/deliveries/${deliveryId}`)
      return { delivery: viewDelivery(delivery), attempt: attempt && viewAttempt(attempt) }
    },
  })
}

/** Runs `work` with a signal that aborts when the caller has gone, or the hub stops. */
async function whileWanted<T>(
  caller: EventEmitter,
  stopping: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController()
  const leave = (): void => gone.abort()
  caller.once('close', leave)
  try {
    return await work(AbortSignal.any([gone.signal, stopping]))
  } finally {
    caller.removeListener('close', leave)
  }
}
