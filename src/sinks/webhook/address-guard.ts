// Which URLs the hub may be made to call. Tenants choose them, so without this they could reach whatever the hub can: its own host, its
// private network, a cloud's metadata service. A URL is judged when it is registered and again at every attempt, by its syntax, its
// name, its port and a literal address alone; what its name leads to is judged when it is looked up, and by the socket (connector.ts).
import { isIP } from 'node:net'
import { isRefused } from './refused-addresses.ts'

export interface GuardOptions {
  /** Lets plain http, private addresses and names, and all ports through. */
  allowPrivate: boolean
}

const MAX_URL_LENGTH = 2048

/** Names that mean something only inside some network, beside those without any dot. */
const PRIVATE_NAME = /(^|\.)(localhost|local|localdomain|internal|intranet|private|corp|home|lan|svc|onion|home\.arpa)$/

/**
 * Ports of other protocols, at which a tenant could aim the hub at somebody else's mail server or database. Those that browsers
 * refuse (the "bad ports" of the Fetch standard), and below them what else is no web server.
 */
const REFUSED_PORTS = new Set(
  (
    '1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 ' +
    '143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 ' +
    '2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080 ' +
    '445 1433 1521 2375 2379 2380 3306 3389 5432 5672 5900 6379 9042 9092 10250 11211 27017'
  ).split(' '),
)

/** What is wrong with a URL, in words that need the name of its field before them; `refused`: where it leads to is. */
interface Fault {
  message: string
  refused: boolean
}

/**
 * What is wrong with a webhook's URL, in readable sentences that need the field's name before them; none when it may be
 * registered. Looks up no name.
 */
export function urlFaults(text: string, options: GuardOptions): string[] {
  if (text.length > MAX_URL_LENGTH) return [`must not be longer than ${MAX_URL_LENGTH} characters`]
  // The URL parser would silently drop or turn around some of these, and others may do it in another way.
  if (/[\s\p{Cc}\\]/u.test(text)) return ['must not contain white space, control characters or backslashes']
  const url = /^https?:\/\/[^/?#]/i.test(text) ? URL.parse(text) : null
  if (!url) return [options.allowPrivate ? 'must be an http or https URL' : 'must be an https URL']
  const faults = destinationFaults(url, options).map(({ message }) => message)
  // Of a user and password that are empty the parser leaves nothing.
  if (/^[^/]*\/\/[^/?#]*@/.test(text)) faults.push('must not contain credentials')
  if (text.includes('#')) faults.push('must not have a fragment, which is never sent')
  return [...new Set(faults)]
}

/** What is wrong with calling a URL at an attempt: a stored one may be older than the rules. Null: it may be called. */
export function callFault(url: URL, options: GuardOptions): 'refused' | 'unusable' | null {
  const faults = destinationFaults(url, options)
  if (faults.length === 0) return null
  return faults.every(({ refused }) => refused) ? 'refused' : 'unusable'
}

function destinationFaults(url: URL, { allowPrivate }: GuardOptions): Fault[] {
  const faults: Fault[] = []
  const add = (message: string, refused = false): number => faults.push({ message, refused })
  if (!allowPrivate && url.protocol !== 'https:') add('must be an https URL')
  if (allowPrivate && !/^https?:$/.test(url.protocol)) add('must be an http or https URL')
  if (url.username !== '' || url.password !== '') add('must not contain credentials')
  if (url.port === '0') add('must not name port 0')
  if (!allowPrivate && REFUSED_PORTS.has(url.port)) add(`must not name port ${url.port}`, true)
  if (!allowPrivate && isPrivateHost(url)) add('must name a public host', true)
  return faults
}

/** The URL parser has brought the host to one form already: lower case, punycode, addresses without leading zeros or hex. */
function isPrivateHost(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  if (isIP(host) !== 0) return isRefused(host)
  return !host.includes('.') || host.split('.').includes('') || PRIVATE_NAME.test(host)
}
