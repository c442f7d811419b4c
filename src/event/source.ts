// A source is the producing application's name: one lower-case segment, which is also the last segment of its topic.

const SOURCE = /^[a-z0-9][a-z0-9_-]{0,222}$/

/** Whether `text` may stand as a producing application's name: at most 223 bytes, so that its topics' names fit in Kafka's 249. */
export function isSource(text: string): boolean {
  return SOURCE.test(text)
}

/** The topic that carries the facts of `source`. */
export function factTopic(source: string): string {
  return `lerian.streaming.${source}`
}
