// Tokens for SASL/OAUTHBEARER, by OAuth 2.0's client credentials grant (RFC 6749, 4.4). One token serves all connections until
// most of its lifetime is over; a broker asks for the next one by ending the session, and one that cannot be renewed is used
// as long as it is valid. Errors name the endpoint and what it answered, never the secret, a token or the answer's text.
import { Agent, request } from 'undici'
import { tokenIn, tokenRequest, type ClientCredentials } from '../base/client-credentials.ts'
import type { Clock } from '../base/clock.ts'

export interface BrokerCredentials extends ClientCredentials {
  tokenUrl: string
}

export interface TokenSourceParts {
  clock: Clock
  /** PEM certificates to trust; undefined: Node's own. */
  authorities?: string[] | undefined
}

/** Says from where no token could be had; its cause says why. */
export class TokenError extends Error {
  override readonly name = 'TokenError'
}

export interface TokenSource {
  /** The token that is valid now. Rejects with a `TokenError` when there is none to be had. */
  token: () => Promise<string>
  /** A broker has refused what it was shown: the next one is fetched anew. */
  forget: () => void
}

interface Token {
  text: string
  /** Epoch ms. */
  renewAt: number
  expiresAt: number
}

/** A connection to a broker waits for it, and is given up after five seconds. */
const ANSWER_MS = 4_000
const MOST_BYTES = 64 << 10
/** The share of a token's lifetime after which a new one is fetched: before the client logs in anew, which it does after 0.8. */
const RENEW_AFTER = 0.7

/** Asks for nothing before the first token is needed. */
export function tokenSource(credentials: BrokerCredentials, parts: TokenSourceParts): TokenSource {
  let held: Token | null = null
  let fetching: Promise<Token> | null = null
  const token = async (): Promise<string> => {
    const { clock } = parts
    if (held !== null && clock.now() < held.renewAt) return held.text
    try {
      fetching ??= fetchToken(credentials, parts).finally(() => {
        fetching = null
      })
      held = await fetching
    } catch (error) {
      if (held === null || clock.now() >= held.expiresAt) throw error
    }
    return held.text
  }
  const forget = (): void => {
    held = null
  }
  return { token, forget }
}

async function fetchToken(credentials: BrokerCredentials, { clock, authorities }: TokenSourceParts): Promise<Token> {
  const { tokenUrl } = credentials
  const agent = new Agent({ connect: authorities ? { ca: authorities } : {}, maxResponseSize: MOST_BYTES })
  const asked = clock.now()
  try {
    const { statusCode: status, body } = await request(tokenUrl, {
      dispatcher: agent,
      method: 'POST',
      ...tokenRequest(credentials),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    const { text, lifetimeMs } = tokenIn({ status, text: await body.text() })
    const lifetime = lifetimeMs ?? 0
    return { text, renewAt: asked + lifetime * RENEW_AFTER, expiresAt: asked + lifetime }
  } catch (error) {
    throw new TokenError(`no token can be had from ${new URL(tokenUrl).host}`, { cause: error })
  } finally {
    await agent.destroy()
  }
}
