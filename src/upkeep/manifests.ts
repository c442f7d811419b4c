// Fetches producers' manifests, for the catalog. What cannot be had leaves what was had before; the chore then fails, so that operators
// learn of it as they do of any other.
import { Agent, request } from 'undici'
import { messageOf } from '../base/errors.ts'
import { forgetOtherManifests, saveManifest, type ManifestFetch } from '../store/manifests.ts'
import { readManifest } from './manifest.ts'
import type { Chore } from './upkeep.ts'

const MOST_BYTES = 1024 * 1024
/** Other chores wait for the slowest. */
const ANSWER_MS = 5_000

export interface ManifestOptions {
  urls: readonly string[]
  everyMs: number
  /** `ANSWER_MS` where it is not given. */
  answerMs?: number
}

export function manifestsChore({ urls, everyMs, answerMs = ANSWER_MS }: ManifestOptions): Chore {
  return {
    name: 'manifests',
    everyMs,
    stepwise: true,
    run: async (db, now, stopping) => {
      const forgotten = await forgetOtherManifests(db, urls)
      const signal = AbortSignal.any([AbortSignal.timeout(answerMs), stopping])
      const results = await Promise.all(urls.map((url) => fetchManifest(url, signal)))
      if (stopping.aborted) return null
      const fetches = urls.map((url, place): ManifestFetch => ({ url, place, at: now, result: results[place]! }))
      for (const fetch of fetches) await saveManifest(db, fetch)
      const problems = fetches.flatMap(({ url, result }) => ('problem' in result ? [`${url}: ${result.problem}`] : []))
      if (problems.length > 0) throw new Error(problems.join('; '))
      const leftOut = fetches.reduce((sum, { result }) => sum + ('leftOut' in result ? result.leftOut.length : 0), 0)
      return forgotten + leftOut > 0 ? { forgotten, left_out: leftOut } : null
    },
  }
}

/** Redirects are not followed: the address is the operators' to name. */
async function fetchManifest(url: string, signal: AbortSignal): Promise<ManifestFetch['result']> {
  const agent = new Agent({ maxResponseSize: MOST_BYTES })
  try {
    const headers = { accept: 'application/json' }
    const { statusCode, body } = await request(url, { dispatcher: agent, headers, signal })
    if (statusCode !== 200) return { problem: `it was answered with the status ${statusCode}` }
    const read = readManifest(Buffer.from(await body.arrayBuffer()))
    return typeof read === 'string' ? { problem: read } : read
  } catch (error) {
    return { problem: signal.aborted ? 'it did not answer in time' : messageOf(error) }
  } finally {
    await agent.destroy()
  }
}
