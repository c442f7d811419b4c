// POST /v1/ingest: producers without Kafka. The answer comes after the commit, with a verdict for each event.
import type { IncomingRecord } from '../../event/record.ts'
import { MAX_DATA_BYTES } from '../../event/event.ts'
import { parseHttpEvents } from '../../ingest/http-binding.ts'
import type { Ingested as IngestResult } from '../../ingest/ingest.ts'
import { HubError } from '../../base/errors.ts'
import type { Api } from '../api.ts'
import { principalOf } from '../auth/authenticate.ts'
import type { Principal } from '../auth/principal.ts'
import { ingestRequest } from '../schemas/cloud-event.ts'
import { Ingested, type IngestVerdictJson } from '../schemas/event.ts'

/** The largest event as base64 in an envelope. What is a little too large still gets its verdict, `payload_too_large`. */
const BODY_LIMIT_BYTES = Math.ceil((MAX_DATA_BYTES * 4) / 3) + 64 * 1024
/** One transaction takes a batch. */
const MAX_EVENTS = 500
const MAX_DEPTH = 128

export interface IngestRouteDeps {
  /** Resolves after the commit with what became of each, in their order. */
  ingest(records: readonly IncomingRecord[]): Promise<IngestResult[]>
}

export function ingestRoutes(api: Api, deps: IngestRouteDeps): void {
  // The body is the event's, whatever it is: nothing here reads or rewrites it.
  api.removeAllContentTypeParsers()
  api.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  api.route({
    method: 'POST',
    url: '/v1/ingest',
    bodyLimit: BODY_LIMIT_BYTES,
    config: {
      access: 'events:ingest',
      limit: 'ingest',
      // An event's own id makes it safe to send again.
      idempotencyKey: false,
      problems: ['invalid_request', 'payload_too_large', 'unsupported_media_type'],
    },
    schema: {
      operationId: 'ingest',
      summary: 'Take in events by the CloudEvents HTTP binding',
      description:
        'Binary mode: context attributes as `ce-*` headers, the body as it is; structured and batched mode: ' +
        '`application/cloudevents+json`, `application/cloudevents-batch+json`. A 200 means that all of it is stored. ' +
        "A tenant's own credential brings in that tenant's events only.",
      tags: ['events'],
      'x-request': ingestRequest(MAX_EVENTS),
      response: { 200: Ingested },
    },
    handler: async (request) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      const { rawHeaders } = request.raw
      const records = parseHttpEvents({ rawHeaders, body, maxEvents: MAX_EVENTS, maxDepth: MAX_DEPTH })
      refuseForeign(records, principalOf(request))
      const results = await deps.ingest(records)
      return { items: results.map(viewVerdict) }
    },
  })
}

/** A tenant's own credential brings in no other's events: the whole request is refused, and nothing of it is stored. */
function refuseForeign(records: readonly IncomingRecord[], { tenantId, isConfined }: Principal): void {
  if (!isConfined) return
  const named = records.flatMap(({ headers }) => headers.filter(([name]) => name?.toString() === 'ce-tenantid'))
  if (named.every(([, value]) => value === null || value.toString() === tenantId)) return
  throw new HubError('forbidden', 'The credential belongs to one tenant, and an event to another.')
}

function viewVerdict(result: IngestResult): IngestVerdictJson {
  const none = { id: null, reason: null, detail: null }
  switch (result.kind) {
    case 'accepted':
    case 'duplicate':
      return { ...none, verdict: result.kind, id: result.event.id }
    case 'dropped':
      return { ...none, verdict: 'dropped' }
    case 'quarantined':
      return { ...none, verdict: 'quarantined', reason: result.reason, detail: result.detail }
    default:
      return result satisfies never
  }
}
