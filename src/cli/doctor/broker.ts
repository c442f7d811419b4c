// Kafka: can it be reached and logged in to, are there topics of facts, may they be read and the groups joined, and have the producers'
// dead letters somewhere to go.
import { systemClock } from '../../base/clock.ts'
import type { Config } from '../../config.ts'
import { examineAccess } from '../../stream/access.ts'
import type { Access } from '../../stream/access.ts'
import { kafkaConnection } from '../../stream/connection.ts'
import { fail, ok, warn, type Check, type Finding } from './finding.ts'

const ANSWER_MS = 5_000
const NAMED = 5

export function brokerCheck({ kafka, role }: Config): Check {
  return {
    name: 'broker',
    advice: 'see STREAMING_HUB_KAFKA_BROKERS, and the login and TLS that go with it',
    run: async () => {
      if (role === 'delivery') return [ok('broker', 'not needed in the role delivery')]
      if (kafka.brokers === null) return [ok('broker', 'the development broker, which starts with the hub')]
      const access = { ...kafka, brokers: kafka.brokers, clientId: 'streaming-hub doctor' }
      const connection = await kafkaConnection(access, systemClock)
      return findings(await examineAccess(connection, [kafka.group, kafka.dlqGroup], ANSWER_MS))
    },
  }
}

function findings({ brokers, topics, unreadable, forbiddenGroups }: Access): Finding[] {
  const facts = topics.filter(({ kind }) => kind === 'facts')
  const ours = topics.filter(({ kind }) => kind === 'facts' || kind === 'dead_letters')
  const of = (room: string): string[] =>
    facts.filter(({ deadLetters }) => deadLetters === room).map(({ topic }) => topic)
  const sick = ours.filter(({ state }) => state === 'sick')
  const found: Finding[] = [ok('broker', `${brokers} of them`)]
  if (facts.length === 0)
    found.push(
      warn(
        'topics',
        'there is none of the form lerian.streaming.<source>, or an ACL hides them',
        'make them, and allow DESCRIBE and READ on the prefix lerian.streaming.',
      ),
    )
  else found.push(ok('topics', `${facts.length} with facts, ${ours.length - facts.length} with dead letters`))
  if (sick.length > 0)
    found.push(
      fail('topics', `sick: ${named(sick.map(({ topic, problem }) => `${topic} (${problem})`))}`, 'ask who runs Kafka'),
    )
  if (unreadable.length > 0)
    found.push(fail('topics', `may not be read: ${named(unreadable)}`, 'allow READ on the prefix lerian.streaming.'))
  if (of('missing').length > 0)
    found.push(
      warn(
        'dead letters',
        `nowhere to go for ${named(of('missing'))}`,
        'make <topic>.dlq, with the same max.message.bytes',
      ),
    )
  if (of('too_small').length > 0)
    found.push(
      warn('dead letters', `too small a topic for ${named(of('too_small'))}`, 'raise max.message.bytes of <topic>.dlq'),
    )
  if (forbiddenGroups.length > 0)
    found.push(fail('groups', `may not be joined: ${forbiddenGroups.join(', ')}`, 'allow READ on these groups'))
  else found.push(ok('groups', 'may be joined'))
  return found
}

function named(names: readonly string[]): string {
  const more = names.length - NAMED
  return names.slice(0, NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
