// OAuth 2.0's client credentials grant (RFC 6749, 4.4) as the two texts that it consists of: what is asked of a token endpoint, and
// what is found in its answer. Who sends them over which connection is somebody else's matter. What is thrown names no secret, and
// nothing of an answer but its status and its standard error code.

export interface ClientCredentials {
  clientId: string
  clientSecret: string
  scope: string | null
  /** For endpoints that ask for whom the token is; not in the RFC, and widely used. */
  audience?: string | null
  /** Where the client's secret goes: into the `authorization` header unless it is said otherwise. */
  authMethod?: 'client_secret_basic' | 'client_secret_post'
}

export interface AccessToken {
  text: string
  /** Null: the answer did not say. */
  lifetimeMs: number | null
}

/** More than servers take in one header is no use. */
const MAX_TOKEN_LENGTH = 8 * 1024

/** The headers and the body of the POST that asks for a token. */
export function tokenRequest(credentials: ClientCredentials): { headers: Record<string, string>; body: string } {
  const { clientId, clientSecret, scope, audience = null, authMethod = 'client_secret_basic' } = credentials
  const inBody = authMethod === 'client_secret_post'
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    ...(inBody && { client_id: clientId, client_secret: clientSecret }),
    ...(scope !== null && { scope }),
    ...(audience !== null && { audience }),
  })
  const basic = Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64')
  return {
    headers: {
      accept: 'application/json',
      ...(!inBody && { authorization: `Basic ${basic}` }),
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: form.toString(),
  }
}

/** The bearer token of an answer. Throws one sentence without a capital when there is none that a header could carry. */
export function tokenIn(answer: { status: number; text: string }): AccessToken {
  const { access_token: token, token_type: type = 'bearer', expires_in: seconds, error } = parsed(answer.text)
  const reason = typeof error === 'string' && /^[a-z_]{1,50}$/.test(error) ? ` (${error})` : ''
  if (answer.status !== 200) throw new Error(`it answers ${answer.status}${reason}`)
  // In a header, or between control characters: a token that holds any would be taken for something else.
  if (typeof token !== 'string' || token.length > MAX_TOKEN_LENGTH || !/^[\x21-\x7e]+$/.test(token))
    throw new Error('its answer holds no access_token')
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') throw new Error('its token is no bearer token')
  return { text: token, lifetimeMs: lifetimeMs(seconds) }
}

/** Some endpoints write the number as a text. */
function lifetimeMs(seconds: unknown): number | null {
  const number = typeof seconds === 'string' && /^\d{1,15}$/.test(seconds) ? Number(seconds) : seconds
  return typeof number === 'number' && Number.isFinite(number) ? Math.max(0, number * 1_000) : null
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
