// Certificates, made on the spot: Node can make keys but no certificates, and stored ones would expire.
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto'

/** PEM. */
export interface Certificate {
  cert: string
  key: string
}

export interface Authority extends Certificate {
  /** Of a name, by this authority. */
  issue(name: string, years?: [number, number]): Certificate
}

/** For the DNS name and 127.0.0.1; valid for ten years around now, or for years of its own: from the first to the second. */
export function selfSigned(name: string, years = aroundNow()): Certificate {
  return authority(name, years)
}

/** One that signs itself, and others. */
export function authority(name: string, years = aroundNow()): Authority {
  const { privateKey, publicKey } = keys()
  const issue = (subject: string, life = aroundNow()): Certificate => {
    const own = keys()
    const cert = certificate({ subject, issuer: name, publicKey: own.publicKey, signer: privateKey, years: life })
    return { cert, key: pem(own.privateKey) }
  }
  const cert = certificate({ subject: name, issuer: name, publicKey, signer: privateKey, years })
  return { cert, key: pem(privateKey), issue }
}

function certificate(given: {
  subject: string
  issuer: string
  publicKey: KeyObject
  signer: KeyObject
  years: [number, number]
}): string {
  const { subject, issuer, publicKey, signer, years } = given
  const algorithm = sequence(oid('2a8648ce3d040302')) // ecdsa-with-SHA256
  const names = sequence(der(0x82, Buffer.from(subject)), der(0x87, Buffer.from([127, 0, 0, 1])))
  const isAuthority = subject === issuer ? [der(0x01, Buffer.from([0xff]))] : []
  const extensions = sequence(
    sequence(oid('551d11'), der(0x04, names)), // subjectAltName
    sequence(oid('551d13'), der(0x04, sequence(...isAuthority))), // basicConstraints
  )
  const body = sequence(
    der(0xa0, integer(2)),
    integer(1),
    algorithm,
    distinguished(issuer),
    sequence(time(years[0]), time(years[1])),
    distinguished(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, signer))
  const base64 = sequence(body, algorithm, signature).toString('base64')
  return `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`
}

function keys(): { privateKey: KeyObject; publicKey: KeyObject } {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
}

function pem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString()
}

function distinguished(name: string): Buffer {
  return sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(name)))))
}

function aroundNow(): [number, number] {
  const year = new Date().getUTCFullYear()
  return [year - 5, year + 5]
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, ...parts)
}

function integer(value: number): Buffer {
  return der(0x02, Buffer.from([value]))
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'))
}

function time(year: number): Buffer {
  return der(0x18, Buffer.from(`${year}0101000000Z`))
}
