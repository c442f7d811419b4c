// What the brokers let us do, found out without doing it: the topics as they stand, those that we may not read, and the groups that we
// may not join. Nothing is read, joined or committed.
import { parseBroker } from '@platformatic/kafka'
import { code, hasCode, responseIn } from './kafka-error.ts'
import { readCluster, type ClusterView } from './metadata.ts'
import { reportsOf, type TopicReport } from './standing.ts'
import type { TopicStanding } from './stream.ts'
import { deadLetterSource, factSource } from './topics.ts'
import { readTopicLimits } from './topic-limits.ts'
import { whyUnreachable } from './unreachable.ts'
import { Wire, type KafkaConnection } from './wire.ts'

export interface Access {
  brokers: number
  topics: TopicReport[]
  unreadable: string[]
  /** Groups that we may not join, or not even see. */
  forbiddenGroups: string[]
}

/** In a topic's or a group's authorized operations. */
const READ = 1 << 3
const GROUP_KEY = 0

/** Rejects with one sentence when no broker answers within `timeoutMs`. */
export async function examineAccess(
  connection: KafkaConnection,
  groups: readonly string[],
  timeoutMs: number,
): Promise<Access> {
  const wire = new Wire(connection, timeoutMs)
  const brokers = connection.brokers.map((broker) => parseBroker(broker))
  try {
    const view = await readCluster(wire, brokers)
    const readable = await readableTopics(wire, brokers)
    const names = [...view.topics.keys()].filter((name) => factSource(name) ?? deadLetterSource(name))
    const limits = await readTopicLimits(wire, connection.brokers, names).catch(() => new Map<string, number>())
    const forbidden = await Promise.all(groups.map((group) => isForbidden(wire, brokers, group)))
    return {
      brokers: view.brokers.size,
      topics: reportsOf({
        facts: standings(view, (name) => factSource(name) !== null),
        deadLetters: standings(view, (name) => deadLetterSource(name) !== null),
        limits,
      }),
      unreadable: names.filter((name) => !readable.has(name)),
      forbiddenGroups: groups.filter((_, at) => forbidden[at]),
    }
  } catch (error) {
    throw new Error(whyUnreachable(error, { ...wire.wayIn, proven: false }), { cause: error })
  } finally {
    await wire.close().catch(() => undefined)
  }
}

function standings(view: ClusterView, accepts: (topic: string) => boolean): TopicStanding[] {
  return [...view.topics.values()].map(({ name, problem, leaders }) => ({
    topic: name,
    state: accepts(name) ? (problem === null ? 'subscribed' : 'sick') : 'foreign',
    problem: accepts(name) ? problem : null,
    partitions: leaders.length,
  }))
}

type Brokers = ReturnType<typeof parseBroker>[]

async function readableTopics(wire: Wire, brokers: Brokers): Promise<Set<string>> {
  const response = await wire.callAny(brokers, 'Metadata', [null, false, true]).catch((error: unknown) => {
    const partial = responseIn(error, 'Metadata')
    if (partial === null) throw error
    return partial
  })
  return new Set(
    response.topics.filter((topic) => includesRead(topic.topicAuthorizedOperations)).map(({ name }) => name ?? ''),
  )
}

/** A broker that does not tell says the least number that there is: then nothing speaks against it. */
function includesRead(operations: number): boolean {
  return operations === -2_147_483_648 || (operations & READ) !== 0
}

/** A heartbeat of a member that does not exist: who may join is told that, and who may not is told so. */
async function isForbidden(wire: Wire, brokers: Brokers, group: string): Promise<boolean> {
  try {
    const { coordinators } = await wire.callAny(brokers, 'FindCoordinator', [GROUP_KEY, [group]])
    const [coordinator] = coordinators
    if (!coordinator) return false
    await wire.call({ host: coordinator.host, port: coordinator.port }, 'Heartbeat', [group, 0, 'doctor', null])
    return false
  } catch (error) {
    return hasCode(error, code.GROUP_AUTHORIZATION_FAILED)
  }
}
