// Tokens for SASL/OAUTHBEARER, by OAuth 2.0's client credentials grant (RFC 6749, 4.4). One token serves all connections until
// most of its lifetime is over; a broker asks for the next one by ending the session, and one that cannot be renewed is used
// as long as it is valid. Errors name the endpoint and what it answered, never the secret, a token or the answer's text.
import { Agent, request } from 'undici'
import type { Clock } from '../base/clock.ts'

export interface ClientCredentials {
  tokenUrl: string
  clientId: string
  clientSecret: string
  scope: string | null
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
export function tokenSource(credentials: ClientCredentials, parts: TokenSourceParts): TokenSource {
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

async function fetchToken(credentials: ClientCredentials, { clock, authorities }: TokenSourceParts): Promise<Token> {
  const { tokenUrl, clientId, clientSecret, scope } = credentials
  const agent = new Agent({ connect: authorities ? { ca: authorities } : {}, maxResponseSize: MOST_BYTES })
  const asked = clock.now()
  try {
    const { statusCode, body } = await request(tokenUrl, {
      dispatcher: agent,
      method: 'POST',
      headers: {
        accept: 'application/json',
        authorization: `Basic ${Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ grant_type: 'client_credentials', ...(scope !== null && { scope }) }).toString(),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    return tokenIn(await body.text(), { statusCode, asked })
  } catch (error) {
    throw new TokenError(`no token can be had from ${new URL(tokenUrl).host}`, { cause: error })
  } finally {
    await agent.destroy()
  }
}

function tokenIn(text: string, { statusCode, asked }: { statusCode: number; asked: number }): Token {
  const answer = parsed(text)
  const { access_token: token, expires_in: seconds, error } = answer
  const reason = typeof error === 'string' && /^[a-z_]{1,50}$/.test(error) ? ` (${error})` : ''
  if (statusCode !== 200) throw new Error(`it answers ${statusCode}${reason}`)
  // A token travels between control characters: one that holds any would be taken for something else.
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) throw new Error('its answer holds no access_token')
  const lifetime = typeof seconds === 'number' && seconds > 0 ? seconds * 1_000 : 0
  return { text: token, renewAt: asked + lifetime * RENEW_AFTER, expiresAt: asked + lifetime }
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1)
}
