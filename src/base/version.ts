// The program's version, as package.json states it: in the user-agent of deliveries, in the API's document, in `--version`.
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version
