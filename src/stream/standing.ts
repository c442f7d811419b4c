// How each topic stands, from what the streams and the broker say of it: read or not, well or sick, and for a producing application
// whether its dead letters have somewhere to go. Pure; the reconciler looks again and again.
import type { TopicStanding } from './stream.ts'
import { commandsSource, deadLetterSource, deadLetterTopic, factSource } from './topics.ts'

type TopicKind = 'facts' | 'dead_letters' | 'commands' | 'other'

/** `missing`: there is no such topic; `too_small`: it takes smaller messages than the topic of the facts; `unknown`: a limit cannot be read. */
type DeadLetterRoom = 'ok' | 'missing' | 'too_small' | 'unknown'

export interface TopicReport extends Omit<TopicStanding, 'state'> {
  kind: TopicKind
  /** `ignored`: in the grammar, and never read; the others as the stream says it. */
  state: TopicStanding['state'] | 'ignored'
  /** The topic's `max.message.bytes`; null where it is not known. */
  maxMessageBytes: number | null
  /** Null for what is no topic of facts. */
  deadLetters: DeadLetterRoom | null
}

export interface TopicsSeen {
  /** What the stream of the facts says, and that of the dead letters: each names all of the broker's topics. */
  facts: readonly TopicStanding[]
  deadLetters: readonly TopicStanding[]
  /** `max.message.bytes` by topic, as far as it is known. */
  limits: ReadonlyMap<string, number>
}

/** One report for each topic, sorted by name. */
export function reportsOf({ facts, deadLetters, limits }: TopicsSeen): TopicReport[] {
  const mine = deadLetters.filter(({ topic }) => kindOf(topic) === 'dead_letters')
  const others = facts.filter(({ topic }) => kindOf(topic) !== 'dead_letters')
  const names = new Set(mine.map(({ topic }) => topic))
  return [...mine, ...others]
    .map((standing): TopicReport => {
      const kind = kindOf(standing.topic)
      return {
        ...standing,
        kind,
        state: kind === 'commands' ? 'ignored' : standing.state,
        maxMessageBytes: limits.get(standing.topic) ?? null,
        deadLetters: kind === 'facts' ? roomOf(standing.topic, names, limits) : null,
      }
    })
    .sort((a, b) => (a.topic < b.topic ? -1 : 1))
}

/** What an operator has to be told of, as a sentence and its reason. */
export function findingsOf(reports: readonly TopicReport[]): Map<string, string> {
  const findings = new Map<string, string>()
  for (const report of reports) {
    const { topic, problem, deadLetters } = report
    if (report.state === 'sick') findings.set(`the topic ${topic} is sick`, problem ?? 'the broker does not say why')
    if (deadLetters === 'missing')
      findings.set(
        `the topic ${topic} has none for its dead letters`,
        `there is no ${deadLetterTopic(topic)}, or it is hidden`,
      )
    if (deadLetters === 'too_small')
      findings.set(
        `not every record of the topic ${topic} fits among its dead letters`,
        `${deadLetterTopic(topic)} has a smaller max.message.bytes`,
      )
  }
  return findings
}

function kindOf(topic: string): TopicKind {
  if (factSource(topic) !== null) return 'facts'
  if (deadLetterSource(topic) !== null) return 'dead_letters'
  return commandsSource(topic) === null ? 'other' : 'commands'
}

function roomOf(topic: string, names: ReadonlySet<string>, limits: ReadonlyMap<string, number>): DeadLetterRoom {
  const other = deadLetterTopic(topic)
  if (!names.has(other)) return 'missing'
  const [needed, given] = [limits.get(topic), limits.get(other)]
  if (needed === undefined || given === undefined) return 'unknown'
  return given < needed ? 'too_small' : 'ok'
}
