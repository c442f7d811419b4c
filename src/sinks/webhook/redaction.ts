// What a receiver answers is kept for the record, and a receiver may send back what it was sent: an error page that shows the request,
// a log line, its own settings. The destination's secrets are blanked out of what is kept, in every form that such pages are made of.
import { secretPlaces } from '../../event/sink-secrets.ts'
import type { Destination, Outcome } from '../sink.ts'
import { authHeaderValue } from './auth.ts'

const BLANK = '***'
/** Shorter ones would blank out half of any text, and hide nothing. */
const SHORTEST = 4
/** An answer is cut somewhere: so much of a secret at its end is taken for the secret's beginning. */
const SHORTEST_BEGINNING = 6

/** A function that blanks a destination's secrets out of an outcome; each destination's are worked out once. */
export function createRedaction(): (outcome: Outcome, destination: Destination) => Outcome {
  const known = new WeakMap<Destination, string[]>()
  return (outcome, destination) => {
    const forms = known.get(destination) ?? formsOf(secretsOf(destination))
    known.set(destination, forms)
    const response = withoutForms(outcome.response, forms)
    if (outcome.kind === 'delivered') return { ...outcome, response }
    return { ...outcome, response, detail: withoutForms(Buffer.from(outcome.detail), forms).toString() }
  }
}

/** The same of one secret that a request was sent with, such as a token. */
export function withoutSecret(text: Buffer, secret: string): Buffer {
  return withoutForms(text, formsOf([Buffer.from(secret)]))
}

function secretsOf({ signingKeys, sink }: Destination): Buffer[] {
  const shown = sink.auth ? authHeaderValue(sink.auth) : null
  const texts = [...secretPlaces(sink).map(({ text }) => text), ...(shown === null ? [] : [shown.replace(/^\w+ /, '')])]
  return [...signingKeys.map(({ key }) => key), ...texts.map((text) => Buffer.from(text))]
}

/** As texts of one character a byte; the longest first, so that none is left of another. */
function formsOf(secrets: readonly Buffer[]): string[] {
  const forms = secrets.filter(({ length }) => length >= SHORTEST).flatMap(waysToWrite)
  return [...new Set(forms)].filter(({ length }) => length >= SHORTEST).sort((a, b) => b.length - a.length)
}

function waysToWrite(secret: Buffer): string[] {
  const text = secret.toString()
  const percent = encodeURIComponent(text)
  const written = [text, JSON.stringify(text).slice(1, -1), percent, percent.replaceAll('%20', '+')]
  const hex = secret.toString('hex')
  const base64 = [0, 1, 2].map((before) => base64Within(secret, before))
  return [
    secret.toString('latin1'),
    ...written.map((form) => Buffer.from(form).toString('latin1')),
    hex,
    hex.toUpperCase(),
    ...base64,
    ...base64.map((form) => form.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** The digits of base64 that are the secret's alone, where `before` bytes (of three) stand before it. */
function base64Within(secret: Buffer, before: number): string {
  const digits = Buffer.concat([Buffer.alloc(before), secret])
    .toString('base64')
    .replace(/=+$/, '')
  const isMixed = (before + secret.length) % 3 !== 0
  return digits.slice(Math.ceil((before * 8) / 6), isMixed ? -1 : undefined)
}

function withoutForms(bytes: Buffer, forms: readonly string[]): Buffer {
  const text = bytes.toString('latin1')
  const blanked = forms.reduce((rest, form) => rest.replaceAll(form, BLANK), text)
  const cut = Math.max(0, ...forms.map((form) => beginningAtEnd(blanked, form)))
  if (cut === 0 && blanked === text) return bytes
  return Buffer.from(blanked.slice(0, blanked.length - cut) + (cut > 0 ? BLANK : ''), 'latin1')
}

/** How many characters at the end of `text` are the beginning of `form`. */
function beginningAtEnd(text: string, form: string): number {
  const start = form.slice(0, SHORTEST_BEGINNING)
  const from = Math.max(0, text.length - form.length)
  for (let at = text.indexOf(start, from); at >= 0; at = text.indexOf(start, at + 1))
    if (form.startsWith(text.slice(at))) return text.length - at
  return 0
}
