import { IS_LONG } from '../runs.ts'
import { recordings, type Recording } from './recordings.ts'
import { frameDataOf } from './response-content.ts'

/** Members whose texts are values of a list; of others it matters only whether they are empty. */
const LISTED = /^(?:type|role|status|object|code|.*_reason|.*Reason)$/

/** Adds each member of a response with its path, its type, and its value where that is one of a list. */
function addMembers(value: unknown, path: string, members: Set<string>): void {
  if (Array.isArray(value)) {
    if (value.length === 0) members.add(`${path}[]`)
    for (const element of value) addMembers(element, `${path}[]`, members)
    return
  }
  if (typeof value === 'object' && value !== null) {
    const { type } = value as { type?: unknown }
    const at = typeof type === 'string' ? `${path}(${type})` : path
    for (const [name, member] of Object.entries(value)) addMembers(member, `${at}.${name}`, members)
    return
  }
  const name = /\w*$/.exec(path.replaceAll('[]', ''))![0]
  const kind = value === null ? 'null' : value === '' || value === 0 ? `no ${typeof value}` : typeof value
  members.add(`${path}=${LISTED.test(name) ? String(value) : kind}`)
}

const seen = new Set<string>()
const distinct = new Set<Recording>()
for (const recording of recordings()) {
  const { protocol, status, stream } = recording
  const text = new TextDecoder().decode(recording.response())
  const members = new Set<string>()
  for (const data of stream ? frameDataOf(text) : [JSON.parse(text)])
    addMembers(data, `${protocol} ${status} ${stream}`, members)
  if (members.difference(seen).size === 0) continue
  distinct.add(recording)
  for (const member of members) seen.add(member)
}

/**
 * True for a response that has a member, a type or a listed value which no recording before it has: two fifths of all.
 * The tests that cost most have only these, except in long runs.
 */
export const isDistinct = (recording: Recording): boolean => IS_LONG || distinct.has(recording)
