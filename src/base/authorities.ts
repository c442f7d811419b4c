// Certificate authorities that an operator names for one kind of server, to be trusted beside the public ones.
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { rootCertificates } from 'node:tls'
import { messageOf } from './errors.ts'

/**
 * `given` is PEM text or the path of a PEM file, with any number of certificates; `whose` names the servers in the error. Gives the
 * public authorities too. Rejects with one sentence when a certificate cannot be read, or there is none: TLS itself takes anything
 * for an authority, and ignores what is none.
 */
export async function readAuthorities(given: string, whose: string): Promise<string[]> {
  const isText = given.includes('-----BEGIN ')
  try {
    const blocks = (isText ? given : await readFile(given, 'utf8')).match(PEM_CERTIFICATE) ?? []
    if (blocks.length === 0) throw new Error('there is no PEM certificate in it')
    return [...rootCertificates, ...blocks.map((block) => new X509Certificate(block).toString())]
  } catch (error) {
    const where = isText ? '' : ` in ${given}`
    throw new Error(`The certificate of the ${whose} authority${where} cannot be used: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g
