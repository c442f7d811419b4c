// The grammar of topic names: `lerian.streaming.<source>` carries facts, with `.dlq` behind it the producers' dead letters, with
// `.commands` what the hub never reads. A source is one segment without dots, so no name can be read in two ways.
import { isSource } from '../event/source.ts'

const PREFIX = 'lerian.streaming.'
const DEAD_LETTERS = '.dlq'
const COMMANDS = '.commands'

/** The `<source>` of a fact topic; null for every other name, `.dlq` and `.commands` among them. */
export function factSource(topic: string): string | null {
  if (!topic.startsWith(PREFIX)) return null
  const source = topic.slice(PREFIX.length)
  return isSource(source) ? source : null
}

/** The `<source>` of a topic that holds a producer's dead letters; null for every other name. */
export function deadLetterSource(topic: string): string | null {
  return topic.endsWith(DEAD_LETTERS) ? factSource(topic.slice(0, -DEAD_LETTERS.length)) : null
}

/** The topic that holds the dead letters of the facts of `topic`. */
export function deadLetterTopic(topic: string): string {
  return `${topic}${DEAD_LETTERS}`
}

/** The `<source>` of a topic of commands; null for every other name. */
export function commandsSource(topic: string): string | null {
  return topic.endsWith(COMMANDS) ? factSource(topic.slice(0, -COMMANDS.length)) : null
}
