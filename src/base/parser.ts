// How a setting's text becomes a value: each parser says in words what it takes, so that whoever wrote something else can be told.
import { isIP } from 'node:net'
import { parseDuration } from './duration.ts'

export interface Parser<T> {
  /** Completes "expected …". */
  expected: string
  /** Null for what it does not take. */
  parse(text: string): T | null
}

export interface Address {
  host: string
  port: number
}

export function oneOf<const T extends string>(...values: T[]): Parser<T> {
  return {
    expected: values.join(', ').replace(/, ([^,]*)$/, ' or $1'),
    parse: (given) => values.find((value) => value === given) ?? null,
  }
}

export const flag: Parser<boolean> = {
  expected: 'true or false',
  parse: (value) => (value === 'true' ? true : value === 'false' ? false : null),
}

/** A whole number; both bounds belong to it. */
export function integer(min: number, max: number): Parser<number> {
  return {
    expected: `a whole number from ${min} to ${max}`,
    parse: (value) => (/^\d{1,15}$/.test(value) ? within(Number(value), min, max) : null),
  }
}

/** Milliseconds; the bounds are durations too, and belong to it. */
export function duration(min: string, max: string): Parser<number> {
  return {
    expected: `a duration such as 30s, 5m or 12h, from ${min} to ${max}`,
    parse: (value) => within(parseDuration(value), parseDuration(min) ?? 0, parseDuration(max) ?? 0),
  }
}

/** Milliseconds, from a bare number of seconds or from a duration. */
export function seconds(min: string, max: string): Parser<number> {
  const durations = duration(min, max)
  return {
    expected: `seconds such as 300, or a duration such as 5m, from ${min} to ${max}`,
    parse: (value) => durations.parse(/^\d+$/.test(value) ? `${value}s` : value),
  }
}

/** Any text of at most `maxLength` characters without white space at its ends and without control characters. */
export function text(expected: string, maxLength = 1024): Parser<string> {
  return {
    expected,
    parse: (value) => (value === value.trim() && value.length <= maxLength && !/\p{Cc}/u.test(value) ? value : null),
  }
}

/** A text of a given grammar. */
export function matching(pattern: RegExp, expected: string): Parser<string> {
  return { expected, parse: (value) => (pattern.test(value) ? value : null) }
}

export function url(...protocols: string[]): Parser<string> {
  return {
    expected: `a URL that begins with ${protocols.map((protocol) => `${protocol}://`).join(' or ')}`,
    parse: (value) => {
      const parsed = URL.parse(value)
      return parsed && parsed.host !== '' && protocols.includes(parsed.protocol.slice(0, -1)) ? value : null
    },
  }
}

/** An IP address, or a network as `address/bits`. */
export const network: Parser<string> = {
  expected: 'IP addresses or networks such as 10.0.0.0/8',
  parse: (value) => {
    const [ip = '', bits, ...more] = value.split('/')
    const most = { 0: -1, 4: 32, 6: 128 }[isIP(ip)] ?? -1
    const fits = bits === undefined ? most > 0 : /^\d{1,3}$/.test(bits) && Number(bits) <= most
    return fits && more.length === 0 ? value : null
  },
}

/** `host:port`, `[ipv6]:port`; with `anyHost` also `:port`, which means all interfaces. */
export function address(options: { anyHost: boolean }): Parser<Address> {
  return {
    expected: options.anyHost ? 'host:port, or :port for all interfaces' : 'host:port',
    parse: (value) => {
      const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]*)):(\d{1,5})$/.exec(value)
      const host = match?.[1] ?? match?.[2] ?? ''
      const port = within(Number(match?.[3]), 0, 65_535)
      if (!match || port === null || (host === '' && !options.anyHost)) return null
      return { host: host || '0.0.0.0', port }
    },
  }
}

/** Values separated by commas, at least one. */
export function list<T>(item: Parser<T>): Parser<T[]> {
  return {
    expected: `one or more, separated by commas, of ${item.expected}`,
    parse: (value) => {
      const items = value.split(',').map((part) => item.parse(part.trim()))
      return items.every((part) => part !== null) ? items : null
    },
  }
}

function within(value: number | null, min: number, max: number): number | null {
  return value !== null && value >= min && value <= max ? value : null
}
