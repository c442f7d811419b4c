// A producer's dead letter: a record that a producing application, or a consumer of its topic, gave up on and wrote to the
// application's own `.dlq` topic. The hub keeps it for people to look at. It is not an event, and nothing of it is ever delivered.

/** What its headers say, for filters and for reading: never trusted further. Each is null where it is absent or cannot be read. */
export interface DeadLetterFields {
  /** Of the `ce-*` headers, which are those of the record that failed. */
  tenantId: string | null
  eventId: string | null
  /** `<resource>.<event>`. */
  eventType: string | null
  eventSource: string | null
  /** Of the `x-lerian-dlq-*` headers: what failed, where, and how often. */
  sourceTopic: string | null
  sourcePartition: number | null
  sourceOffset: number | null
  errorClass: string | null
  errorMessage: string | null
  causeKind: string | null
  retryCount: number | null
  firstFailureAt: Date | null
  producerId: string | null
  payloadOmitted: boolean | null
  payloadBytes: number | null
}
