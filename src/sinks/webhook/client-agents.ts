// Connections that show a client certificate. They are one subscription's alone: no other one's request ever travels over them, nor
// resumes their TLS sessions, be it to the same host. They go when the certificate changes, and after a while without use.
import { LRUCache } from 'lru-cache'
import { secureContext, type ClientIdentity } from './client-certificate.ts'
import type { ConnectorOptions } from './connector.ts'
import { createAgent, type OutboundAgent } from './post.ts'

const MAX_AGENTS = 1_000
/** Kept connections close by themselves after seconds; this is for the key. */
const UNUSED_MS = 10 * 60_000

interface Held {
  identity: ClientIdentity
  agent: OutboundAgent
}

export class ClientAgents {
  readonly #options: ConnectorOptions
  readonly #held = new LRUCache<string, Held>({
    max: MAX_AGENTS,
    ttl: UNUSED_MS,
    ttlAutopurge: true,
    updateAgeOnGet: true,
    // What is under way ends first.
    dispose: ({ agent }) => void agent.close(),
  })

  #closed = false

  constructor(options: ConnectorOptions) {
    this.#options = options
  }

  /** To be used at once: it may be closed to new requests later. Null when the certificate cannot be used. */
  agentOf(subscriptionId: string, identity: ClientIdentity): OutboundAgent | null {
    const held = this.#held.get(subscriptionId)
    if (held && isSame(held.identity, identity)) return held.agent
    const context = secureContext(identity)
    if (!context) return null
    const agent = createAgent({ ...this.#options, secureContext: context })
    if (this.#closed) void agent.close()
    else this.#held.set(subscriptionId, { identity, agent })
    return agent
  }

  async close(): Promise<void> {
    this.#closed = true
    const agents = [...this.#held.values()].map(({ agent }) => agent.close())
    this.#held.clear()
    await Promise.all(agents)
  }
}

function isSame(a: ClientIdentity, b: ClientIdentity): boolean {
  const isEqual = (name: keyof ClientIdentity): boolean => a[name] === b[name]
  return a === b || (isEqual('certificate') && isEqual('privateKey') && isEqual('authorities'))
}
