// Every kind of sink that there is, by its name: the only place that knows them all.
import type { SinkSettings } from '../event/subscription.ts'
import type { Sink } from './sink.ts'
import { createWebhookSink, type WebhookSinkOptions } from './webhook/webhook.ts'

export type Sinks = Readonly<Record<SinkSettings['kind'], Sink>>

export function createSinks(options: { webhook: WebhookSinkOptions }): Sinks {
  return { webhook: createWebhookSink(options.webhook) }
}

/** Lets the idle connections of all sinks go. */
export async function closeSinks(sinks: Sinks): Promise<void> {
  await Promise.all(Object.values(sinks).map((sink) => sink.close()))
}
