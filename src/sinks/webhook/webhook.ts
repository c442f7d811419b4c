// The webhook sink: one signed HTTP POST for each attempt. Success is a 2xx whose headers arrive within the destination's
// time-out; everything else is a failure with its class, and nothing is ever thrown at the caller.
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import type { AttemptRequest, Destination, Outcome, ProbeRequest, Sink } from '../sink.ts'
import { bearer } from './auth.ts'
import { ClientAgents } from './client-agents.ts'
import { encodeEvent } from './cloudevents.ts'
import type { ConnectorOptions } from './connector.ts'
import { failed, type Failed } from './failures.ts'
import { messageHeaders, type WebhookMessage } from './headers.ts'
import { createAgent, post, type Answer, type OutboundAgent, type Post } from './post.ts'
import { createPreparation, type Prepared } from './prepare.ts'
import { Tokens, type TokenGrant } from './tokens.ts'
import { createRedaction, withoutSecret } from './redaction.ts'
import { traceHeaders } from './trace.ts'
import { VERIFICATION_EVENT_TYPE, echoes, newChallenge, verificationBody } from './verification.ts'

export interface WebhookSinkOptions extends ConnectorOptions {
  /** For `user-agent: streaming-hub/<version>`. */
  userAgentVersion: string
  log: Log
}

interface Webhook {
  log: Log
  userAgent: string
  agent: OutboundAgent
  clients: ClientAgents
  tokens: Tokens
  prepare: (destination: Destination) => Prepared | Failed
  redact: (outcome: Outcome, destination: Destination) => Outcome
}

export function createWebhookSink(options: WebhookSinkOptions): Sink {
  const { log, allowPrivate, userAgentVersion } = options
  const userAgent = `streaming-hub/${userAgentVersion}`
  const agent = createAgent(options)
  const prepare = createPreparation({ allowPrivate, userAgent })
  const clients = new ClientAgents(options)
  const webhook: Webhook = {
    log,
    userAgent,
    agent,
    clients,
    tokens: new Tokens(agent),
    prepare,
    redact: createRedaction(),
  }
  let closed: Promise<void> | undefined
  return {
    deliver: (attempt, signal) => guarded(webhook, attempt.destination, () => deliver(webhook, attempt, signal)),
    probe: (request, signal) => guarded(webhook, request.destination, () => probe(webhook, request, signal)),
    close: () => (closed ??= close(webhook)),
  }
}

async function close({ tokens, clients, agent }: Webhook): Promise<void> {
  tokens.close()
  await Promise.all([agent.close(), clients.close()])
}

async function deliver(webhook: Webhook, attempt: AttemptRequest, signal: AbortSignal): Promise<Outcome> {
  const { destination, event, attemptId, now } = attempt
  const { headers, body } = encodeEvent(event, destination.contentMode)
  const answer = await send(webhook, destination, {
    message: {
      eventId: event.id,
      eventType: event.key,
      attemptId,
      attempt: attempt.number,
      now,
      headers: { ...headers, ...traceHeaders(event, attemptId) },
      body,
    },
    signal,
  })
  return outcomeOf(answer)
}

async function probe(webhook: Webhook, request: ProbeRequest, signal: AbortSignal): Promise<Outcome> {
  const { destination, attemptId, now } = request
  const challenge = newChallenge()
  const answer = await send(webhook, destination, {
    message: {
      eventId: attemptId,
      eventType: VERIFICATION_EVENT_TYPE,
      attemptId,
      attempt: 1,
      now,
      headers: { 'content-type': 'application/json' },
      body: verificationBody(challenge, destination.subscriptionId),
    },
    signal,
  })
  const outcome = outcomeOf(answer)
  if (outcome.kind === 'failed' || echoes(outcome.response, challenge)) return outcome
  const { status, response } = outcome
  return failed('http_status', 'The answer does not send the challenge back.', { status, response })
}

async function send(
  webhook: Webhook,
  destination: Destination,
  { message, signal }: { message: WebhookMessage; signal: AbortSignal },
): Promise<Answer | Failed> {
  const { timeoutMs, signingKeys } = destination
  const prepared = webhook.prepare(destination)
  if ('kind' in prepared) return prepared
  const { url, grant, identity, headers: own } = prepared
  const headers = messageHeaders({ signingKeys, userAgent: webhook.userAgent, headers: own }, message)
  if (!headers) return failed('invalid_destination', 'There is no valid signing secret.')
  const request = { url, headers, body: message.body, timeoutMs }
  if (grant) return await postWithToken(webhook, { request, grant, now: message.now }, signal)
  const agent = identity ? webhook.clients.agentOf(destination.subscriptionId, identity) : webhook.agent
  if (!agent) return failed('invalid_destination', 'The client certificate cannot be used.')
  return await post(agent, request, signal)
}

/** The token's time counts as the attempt's. */
async function postWithToken(
  { agent, tokens }: Webhook,
  { request, grant, now }: { request: Post; grant: TokenGrant; now: number },
  signal: AbortSignal,
): Promise<Answer | Failed> {
  const started = performance.now()
  const { timeoutMs } = request
  const token = await tokens.get(grant, { now, timeoutMs, signal })
  if (typeof token !== 'string') return token
  const headers = { ...request.headers, authorization: bearer(token) }
  const left = Math.max(1, Math.ceil(timeoutMs - (performance.now() - started)))
  const answer = await post(agent, { ...request, headers, timeoutMs: left }, signal)
  if (answer.kind === 'answer' && answer.status === 401) tokens.forget(grant, token)
  return answer.kind === 'answer' ? { ...answer, body: withoutSecret(answer.body, token) } : answer
}

function outcomeOf(answer: Answer | Failed): Outcome {
  if (answer.kind === 'failed') return answer
  const { status, body: response } = answer
  if (status >= 200 && status < 300) return { kind: 'delivered', status, response }
  if (status >= 300 && status < 400) {
    return failed('redirect', `The answer was a redirect (${status}), which is never followed.`, { status, response })
  }
  const retryAfter = status === 429 || status === 503 ? answer.retryAfter : null
  return failed('http_status', `The answer had the status ${status}.`, { status, response, retryAfter })
}

async function guarded(webhook: Webhook, destination: Destination, run: () => Promise<Outcome>): Promise<Outcome> {
  const { subscriptionId: subscription_id, tenantId: tenant_id } = destination
  try {
    const outcome = webhook.redact(await run(), destination)
    const refused = outcome.kind === 'failed' && outcome.errorClass === 'refused_address'
    if (refused) webhook.log.warn({ subscription_id, tenant_id }, 'a webhook led to a refused address')
    return outcome
  } catch (error) {
    webhook.log.error({ subscription_id, tenant_id, error: messageOf(error) }, 'a webhook attempt threw')
    return failed('internal', 'The hub failed to make the request.')
  }
}
