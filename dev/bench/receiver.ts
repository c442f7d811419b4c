// The other end of the benches: a bare HTTP server in a process of its own. It takes what comes and says ok, under /slow only after
// half a minute; of what comes under /timed it tells its parent which event it was and when it came.
import { createServer } from 'node:http'

const SLOW_MS = 30_000

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    if (request.url === '/timed') process.send?.({ id: request.headers['x-lerian-event-id'], at: Date.now() })
    if (request.url === '/slow') setTimeout(() => response.end('ok'), SLOW_MS)
    else response.end('ok')
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address) process.send?.(address.port)
})
process.on('disconnect', () => process.exit())
