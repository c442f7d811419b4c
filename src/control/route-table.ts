// Which methods a path takes: what the router itself does not tell of a path that it knows under other methods only.
import type { RouteOptions } from 'fastify'

export class RouteTable {
  readonly #routes: { path: RegExp; methods: string[] }[] = []

  add({ url, method }: Pick<RouteOptions, 'url' | 'method'>): void {
    this.#routes.push({ path: pathPattern(url), methods: [method].flat() })
  }

  /** Of a request's URL, sorted; none where no route has the path. */
  methodsOf(url: string): string[] {
    const path = url.split('?', 1)[0] ?? ''
    const methods = this.#routes.filter((route) => route.path.test(path)).flatMap((route) => route.methods)
    return [...new Set(methods)].sort()
  }
}

function pathPattern(template: string): RegExp {
  const segments = template.split('/').map((segment) => {
    if (segment === '*') return '.*'
    return segment.startsWith(':') ? '[^/]+' : RegExp.escape(segment)
  })
  return new RegExp(`^${segments.join('/')}/?$`)
}
