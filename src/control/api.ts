// The type of the Fastify instance that routes are added to, and what each route says of itself: who may call it, and which
// problems it answers beyond those that every route may.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ErrorCode } from '../base/errors.ts'
import type { RouteLimit } from './admission.ts'
import type { Scope } from './auth/principal.ts'

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the caller's credential must allow; 'public': no credential is asked for. Every route has to say it. */
    access?: Scope | 'public'
    /** How often callers may come; without it as reading (`relaxed`) or as changing something (`default`), by the method. */
    limit?: RouteLimit
    /** False: a POST that needs no `Idempotency-Key`. */
    idempotencyKey?: false
    /** Problems of this route beside those that follow from its form. */
    problems?: readonly ErrorCode[]
  }
}
