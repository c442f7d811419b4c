// `streaming-hub listen`: a webhook receiver on loopback that shows what it is sent, until Ctrl-C.
import { startReceiver } from '../../dev/sample-receiver.ts'
import { arrivalLine } from './arrival.ts'
import { interrupted } from './interrupted.ts'

export async function listen({ port, secret }: { port: string; secret?: string }): Promise<void> {
  const receiver = await startReceiver({
    port: Number(port),
    onArrival: (arrival) => console.log(`${new Date().toISOString()}  ${arrivalLine(arrival)}`),
  })
  if (secret !== undefined) receiver.trust(secret)
  console.log(`Listening on ${receiver.url} Ctrl-C stops it.`)
  await interrupted()
  await receiver.stop()
}
