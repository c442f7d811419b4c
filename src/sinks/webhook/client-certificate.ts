// The certificate by which a webhook's TLS connections show the receiver who sends (mutual TLS): judged when it is registered, by the
// very library that will use it, and turned into what a connection needs. No fault repeats any part of a key.
import { X509Certificate, createPrivateKey, type KeyObject } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { SECRET_MASK } from '../../event/sink-secrets.ts'

/** All in PEM. */
export interface ClientIdentity {
  /** The hub's own first, then those that lead from it to its authority. */
  certificate: string
  privateKey: string
  /** The authorities that the receiver's certificate is trusted by; null: the public ones. */
  authorities: string | null
}

const MAX_CERTIFICATES = 20
/** Only what base64 has, so that a text that begins many and ends none is read once. */
const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g

/** What is wrong with it at `now` (epoch ms), with where. A key that is masked is judged as the one that was let in before. */
export function identityFaults(identity: ClientIdentity, now: number): { of: keyof ClientIdentity; message: string }[] {
  const own = readCertificates(identity.certificate, now)
  const authorities = identity.authorities === null ? [] : readCertificates(identity.authorities, now)
  const key = identity.privateKey === SECRET_MASK ? null : readKey(identity.privateKey)
  const faults: { of: keyof ClientIdentity; message: string }[] = []
  if (typeof own === 'string') faults.push({ of: 'certificate', message: own })
  if (typeof authorities === 'string') faults.push({ of: 'authorities', message: authorities })
  if (typeof key === 'string') faults.push({ of: 'privateKey', message: key })
  if (faults.length > 0 || key === null || typeof key === 'string') return faults
  if (typeof own !== 'string' && own[0]?.checkPrivateKey(key) !== true)
    return [{ of: 'privateKey', message: 'must be the key of the first certificate' }]
  // A key that is too short, say, or a signature that nobody trusts any more.
  if (!secureContext(identity)) return [{ of: 'certificate', message: 'must be one that TLS takes' }]
  return []
}

/** Null when it cannot be used. */
export function secureContext({ certificate, privateKey, authorities }: ClientIdentity): SecureContext | null {
  try {
    return createSecureContext({ cert: certificate, key: privateKey, ...(authorities !== null && { ca: authorities }) })
  } catch {
    return null
  }
}

/** TLS itself takes the first of them and ignores what it cannot read. */
function readCertificates(text: string, now: number): X509Certificate[] | string {
  const blocks = text.match(PEM_CERTIFICATE) ?? []
  // It is stored and shown in the clear: nobody shall put a key into it.
  if (blocks.length === 0 || text.replaceAll(PEM_CERTIFICATE, '').includes('-----'))
    return 'must be certificates in PEM and nothing else'
  if (blocks.length > MAX_CERTIFICATES) return `must not be more than ${MAX_CERTIFICATES} certificates`
  try {
    const certificates = blocks.map((block) => new X509Certificate(block))
    const late = certificates.find(({ validTo }) => Date.parse(validTo) <= now)
    return late ? `must not have run out, as one has on ${new Date(late.validTo).toISOString()}` : certificates
  } catch {
    return 'must be certificates in PEM that can be read'
  }
}

function readKey(text: string): KeyObject | string {
  if (text.includes('ENCRYPTED')) return 'must not be encrypted: the hub encrypts it itself'
  try {
    return createPrivateKey(text)
  } catch {
    return 'must be a private key in PEM'
  }
}
