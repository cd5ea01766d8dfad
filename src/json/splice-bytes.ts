import type { BodyMember } from './body-scan.ts'

/** A body in pieces: bytes of the client's body, and texts put between them. */
export type BodyPieces = readonly (Uint8Array | string)[]

/**
 * The bytes of an object with members set to JSON texts or, where `undefined`, removed; as `splice` does for a text.
 * Without removals, all other bytes stay; with them, whitespace between the members is left out.
 */
export function spliceBytes(
  bytes: Uint8Array,
  members: readonly BodyMember[],
  changes: Readonly<Record<string, string | undefined>>,
): BodyPieces {
  const names = Object.keys(changes)
  const present = members.filter(({ name }) => names.includes(name))
  const added = names
    .filter((name) => changes[name] !== undefined && !present.some((member) => member.name === name))
    .map((name) => `${JSON.stringify(name)}:${changes[name]}`)
  if (present.some(({ name }) => changes[name] === undefined)) return rebuilt(bytes, members, changes, added)
  const pieces: (Uint8Array | string)[] = []
  let from = 0
  if (added.length > 0) {
    from = members[0] === undefined ? bytes.lastIndexOf(CLOSE_BRACE) : members[0].nameAt
    pieces.push(bytes.subarray(0, from), added.join(',') + (members.length === 0 ? '' : ','))
  }
  for (const { name, start, end } of present) {
    pieces.push(bytes.subarray(from, start), changes[name]!)
    from = end
  }
  pieces.push(bytes.subarray(from))
  return pieces
}

const CLOSE_BRACE = 125

function rebuilt(
  bytes: Uint8Array,
  members: readonly BodyMember[],
  changes: Readonly<Record<string, string | undefined>>,
  added: readonly string[],
): BodyPieces {
  const pieces: (Uint8Array | string)[] = []
  let separator = '{'
  for (const member of added) {
    pieces.push(separator + member)
    separator = ','
  }
  for (const { name, nameAt, start, end } of members) {
    const isChanged = Object.hasOwn(changes, name)
    const value = isChanged ? changes[name] : undefined
    if (isChanged && value === undefined) continue
    pieces.push(separator)
    if (value === undefined) pieces.push(bytes.subarray(nameAt, end))
    else pieces.push(bytes.subarray(nameAt, start), value)
    separator = ','
  }
  pieces.push(separator === '{' ? '{}' : '}')
  return pieces
}
