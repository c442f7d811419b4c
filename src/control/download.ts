// Bytes that came from outside, as a file to be saved: never as something that a browser would show or run.
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { HubError } from '../base/errors.ts'
import { answer } from './schemas/answers.ts'

/** For a route's documentation. */
export const Download = answer(
  {
    description: 'The bytes as they came',
    content: {
      'application/octet-stream': {
        schema: Type.String({ description: 'Any bytes.' }),
        example: '{"amount": "1500.00", "currency": "BRL"}',
      },
    },
  },
  { headers: ['content-disposition'] },
)

/** `name` is the file's, of letters, digits, dots and hyphens. A record without a body has nothing to be saved. */
export async function sendDownload(reply: FastifyReply, name: string, bytes: Buffer | null): Promise<FastifyReply> {
  if (bytes === null) throw new HubError('not_found', 'The record has no body.')
  return await reply
    .type('application/octet-stream')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(bytes)
}
