// An OAuth issuer that gives signed tokens by the client credentials grant, and shows the public key that they are verified by.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'

export const AUDIENCE = 'kafka'
export const ISSUER = 'https://issuer.test'

export interface TokenIssuer extends AsyncDisposable {
  tokenUrl: string
  jwksUrl: string
  /** What the next tokens are like. */
  next: { lifetimeSeconds: number; audience: string }
  /** The client's secret that it takes, and how many tokens it has given. */
  secret: string
  issued: number
  /** Answers with this in place of a token. */
  instead: { status: number; body: string } | null
}

/** Gives tokens to the client `hub`, by the client credentials grant. */
export async function tokenIssuer(): Promise<TokenIssuer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'test', alg: 'ES256', use: 'sig' }
  const server = createServer((request, response) => void answer(request, response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const issuer: TokenIssuer = {
    tokenUrl: `${url}/token`,
    jwksUrl: `${url}/keys`,
    next: { lifetimeSeconds: 3_600, audience: AUDIENCE },
    secret: randomBytes(16).toString('hex'),
    issued: 0,
    instead: null,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.setHeader('content-type', 'application/json')
    if (request.url === '/keys') return void response.end(JSON.stringify({ keys: [jwk] }))
    if (issuer.instead) return void response.writeHead(issuer.instead.status).end(issuer.instead.body)
    const form = new URLSearchParams(await text(request))
    const expected = `Basic ${Buffer.from(`hub:${issuer.secret}`).toString('base64')}`
    if (request.headers.authorization !== expected || form.get('grant_type') !== 'client_credentials') {
      return void response.writeHead(401).end(JSON.stringify({ error: 'invalid_client' }))
    }
    issuer.issued++
    const { lifetimeSeconds, audience } = issuer.next
    const token = await new SignJWT({ scope: form.get('scope') ?? '' })
      .setProtectedHeader({ alg: 'ES256', kid: 'test' })
      .setSubject('hub')
      .setIssuer(ISSUER)
      .setAudience(audience)
      .setIssuedAt()
      // In whole seconds, and never less than what is promised.
      .setExpirationTime(Math.ceil(Date.now() / 1_000) + lifetimeSeconds)
      .sign(privateKey)
    response.end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: lifetimeSeconds }))
  }
  return issuer
}
