#!/usr/bin/env node
// The door to the program, readable by any Node: an older one cannot even load the TypeScript behind it, and is told so.
const [major, minor] = process.versions.node.split('.').map(Number)

// Host names are looked up on these threads. With Node's default of four, one tenant's name server that does not answer would hold
// up everybody's new connections.
process.env.UV_THREADPOOL_SIZE ??= '32'

if (major > 24 || (major === 24 && minor >= 16)) {
  await import('../src/cli/main.ts')
} else {
  console.error(`Streaming Hub needs Node 24.16 or newer, and this is Node ${process.versions.node}.`)
  process.exitCode = 1
}
