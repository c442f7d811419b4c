// How the hub gets to the brokers and is let in: TLS with the authorities that it trusts, and a login by password or by token.
import type { SASLOptions } from '@platformatic/kafka'
import { readAuthorities } from '../base/authorities.ts'
import type { Clock } from '../base/clock.ts'
import { tokenSource, type BrokerCredentials, type TokenSource } from './token-source.ts'
import type { KafkaConnection } from './wire.ts'

export interface KafkaAccess {
  /** `host:port`. */
  brokers: readonly string[]
  clientId: string
  tlsEnabled: boolean
  /** PEM text, or the path of a PEM file: trusted beside the public authorities. */
  caCert: string | null
  sasl: { mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512' | 'PLAIN'; username: string; password: string } | null
  /** For OAUTHBEARER, in place of `sasl`. */
  oauth: BrokerCredentials | null
}

/** Opens nothing yet. Rejects with one sentence when the authority's certificate cannot be read. */
export async function kafkaConnection(access: KafkaAccess, clock: Clock): Promise<KafkaConnection> {
  const authorities = access.caCert === null ? undefined : await readAuthorities(access.caCert, "Kafka brokers'")
  const trust = authorities && { ca: authorities }
  return {
    brokers: access.brokers,
    clientId: access.clientId,
    sasl: access.sasl ?? (access.oauth ? bearer(tokenSource(access.oauth, { clock, authorities })) : undefined),
    tls: access.tlsEnabled ? (trust ?? {}) : undefined,
  }
}

function bearer(tokens: TokenSource): SASLOptions {
  return {
    mechanism: 'OAUTHBEARER',
    token: () => tokens.token(),
    // A broker refuses a token inside an answer that is no error: its bytes are empty where the token was taken (RFC 7628, 3.2).
    authBytesValidator: (answer, callback) => {
      if (answer.length === 0) return callback(null, answer)
      tokens.forget()
      callback(new Error(`the token is refused (${refusal(answer)})`))
    },
  }
}

function refusal(answer: Buffer): string {
  try {
    const { status } = JSON.parse(answer.toString()) as { status?: unknown }
    return typeof status === 'string' ? status.slice(0, 100) : 'without a reason'
  } catch {
    return 'without a reason'
  }
}
