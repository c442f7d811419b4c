// The last touch to the API's document, where its generator has no place for what is to be said: hints that schemas and routes give under
// names with `x-` are put where OpenAPI wants them, and every answer gets an example.
import { mediaExamples, type SchemaNode } from './examples.ts'

interface Media {
  schema?: SchemaNode & { 'x-optional'?: true }
  example?: unknown
  examples?: object
}

interface Header {
  required?: true
  schema: { 'x-required'?: true }
}

interface Operation {
  parameters?: object[]
  requestBody?: { required?: boolean; content: Record<string, Media> }
  responses: Record<string, { headers?: Record<string, Header>; content?: Record<string, Media> }>
  /** Parameters and a body that are documented, and that nothing checks. */
  'x-request'?: { parameters: object[]; requestBody: NonNullable<Operation['requestBody']> }
}

/** For the generator: completes the document that it has made. */
export function completeDocument(document: { paths?: object }): void {
  for (const operations of Object.values(document.paths ?? {}) as Record<string, Operation>[])
    for (const operation of Object.values(operations)) completeOperation(operation)
}

function completeOperation(operation: Operation): void {
  moveRequest(operation)
  if (operation.requestBody) completeBody(operation.requestBody)
  for (const [status, { headers = {}, content = {} }] of Object.entries(operation.responses)) {
    for (const header of Object.values(headers)) moveRequired(header)
    if (status.startsWith('2')) for (const media of Object.values(content)) addExample(media)
  }
}

function moveRequest(operation: Operation): void {
  const { 'x-request': request } = operation
  if (!request) return
  const { parameters, requestBody } = structuredClone(request)
  operation.parameters = [...(operation.parameters ?? []), ...parameters]
  operation.requestBody = requestBody
  delete operation['x-request']
}

/** The generator takes every body for one that has to be there. */
function completeBody(body: NonNullable<Operation['requestBody']>): void {
  for (const media of Object.values(body.content)) {
    addExample(media)
    if (!media.schema?.['x-optional']) continue
    body.required = false
    delete media.schema['x-optional']
  }
}

function moveRequired(header: Header): void {
  if (!header.schema['x-required']) return
  header.required = true
  delete header.schema['x-required']
}

function addExample(media: Media): void {
  if (media.example !== undefined || media.examples || !media.schema) return
  Object.assign(media, mediaExamples(media.schema))
}
