// The query of a request, read strictly: a parameter that nobody knows is a filter that would not be applied, and one that cannot be
// decoded another than was meant.
import type { FastifyRequest, RouteOptions } from 'fastify'
import { Type } from 'typebox'
import type { Fault } from '../base/errors.ts'
import { invalid } from './validation.ts'

const NoQuery = Type.Object({}, { additionalProperties: false })

/** Makes a route refuse parameters that it does not name, and those that are not percent-encoded UTF-8. */
export function refuseBrokenQueries(route: RouteOptions): void {
  const schema = (route.schema ??= {})
  schema.querystring ??= NoQuery
  route.preValidation = [refuseUndecodable, ...[route.preValidation ?? []].flat()]
}

async function refuseUndecodable({ raw }: FastifyRequest): Promise<void> {
  const [, query = ''] = /\?(.*)$/.exec(raw.url ?? '') ?? []
  const faults = query.split('&').flatMap(faultsOfPair)
  if (faults.length > 0) throw invalid(faults)
}

function faultsOfPair(pair: string): Fault[] {
  const [name = ''] = pair.split('=', 1)
  if (isDecodable(pair)) return []
  return [{ path: `?${isDecodable(name) ? decodeURIComponent(name) : name}`, message: 'must be percent-encoded UTF-8' }]
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
