// Which headers a subscription may add to its requests: at registration, where every fault is told with its place, and again when
// they are sent. Names by the token grammar of RFC 9110, values of visible ASCII: nothing that could end a header or begin another.
import type { Fault } from '../../base/errors.ts'
import { SECRET_MASK, pointerPart } from '../../event/sink-secrets.ts'
import type { HeaderValue } from '../../event/subscription.ts'

const MAX_HEADERS = 32
const MAX_NAME_LENGTH = 256
const MAX_VALUE_LENGTH = 4096
/** Of all names and values: what servers take of a request, which has the hub's own headers too. */
const MAX_TOTAL_LENGTH = 12 * 1024

/** The hub's own and the body's; the connection's (hop by hop) and the message's framing. */
const OF_THE_HUB = /^((x-lerian|webhook|ce)-.*|content-(encoding|length|type)|trace(parent|state)|user-agent)$/
const OF_THE_CONNECTION =
  /^(proxy-.*|connection|expect|host|http2-settings|keep-alive|te|trailer|transfer-encoding|upgrade)$/
/** What they hold is always a credential. */
const SECRET_ONLY = /^(authorization|cookie)$/

/**
 * What is wrong with the headers that a subscription wants to add; paths are JSON pointers into them. `taken`: the name, in lower
 * case, of the header that its authentication sets.
 */
export function headersFaults(headers: Record<string, HeaderValue>, taken: string | null = null): Fault[] {
  const entries = Object.entries(headers)
  const names = entries.map(([name]) => name.toLowerCase())
  const total = entries.reduce((sum, [name, header]) => sum + name.length + headerText(header).length, 0)
  const faults = entries.flatMap(([name, header]) => headerFaults(name, header, taken))
  if (entries.length > MAX_HEADERS) faults.push({ path: '', message: `must not be more than ${MAX_HEADERS}` })
  if (total > MAX_TOTAL_LENGTH)
    faults.push({ path: '', message: `must not be longer than ${MAX_TOTAL_LENGTH} together` })
  if (new Set(names).size < names.length) {
    faults.push({ path: '', message: 'must not have a name twice in different letter case' })
  }
  return faults
}

/** Why this header must not be sent, in words that need its name before them; null when it may. */
export function headerFault(name: string, value: string): string | null {
  return nameFault(name) ?? valueFault(value)
}

export function headerText(header: HeaderValue): string {
  return typeof header === 'string' ? header : header.value
}

export function nameFault(name: string): string | null {
  if (name.length > MAX_NAME_LENGTH || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) return "must be a header's name"
  if (OF_THE_HUB.test(name.toLowerCase())) return 'is set by the hub'
  if (OF_THE_CONNECTION.test(name.toLowerCase())) return 'belongs to the connection'
  return null
}

function valueFault(value: string): string | null {
  if (value.length > MAX_VALUE_LENGTH) return `must not be longer than ${MAX_VALUE_LENGTH} characters`
  if (!/^[\t\x20-\x7e]*$/.test(value)) return 'must have printable ASCII characters only'
  if (/^[\t ]|[\t ]$/.test(value)) return 'must not begin or end with white space'
  return null
}

function headerFaults(name: string, header: HeaderValue, taken: string | null): Fault[] {
  const path = `/${pointerPart(name)}`
  const key = name.toLowerCase()
  const isSecret = typeof header !== 'string'
  const message =
    nameFault(name) ??
    (key === taken ? 'is set by the authentication' : null) ??
    (SECRET_ONLY.test(key) && !isSecret ? 'must be secret: {"value": "…", "secret": true}, or sink.auth' : null) ??
    (header === SECRET_MASK ? `must not be ${SECRET_MASK}, which stands for a secret` : null)
  if (message !== null) return [{ path, message }]
  const fault = valueFault(headerText(header))
  return fault === null ? [] : [{ path: isSecret ? `${path}/value` : path, message: fault }]
}
