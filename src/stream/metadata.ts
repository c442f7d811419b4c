// What the cluster consists of, read in one request: brokers, and every topic with its id, partitions and their leaders. A topic
// with an error is kept beside the others: the broker's answer about it is part of the view, not a failure of the reading.
import type { Broker, metadataV12 } from '@platformatic/kafka'
import { nameOf, responseIn } from './kafka-error.ts'
import type { Wire } from './wire.ts'

export interface TopicView {
  name: string
  /** Changes when a topic is deleted and made again under the same name. */
  id: string
  /** The leading broker of each partition, by partition; null where there is none at the moment. */
  leaders: (number | null)[]
  /** What the broker says is wrong with the topic or one of its partitions; null when all is well. */
  problem: string | null
}

export interface ClusterView {
  brokers: ReadonlyMap<number, Broker>
  topics: ReadonlyMap<string, TopicView>
}

export const emptyView: ClusterView = { brokers: new Map(), topics: new Map() }

/** Asks the first of `brokers` that can be reached. Rejects when none can, or when the answer is unusable as a whole. */
export async function readCluster(wire: Wire, brokers: Broker[]): Promise<ClusterView> {
  const response = await wire.callAny(brokers, 'Metadata', [null, false, false]).catch((error: unknown) => {
    const partial = responseIn(error, 'Metadata')
    if (partial === null) throw error
    return partial
  })
  return {
    brokers: new Map(response.brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }])),
    topics: new Map(response.topics.map(viewOf).map((topic) => [topic.name, topic])),
  }
}

function viewOf(topic: metadataV12.MetadataResponseTopic): TopicView {
  const leaders: (number | null)[] = []
  for (const partition of topic.partitions) {
    leaders[partition.partitionIndex] = partition.leaderId < 0 ? null : partition.leaderId
  }
  // A broker that does not know topic ids (before Kafka 2.8) leaves the name to stand for it.
  return { name: topic.name ?? '', id: topic.topicId ?? topic.name ?? '', leaders, problem: problemOf(topic) }
}

function problemOf(topic: metadataV12.MetadataResponseTopic): string | null {
  if (topic.errorCode !== 0) return nameOf(topic.errorCode)
  const broken = topic.partitions.find((partition) => partition.errorCode !== 0)
  return broken === undefined ? null : `partition ${broken.partitionIndex}: ${nameOf(broken.errorCode)}`
}
