// An issuer of JSON Web Tokens: its keys over HTTP, as a test wants them to be served, and tokens signed with any of them.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose'

export interface KeyServer extends AsyncDisposable {
  url: string
  issuer: string
  /** How often the keys were asked for. */
  asked: number
  /** Answers this in place of the keys. */
  instead: { status: number; body: string } | null
  /** Makes the keys that are served, and signed with, another pair. */
  rotate(): Promise<void>
  /** A token of the newest key; a claim that is undefined is left out. */
  sign(claims: JWTPayload, given?: { header?: object; key?: CryptoKey | Uint8Array; alg?: string }): Promise<string>
  publicJwk(): JWK
}

export const AUDIENCE = 'streaming-hub'

/** `now` is in epoch ms; tokens are valid for five minutes from then on, unless their claims say otherwise. */
export async function keyServer(now: () => number): Promise<KeyServer> {
  let kid = 0
  let current: { jwk: JWK; privateKey: CryptoKey }
  const server = createServer((_request, response) => {
    keys.asked++
    const { status, body } = keys.instead ?? { status: 200, body: JSON.stringify({ keys: [current.jwk] }) }
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const keys: KeyServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
    issuer: 'https://id.example',
    asked: 0,
    instead: null,
    rotate: async () => {
      const { publicKey, privateKey } = await generateKeyPair('ES256')
      current = { jwk: { ...(await exportJWK(publicKey)), kid: String(++kid), alg: 'ES256', use: 'sig' }, privateKey }
    },
    publicJwk: () => current.jwk,
    sign: async (claims, { header = {}, key = current.privateKey, alg = 'ES256' } = {}) => {
      const seconds = Math.floor(now() / 1000)
      const usual = { iss: keys.issuer, aud: AUDIENCE, sub: 'ada', exp: seconds + 300, tenant_id: 'acme' }
      const payload = JSON.parse(JSON.stringify({ ...usual, ...claims })) as JWTPayload
      return await new SignJWT(payload).setProtectedHeader({ alg, kid: current.jwk.kid!, ...header }).sign(key)
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  await keys.rotate()
  return keys
}
