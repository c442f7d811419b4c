// What a one-node Kafka for tests is told: loopback only, everything replicated once, small internal topics, no waiting for more
// members when a group is new, and sessions as short as a test wants them.

export interface KafkaPorts {
  client: number
  controller: number
  /** Of a second listener for clients, SASL_SSL. */
  secure?: number
}

/** The text of a `server.properties`; `more` is laid over the defaults. */
export function serverProperties(ports: KafkaPorts, more: Record<string, string>): string {
  const forClients = [
    `PLAINTEXT://127.0.0.1:${ports.client}`,
    ...(ports.secure === undefined ? [] : [`SASL_SSL://127.0.0.1:${ports.secure}`]),
  ].join()
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    listeners: `${forClients},CONTROLLER://127.0.0.1:${ports.controller}`,
    'advertised.listeners': forClients,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT',
    'offsets.topic.num.partitions': '1',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.num.partitions': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    'group.min.session.timeout.ms': '500',
    // A killed broker may come back only after its session with the controller has run out.
    'broker.session.timeout.ms': '1500',
    'broker.heartbeat.interval.ms': '300',
    'num.partitions': '1',
    'log.cleaner.dedupe.buffer.size': '8388608',
    ...more,
  }
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')
}

/** log4j's configuration: warnings and worse, into `file`. */
export function loggingConfiguration(file: string): string {
  return `<Configuration status="OFF">
  <Appenders>
    <File name="file" fileName="${file}"><PatternLayout pattern="%d %p %c{1} %m%n"/></File>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
`
}
