// How events come in by HTTP, for the API's document alone: ingest reads bodies as bytes, and judges each event by itself.
import { Type } from 'typebox'
import { Nullable, Timestamp, Uuid, named, refer, withMore } from './common.ts'

const attributes = {
  specversion: Type.Literal('1.0', { description: 'The version of CloudEvents.', examples: ['1.0'] }),
  id: withMore(Uuid, {
    description: 'A UUID of version 7 that the producer makes once for the event: a second one with it is a duplicate.',
    examples: ['019e2690-c2f0-71f2-a3b4-c5d6e7f80912'],
  }),
  source: Type.String({ description: 'The producing application: one segment in lower case.', examples: ['lender'] }),
  type: Type.String({
    description: '`studio.lerian.<source>.<resourcetype>.<eventtype>`: it must agree with the three.',
    examples: ['studio.lerian.lender.loan_application.approved'],
  }),
  time: withMore(Timestamp, {
    description: 'When it happened: RFC 3339 with an offset.',
    examples: ['2026-05-14T12:58:01.840Z'],
  }),
  resourcetype: Type.String({ description: 'What it happened to: one segment.', examples: ['loan_application'] }),
  eventtype: Type.String({ description: 'What happened: one segment.', examples: ['approved'] }),
  schemaversion: Type.String({ description: "The version of its data's schema.", examples: ['1.4.2'] }),
  tenantid: Type.Optional(
    Type.String({
      description: 'Whose event it is: 1 to 256 bytes of UTF-8. Only a system event has none.',
      examples: ['acme'],
    }),
  ),
  subject: Type.Optional(Type.String({ description: 'Which one of the resources it is about.', examples: ['L-1042'] })),
  datacontenttype: Type.Optional(
    Type.String({ description: 'The media type of the data.', examples: ['application/json'] }),
  ),
  dataschema: Type.Optional(
    Type.String({
      description: 'Where the schema of the data is written down: a URI.',
      examples: ['https://schemas.example.com/loan_application.approved/1'],
    }),
  ),
  systemevent: Type.Optional(
    Type.String({ description: '`true`: an event of the platform itself, which is dropped.', examples: ['true'] }),
  ),
}

export const CloudEvent = named(
  'CloudEvent',
  Type.Object(
    {
      ...attributes,
      data: Type.Optional(Type.Unknown({ description: 'Data that is JSON, kept byte for byte.' })),
      data_base64: Type.Optional(Nullable(Type.String(), 'All other data, in place of `data`; null: none.')),
    },
    {
      description:
        'An event in the JSON format of CloudEvents. Further attributes are kept with it. One that breaks these rules is quarantined, and no error.',
    },
  ),
)

/** Where attributes stand in binary mode. The content type of the request takes the place of `datacontenttype`. */
const headers = Object.entries<DocumentedSchema>(attributes)
  .filter(([name]) => name !== 'datacontenttype')
  .map(([name, { description, examples = [], ...schema }]) => ({
    in: 'header',
    name: `ce-${name}`,
    required: false,
    description: `Binary mode only. ${description}`,
    schema,
    ...(name !== 'systemevent' && { example: examples[0] }),
  }))

interface DocumentedSchema {
  description?: string
  examples?: readonly unknown[]
  type: string
}

const BINARY = {
  description:
    'Binary mode: the data of one event, whatever it is, with its attributes in `ce-*` headers. Empty: it has none.',
}

/** Parameters and body of `POST /v1/ingest`. `maxEvents`: of a batch. */
export function ingestRequest(maxEvents: number): { parameters: object[]; requestBody: object } {
  const envelope = refer(CloudEvent)
  return {
    parameters: headers,
    requestBody: {
      description: 'One event in binary or structured mode, or a batch of them.',
      required: false,
      content: {
        'application/cloudevents+json': { schema: envelope },
        'application/cloudevents-batch+json': {
          schema: Type.Array(envelope, { maxItems: maxEvents, description: 'Batched mode: each gets its verdict.' }),
        },
        'application/json': { schema: BINARY, example: { loan_id: 'L-1042', amount: '1500.00', currency: 'BRL' } },
        '*/*': { schema: BINARY, example: '<loan id="L-1042" amount="1500.00"/>' },
      },
    },
  }
}
