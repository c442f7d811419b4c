// A subscription: one tenant's wish, which events go to which destination, and how.

export type VerificationState = 'pending' | 'active' | 'failed'
export type ContentMode = 'binary' | 'structured'

/**
 * What a failed delivery does to those behind it: `fifo`: it steps aside onto its retry schedule; `strict`: it blocks the
 * line; `parallel`: there is no order, many are in the air.
 */
export type Ordering = 'fifo' | 'strict' | 'parallel'

/** Which events: exact keys, `<resource>.*` and `*`; null means any. */
interface EventFilter {
  origin: string | null
  eventTypes: readonly string[]
  schemaMajor: number | null
}

/** A secret one is write-only. */
export type HeaderValue = string | { value: string; secret: true }

/** How the hub shows a receiver who it is, beside the signatures. Named as the API has it; each kind holds one secret. */
export type WebhookAuth =
  | { kind: 'bearer'; token: string }
  | { kind: 'basic'; username: string; password: string }
  | { kind: 'api_key'; header: string; value: string }
  | OAuth2Auth
  | MutualTlsAuth

/** By a token of its own authorization server, had by the client credentials grant. */
interface OAuth2Auth {
  kind: 'oauth2'
  token_url: string
  client_id: string
  client_secret: string
  scope?: string | null
  audience?: string | null
  auth_method?: 'client_secret_basic' | 'client_secret_post'
}

/** By a client certificate; all in PEM. */
interface MutualTlsAuth {
  kind: 'mtls'
  certificate: string
  private_key: string
  /** The authorities that the receiver's certificate is trusted by, in place of the public ones. */
  ca?: string | null
}

/** Where to. A secret in it is masked (see sink-secrets.ts): what the API gives back and the database stores in the clear. */
interface WebhookSinkSettings {
  kind: 'webhook'
  url: string
  /** Added to every request. */
  headers: Record<string, HeaderValue>
  auth?: WebhookAuth | null
}

export type SinkSettings = WebhookSinkSettings

export interface Subscription extends EventFilter {
  id: string
  tenantId: string
  name: string
  enabled: boolean
  verificationState: VerificationState
  sink: SinkSettings
  /** Derived from the sink's kind and its canonical address; shared by a tenant's subscriptions to one address. */
  destinationKey: string
  contentMode: ContentMode
  ordering: Ordering
  /** Delays in ms before attempt 1, 2, …; null: the default curve. `unknown` because a stored one may be malformed. */
  retrySchedule: unknown
  /** How long one attempt may take, 1000–60000 ms. */
  timeoutMs: number
  /** Why it is switched off: the hub's reason, or its owner's; null: its owner gave none. */
  disabledReason: string | null
  /** The reason is its owner's: no verification enables it again. */
  disabledByOwner: boolean
  disabledAt: Date | null
  metadata: Record<string, unknown>
  /** Rises with every change; what is queued is delivered by the newest one. */
  version: number
  createdAt: Date
  updatedAt: Date
}
