// `streaming-hub listen`: a webhook receiver on loopback that shows what it is sent, until Ctrl-C.
import { startReceiver } from '../../dev/sample-receiver.ts'
import { arrivalLine } from './arrival.ts'

export async function listen({ port, secret }: { port: string; secret?: string }): Promise<void> {
  const receiver = await startReceiver({
    port: Number(port),
    onArrival: (arrival) => console.log(`${new Date().toISOString()}  ${arrivalLine(arrival)}`),
  })
  if (secret !== undefined) receiver.trust(secret)
  console.log(`Listening on ${receiver.url} Ctrl-C stops it.`)
  await new Promise((stop) => process.once('SIGINT', stop).once('SIGTERM', stop))
  await receiver.stop()
}
