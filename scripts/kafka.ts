// `npm run kafka`: a real one-node Apache Kafka on loopback, for as long as this command runs. With KAFKA_BROKERS set there is a
// broker already, and nothing is started.
import { startKafka } from '../dev/kafka.ts'

const given = process.env['KAFKA_BROKERS'] ?? process.env['STREAMING_HUB_KAFKA_BROKERS']
if (given) {
  console.log(`KAFKA_BROKERS is set: use the broker at ${given}. Nothing was started.`)
} else {
  await serve()
}

async function serve(): Promise<void> {
  console.log('Starting Apache Kafka (the first time, Maven fetches it: about 45 MB) …')
  const kafka = await startKafka().catch((error: Error) => {
    console.error(error.message)
    process.exit(1)
  })
  console.log(`Kafka listens on ${kafka.brokers[0]}. Start the hub beside it with`)
  console.log(`  STREAMING_HUB_KAFKA_BROKERS=${kafka.brokers[0]} npm start`)
  console.log('Ctrl-C ends Kafka and removes its data.')
  await new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve))
  await kafka.stop()
}
