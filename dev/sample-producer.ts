// A producing application, as small as one can be and still right: it writes its business facts to its own topic as CloudEvents
// in binary mode, the attributes as record headers, the tenant as the record's key so that a tenant's events keep their order.
import { randomUUIDv7 } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'

export interface Fact {
  tenantId: string
  resource: string
  event: string
  data: unknown
}

/** What an application does next for a tenant; `count` rises by one with each fact. */
export type Script = (count: number) => Omit<Fact, 'tenantId'>

export interface ProducerOptions {
  brokers: string[]
  /** The application's name, `ce-source`: its topic is `lerian.streaming.<source>`. */
  source: string
  tenants: readonly string[]
  script: Script
  /** Time between two facts, in ms. */
  intervalMs: number
  /** Told after the broker has the fact. */
  onSent: (fact: Fact & { id: string; source: string }) => void
}

export interface SampleProducer {
  /** Rejects when the broker refuses a fact; resolves after `stop`. */
  finished: Promise<void>
  stop(): Promise<void>
}

/** Makes the topic where it is missing, and then writes facts for each tenant in turn until it is stopped. */
export async function startProducer(options: ProducerOptions): Promise<SampleProducer> {
  const topic = `lerian.streaming.${options.source}`
  await makeTopic(options.brokers, topic)
  const stopping = new AbortController()
  const finished = produce(topic, options, stopping.signal)
  return {
    finished,
    stop: async () => {
      stopping.abort()
      await finished.catch(() => undefined)
    },
  }
}

async function produce(topic: string, options: ProducerOptions, stopping: AbortSignal): Promise<void> {
  const { source, tenants, script, intervalMs, onSent } = options
  const producer = new Producer({ clientId: `sample-${source}`, bootstrapBrokers: options.brokers })
  try {
    for (let count = 0; !stopping.aborted; count++) {
      const fact = { tenantId: tenants[count % tenants.length] ?? '', ...script(count) }
      const id = randomUUIDv7()
      await producer.send({ messages: [recordOf(topic, { ...fact, id, source })] })
      onSent({ ...fact, id, source })
      await delay(intervalMs, undefined, { signal: stopping }).catch(() => undefined)
    }
  } finally {
    await producer.close()
  }
}

function recordOf(topic: string, fact: Fact & { id: string; source: string }) {
  const attributes = {
    specversion: '1.0',
    id: fact.id,
    source: fact.source,
    type: `studio.lerian.${fact.source}.${fact.resource}.${fact.event}`,
    time: new Date().toISOString(),
    schemaversion: '1.0.0',
    resourcetype: fact.resource,
    eventtype: fact.event,
    tenantid: fact.tenantId,
    datacontenttype: 'application/json',
  }
  const headers = Object.entries(attributes).map(
    ([name, value]) => [Buffer.from(`ce-${name}`), Buffer.from(value)] as const,
  )
  return {
    topic,
    key: Buffer.from(fact.tenantId),
    value: Buffer.from(JSON.stringify(fact.data)),
    headers: new Map(headers),
  }
}

async function makeTopic(brokers: string[], topic: string): Promise<void> {
  const admin = new Admin({ clientId: 'sample-admin', bootstrapBrokers: brokers })
  try {
    if (!(await admin.listTopics()).includes(topic))
      await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })
  } finally {
    await admin.close()
  }
}
