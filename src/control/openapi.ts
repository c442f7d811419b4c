// The API's document: made from the routes and their schemas, so that it cannot say anything else than what is served.
import type { SwaggerOptions } from '@fastify/swagger'
import type { Scope } from './auth/principal.ts'
import { completeDocument } from './document.ts'
import { examplesOf } from './examples.ts'
import { ApiKeyCreated, ApiKeySchema } from './schemas/api-key.ts'
import { CatalogEntrySchema } from './schemas/catalog.ts'
import { CloudEvent } from './schemas/cloud-event.ts'
import { ProblemSchema } from './schemas/common.ts'
import { AttemptSchema, DeadLetterSchema, DeliveryDetail, DeliverySchema } from './schemas/delivery.ts'
import { EventSchema, Explanation, IngestVerdict, PulledEventSchema } from './schemas/event.ts'
import { Health, Readiness } from './schemas/health.ts'
import { ManifestSchema } from './schemas/manifest.ts'
import {
  BreakerSchema,
  PartitionLagSchema,
  QuarantineCounts,
  QuarantinedSchema,
  TenantSchema,
  TopicSchema,
} from './schemas/operators.ts'
import {
  ProducerDeadLetterCounts,
  ProducerDeadLetterDetail,
  ProducerDeadLetterSchema,
} from './schemas/producer-dead-letter.ts'
import { ReplayCountSchema, ReplaySchema } from './schemas/replay.ts'
import { SingletonSchema } from './schemas/singleton.ts'
import { SubscriptionHealthSchema } from './schemas/subscription-health.ts'
import { TestResult } from './schemas/test-delivery.ts'
import { SubscriptionChangeSchema } from './schemas/subscription-history.ts'
import { SecretRotated, SubscriptionCreated, SubscriptionSchema, VerificationSchema } from './schemas/subscription.ts'

/** Everything under it is the documentation's own, and public. */
export const DOCS_PREFIX = '/docs'

const DESCRIPTION = `Subscribe to a platform's business events, look at what was delivered, and try again.

Times are RFC 3339 in UTC, ids UUIDs. Lists come in pages: \`limit\`, and \`next_cursor\` for the next one. Every error is
\`application/problem+json\` with a stable \`code\`. Every answer has an \`x-request-id\`, which finds the request in the log.

A caller acts as the tenant of its credential, as far as its scopes go; each operation names the one that it needs. What belongs to another
tenant is not found. \`admin\` opens the operators' routes, and is no tenant. A hub in local mode without authentication takes the tenant from
\`x-tenant-id\`, and asks nobody.`

export function openApiOptions(version: string): SwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Streaming Hub', version, description: DESCRIPTION },
      components: { schemas: components(), securitySchemes: SECURITY_SCHEMES },
      tags: [
        { name: 'subscriptions', description: 'Which events, to which destination, how' },
        { name: 'deliveries', description: 'One event for one subscription, with its attempts' },
        { name: 'events', description: 'What producers wrote' },
        { name: 'operators', description: 'Across tenants' },
        { name: 'health', description: 'For those who watch the hub' },
      ],
    },
    exposeHeadRoutes: false,
    transformObject: (made) => {
      if (!('openapiObject' in made)) return made.swaggerObject
      completeDocument(made.openapiObject)
      return made.openapiObject
    },
  }
}

const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description:
      'An API key (`shk_…`), or a token of the platform: a JWT, or whatever its authorization service takes.',
  },
  api_key: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'An API key (`shk_…`).' },
} as const

/** What an operation needs: any of the schemes, with the scope. */
export function securityOf(scope: Scope): Record<string, string[]>[] {
  return Object.keys(SECURITY_SCHEMES).map((scheme) => ({ [scheme]: [scope] }))
}

/** What routes refer to by name. */
const NAMED = [
  ApiKeyCreated,
  ApiKeySchema,
  AttemptSchema,
  BreakerSchema,
  CatalogEntrySchema,
  CloudEvent,
  DeadLetterSchema,
  DeliveryDetail,
  DeliverySchema,
  EventSchema,
  Explanation,
  Health,
  IngestVerdict,
  ManifestSchema,
  PartitionLagSchema,
  ProblemSchema,
  ProducerDeadLetterCounts,
  ProducerDeadLetterDetail,
  ProducerDeadLetterSchema,
  PulledEventSchema,
  QuarantineCounts,
  QuarantinedSchema,
  Readiness,
  ReplayCountSchema,
  ReplaySchema,
  SecretRotated,
  SingletonSchema,
  SubscriptionChangeSchema,
  SubscriptionCreated,
  SubscriptionHealthSchema,
  SubscriptionSchema,
  TenantSchema,
  TestResult,
  TopicSchema,
  VerificationSchema,
]

function components(): Record<string, object> {
  return Object.fromEntries(NAMED.map(({ $id, ...schema }) => [$id, { ...schema, examples: examplesOf($id) }]))
}
