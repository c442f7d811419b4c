// A real broker behind TLS and a login, with every mechanism that the hub knows; tokens it verifies by their issuer's public key.
// Certificate, key and users are made on the spot.
import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { Admin, alterUserScramCredentialsV0, ScramMechanisms } from '@platformatic/kafka'
import { startKafka } from '../../dev/kafka.ts'
import { selfSigned } from './certificate.ts'
import { AUDIENCE, ISSUER, type TokenIssuer } from './token-issuer.ts'

export interface SecureKafka extends AsyncDisposable {
  /** Where TLS and a login are needed, and where they are not. */
  secure: string
  open: string
  /** Where there is TLS and no login. */
  tlsOnly: string
  /** As `secure`, but with a certificate that has run out; with PLAIN alone; and one that sends its clients to a name that nobody has. */
  expired: string
  plainOnly: string
  astray: string
  /** The authority that signed the broker's certificate; PEM. */
  authority: string
  expiredAuthority: string
  /** Of the user `hub`, by PLAIN. */
  plainPassword: string
  admin: Admin
  /** Makes a user of SCRAM, or gives it another password. */
  setScramUser(name: string, password: string): Promise<void>
}

export async function secureKafka(issuer: TokenIssuer): Promise<SecureKafka> {
  const { cert, key } = selfSigned('kafka.test')
  const expired = selfSigned('kafka.test', [2020, 2021])
  const plainPassword = randomBytes(16).toString('hex')
  const kafka = await startKafka({
    listeners: {
      SECURE: { protocol: 'SASL_SSL' },
      TLS: { protocol: 'SSL' },
      EXPIRED: { protocol: 'SASL_SSL' },
      PLAINONLY: { protocol: 'SASL_SSL' },
      ASTRAY: { protocol: 'SASL_SSL', advertisedHost: 'astray.invalid' },
    },
    properties: {
      ...keyStore('', { cert, key }),
      ...keyStore('listener.name.expired.', expired),
      ...logins({ plainPassword, jwksUrl: issuer.jwksUrl }),
      'listener.name.plainonly.sasl.enabled.mechanisms': 'PLAIN',
    },
    javaFlags: [`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${issuer.jwksUrl}`],
  })
  const [open = ''] = kafka.brokers
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: [open] })
  return {
    secure: kafka.listeners['SECURE'] ?? '',
    open,
    tlsOnly: kafka.listeners['TLS'] ?? '',
    expired: kafka.listeners['EXPIRED'] ?? '',
    plainOnly: kafka.listeners['PLAINONLY'] ?? '',
    astray: kafka.listeners['ASTRAY'] ?? '',
    authority: cert,
    expiredAuthority: expired.cert,
    plainPassword,
    admin,
    setScramUser: async (name, password) => {
      const [connection] = (await admin.connectToBrokers(null)).values()
      if (connection === undefined) throw new Error('there is no broker')
      // The broker takes one change of a user in one request.
      for (const one of credentials(name, password)) {
        await alterUserScramCredentialsV0.api.async(connection, [], [one])
      }
    },
    [Symbol.asyncDispose]: async () => {
      await admin.close()
      await kafka.stop()
    },
  }
}

const CLASSES = 'org.apache.kafka.common.security'

function keyStore(listener: string, { cert, key }: { cert: string; key: string }): Record<string, string> {
  return {
    [`${listener}ssl.keystore.type`]: 'PEM',
    [`${listener}ssl.keystore.certificate.chain`]: inOneLine(cert),
    [`${listener}ssl.keystore.key`]: inOneLine(key),
  }
}

function logins(given: { plainPassword: string; jwksUrl: string }): Record<string, string> {
  const onEach = ['secure', 'expired', 'plainonly', 'astray'].flatMap((listener) =>
    Object.entries(loginsAt(`listener.name.${listener}`, given.plainPassword)),
  )
  return {
    ...Object.fromEntries(onEach),
    'sasl.enabled.mechanisms': 'SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER',
    // Sessions end, and with them those whose token has run out.
    'connections.max.reauth.ms': '3600000',
    // The validator that Kafka takes by default looks at no signature.
    'sasl.oauthbearer.jwt.validator.class': `${CLASSES}.oauthbearer.BrokerJwtValidator`,
    'sasl.oauthbearer.jwks.endpoint.url': given.jwksUrl,
    'sasl.oauthbearer.expected.audience': AUDIENCE,
    'sasl.oauthbearer.expected.issuer': ISSUER,
  }
}

function loginsAt(listener: string, plainPassword: string): Record<string, string> {
  return {
    [`${listener}.scram-sha-256.sasl.jaas.config`]: `${CLASSES}.scram.ScramLoginModule required;`,
    [`${listener}.scram-sha-512.sasl.jaas.config`]: `${CLASSES}.scram.ScramLoginModule required;`,
    [`${listener}.plain.sasl.jaas.config`]: `${CLASSES}.plain.PlainLoginModule required user_hub="${plainPassword}";`,
    [`${listener}.oauthbearer.sasl.jaas.config`]: `${CLASSES}.oauthbearer.OAuthBearerLoginModule required;`,
    [`${listener}.oauthbearer.sasl.server.callback.handler.class`]: `${CLASSES}.oauthbearer.OAuthBearerValidatorCallbackHandler`,
  }
}

/** As a file of properties takes it. */
function inOneLine(pem: string): string {
  return pem.replaceAll('\n', '\\n')
}

const ITERATIONS = 4_096

function credentials(name: string, password: string) {
  const salt = randomBytes(16)
  const { SCRAM_SHA_256, SCRAM_SHA_512 } = ScramMechanisms
  return [
    { mechanism: SCRAM_SHA_256, digest: 'sha256', bytes: 32 },
    { mechanism: SCRAM_SHA_512, digest: 'sha512', bytes: 64 },
  ].map(({ mechanism, digest, bytes }) => ({
    name,
    mechanism,
    iterations: ITERATIONS,
    salt,
    saltedPassword: pbkdf2Sync(password, salt, ITERATIONS, bytes, digest),
  }))
}
