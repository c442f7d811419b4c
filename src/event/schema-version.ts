// `ce-schemaversion` says which version of its schema a body follows. Matching uses its major alone, so the reading is as strict
// about the major as semver is and lenient about what else is missing: `2`, `3.1`, `v1`, `1.4.2-rc.1+build.5`.

/** The longest version, in bytes. */
const MAX_SCHEMA_VERSION_BYTES = 64

/** What the database's integer holds. */
const MAX_MAJOR = 2 ** 31 - 1

const NUMBER = '(?:0|[1-9][0-9]*)'
// A numeric identifier has no leading zero; one with a letter or hyphen may start as it likes.
const PRERELEASE = `(?:${NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`
const BUILD = '[0-9A-Za-z-]+'
const VERSION = new RegExp(
  `^v?(${NUMBER})(?:\\.${NUMBER}){0,2}(?:-${PRERELEASE}(?:\\.${PRERELEASE})*)?(?:\\+${BUILD}(?:\\.${BUILD})*)?$`,
)

/** The major of a semver-like version, with or without a leading `v`; null where `text` is none, or is longer than 64 bytes. */
export function schemaMajor(text: string): number | null {
  if (text.length > MAX_SCHEMA_VERSION_BYTES) return null
  const major = VERSION.exec(text)?.[1]
  if (major === undefined) return null
  return Number(major) <= MAX_MAJOR ? Number(major) : null
}
