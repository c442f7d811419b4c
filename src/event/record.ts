// One record as it arrived, before anything is decided about it: the same shape from Kafka and from HTTP ingest.

export interface IncomingRecord {
  /** The Kafka topic; for HTTP ingest the topic that the event would have been written to (`lerian.streaming.<ce-source>`), or '' where none can be told. */
  topic: string
  /** Null when the record came over HTTP. */
  position: { partition: number; offset: bigint } | null
  /** The producer's record time in milliseconds since the Unix epoch, or null where the record carries none. */
  timestamp: number | null
  key: Buffer | null
  /** In the order of the wire, duplicates kept; either side may be null. */
  headers: [Buffer | null, Buffer | null][]
  value: Buffer | null
}
