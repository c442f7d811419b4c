// What every answer of the API has to be, whatever was asked: what its document says, no failure of the hub, and nothing of another tenant.
import { Compile } from 'typebox/compile'
import { errorCatalogue } from '../../src/base/errors.ts'
import type { Tenant, Wish } from './requests.ts'

export interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  bytes: Buffer
}

export interface Response {
  description: string
  content?: Record<string, { schema: object }>
}

export interface Document {
  paths: Record<string, Record<string, { responses: Record<string, Response> }>>
  components: { schemas: Record<string, object> }
}

const UUID = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/gi

export class Judge {
  readonly #document: Document
  readonly #checks = new Map<object, ReturnType<typeof Compile>>()
  /** Ids that the hub has told each tenant, and those that a request has brought. */
  readonly #told: Record<Tenant, Set<string>> = { a: new Set(), b: new Set() }
  readonly #brought = new Set<string>()

  constructor(document: Document) {
    this.#document = document
  }

  /** What is wrong with the answer, each as a sentence. */
  complaints(wish: Wish, sent: string, answer: Answer): string[] {
    const text = answer.bytes.toString()
    const { responses } = this.#document.paths[wish.operation.path]![wish.operation.method.toLowerCase()]!
    const response = responses[String(answer.status)]
    return [
      ...(answer.status >= 500 ? [`the hub failed: ${text}`] : []),
      ...(response
        ? this.#asDocumented(response, answer, text)
        : [`status ${answer.status} is not documented: ${text}`]),
      ...(answer.headers['x-request-id'] ? [] : ['it has no x-request-id']),
      ...this.#leaks(wish, sent, { status: answer.status, text }),
    ]
  }

  #asDocumented({ content = {}, description }: Response, { headers, status }: Answer, text: string): string[] {
    if (text === '') return Object.keys(content).length > 0 && status < 300 ? bodyless(content) : []
    const type = String(headers['content-type']).split(';')[0] ?? ''
    const schema = content[type]?.schema
    if (!schema) return [`${type} is not documented for ${status}: ${text.slice(0, 200)}`]
    if (!type.includes('json')) return []
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      return [`its body is not JSON: ${text.slice(0, 200)}`]
    }
    return [...this.#misfits(schema, value), ...(status >= 400 ? problemFaults(value, status, description) : [])]
  }

  #misfits(schema: object, value: unknown): string[] {
    let check = this.#checks.get(schema)
    if (!check) {
      check = Compile({ ...schema, components: this.#document.components } as never)
      this.#checks.set(schema, check)
    }
    if (check.Check(value)) return []
    return [`its body does not fit its schema: ${JSON.stringify(check.Errors(value).slice(0, 3))}`]
  }

  /** An id that only the other tenant has been told is in the answer. */
  #leaks({ tenant, operation }: Wish, sent: string, { status, text }: { status: number; text: string }): string[] {
    for (const id of sent.match(UUID) ?? []) this.#brought.add(id.toLowerCase())
    if (!operation.path.startsWith('/v1/') || operation.path === '/v1/ingest' || status >= 400) return []
    const ids = new Set((text.match(UUID) ?? []).map((id) => id.toLowerCase()))
    const other = this.#told[tenant === 'a' ? 'b' : 'a']
    const leaked = [...ids].filter((id) => other.has(id) && !this.#brought.has(id))
    for (const id of ids) if (!other.has(id)) this.#told[tenant].add(id)
    return leaked.map((id) => `${id} is the other tenant's`)
  }
}

function bodyless(content: object): string[] {
  return [`it has no body, and is documented with ${Object.keys(content).join(', ')}`]
}

function problemFaults(value: unknown, status: number, description: string): string[] {
  const { code, status: said } = value as { code: keyof typeof errorCatalogue; status: number }
  const known = errorCatalogue[code] as { status: number } | undefined
  return [
    ...(known?.status === status && said === status
      ? []
      : [`code ${code} and status ${said} are not those of a ${status}`]),
    ...(description.includes(`${code}:`)
      ? []
      : [`code ${code} is not documented for this operation: ${JSON.stringify(value)}`]),
  ]
}
