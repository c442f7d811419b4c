// One line for each request that a sample receiver takes.
import type { Arrival } from '../../dev/sample-receiver.ts'

export function arrivalLine(arrival: Arrival): string {
  if (arrival.kind === 'challenge') return 'answered the verification challenge'
  return [
    arrival.eventType.padEnd(26),
    `attempt ${arrival.attempt}`,
    `signature ${arrival.signature}`,
    `answered ${arrival.answered}${arrival.repeated ? ' (had it already)' : ''}`,
    arrival.body.toString().slice(0, 100),
  ].join('  ')
}
