// Who does something: what the audit trail writes down beside it.

export const ACTOR_KINDS = ['api_key', 'jwt', 'plugin', 'local', 'hub'] as const

export interface Actor {
  /** How it is known: the kind of its credential; `local`: nobody was asked; `hub`: the hub by itself. */
  kind: (typeof ACTOR_KINDS)[number]
  /** Tells it from all others of its kind: a key's id, a token's subject. */
  id: string
  /** For people; never a credential. */
  name: string
}

export const HUB: Actor = { kind: 'hub', id: 'hub', name: 'the hub' }
