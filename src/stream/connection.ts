// How the hub gets to the brokers and is let in: TLS with the authorities that it trusts, and a login by password or by token.
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { rootCertificates } from 'node:tls'
import type { SASLOptions } from '@platformatic/kafka'
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { tokenSource, type ClientCredentials, type TokenSource } from './token-source.ts'
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
  oauth: ClientCredentials | null
}

/** Opens nothing yet. Rejects with one sentence when the authority's certificate cannot be read. */
export async function kafkaConnection(access: KafkaAccess, clock: Clock): Promise<KafkaConnection> {
  const authorities = access.caCert === null ? undefined : [...rootCertificates, ...(await certificates(access.caCert))]
  const trust = authorities && { ca: authorities }
  return {
    brokers: access.brokers,
    clientId: access.clientId,
    sasl: access.sasl ?? (access.oauth ? bearer(tokenSource(access.oauth, { clock, authorities })) : undefined),
    tls: access.tlsEnabled ? (trust ?? {}) : undefined,
  }
}

/** TLS takes anything for an authority, and ignores what is none: better not to start. */
async function certificates(given: string): Promise<string[]> {
  const isText = given.includes('-----BEGIN ')
  try {
    const blocks = (isText ? given : await readFile(given, 'utf8')).match(PEM_CERTIFICATE) ?? []
    if (blocks.length === 0) throw new Error('there is no PEM certificate in it')
    return blocks.map((block) => new X509Certificate(block).toString())
  } catch (error) {
    const where = isText ? '' : ` in ${given}`
    throw new Error(`The certificate of the Kafka brokers' authority${where} cannot be used: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

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
