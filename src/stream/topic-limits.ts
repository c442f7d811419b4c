// The largest message that each topic takes, asked of the broker. An ACL may forbid the question, for all topics or for some: then
// there is no answer for those, and that is no fault.
import { ConfigResourceTypes, parseBroker } from '@platformatic/kafka'
import { responseIn } from './kafka-error.ts'
import type { Wire } from './wire.ts'

const { TOPIC } = ConfigResourceTypes
const MAX_MESSAGE_BYTES = 'max.message.bytes'

/** `max.message.bytes` of those of `topics` whose broker tells it. Rejects when no broker answers. */
export async function readTopicLimits(
  wire: Wire,
  brokers: readonly string[],
  topics: readonly string[],
): Promise<Map<string, number>> {
  if (topics.length === 0) return new Map()
  const resources = topics.map((resourceName) => ({
    resourceType: TOPIC,
    resourceName,
    configurationKeys: [MAX_MESSAGE_BYTES],
  }))
  const bootstrap = brokers.map((broker) => parseBroker(broker))
  const { results } = await wire.callAny(bootstrap, 'DescribeConfigs', [resources]).catch((error: unknown) => {
    const partial = responseIn(error, 'DescribeConfigs')
    if (partial !== null) return partial
    throw error
  })
  const limits = new Map<string, number>()
  for (const { errorCode, resourceName, configs } of results) {
    const found = configs.find(({ name }) => name === MAX_MESSAGE_BYTES)?.value
    if (errorCode === 0 && found && /^\d+$/.test(found)) limits.set(resourceName, Number(found))
  }
  return limits
}
