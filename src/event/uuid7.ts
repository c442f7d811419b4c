// `ce-id` is a UUID of version 7 (RFC 9562), because such an id carries its time and so puts the event into its week's partition.
// Only the form is checked: an absurd time (48 bits reach the year 10889) is a valid id.

const UUID7 = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{12}$/i

/** Whether `text` is the canonical form (36 characters, either letter case) of a version 7 UUID of RFC 9562's variant. */
export function isUuid7(text: string): boolean {
  return UUID7.test(text)
}

/** What a UUID that is not a version 7 is, for a person: `a UUID of version 4`; null where `text` is no UUID at all. */
export function describeUuid(text: string): string | null {
  const [, version, variant] = UUID.exec(text) ?? []
  if (version === undefined || variant === undefined) return null
  return '89ab'.includes(variant.toLowerCase())
    ? `a UUID of version ${version}`
    : "a UUID, but not of RFC 9562's variant"
}
