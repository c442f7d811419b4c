// The other end of the bench: a bare HTTP server in a process of its own, which takes what comes and says ok.
import { createServer } from 'node:http'

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => response.end('ok'))
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address) process.send?.(address.port)
})
process.on('disconnect', () => process.exit())
