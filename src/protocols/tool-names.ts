import { createHash } from 'node:crypto'
import type { Mend } from './transforms.ts'

/** OpenAI takes no longer names of tools. */
const LONGEST = 64

/**
 * A tool name in letters, digits, `_` and `-` that OpenAI's protocols take; another is cut and marked by a hash of
 * itself, the same in every request.
 */
export const wireName = (name: string): string => {
  if (/^[\w-]{1,64}$/.test(name)) return name
  return `${name.replace(/[^\w-]/g, '_').slice(0, LONGEST - 9)}_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`
}

/** Tools are called by the names that the client gave them, where those had to be written in another way. */
export const renaming: Mend = ({ tools }) => {
  const names = new Map(
    tools.flatMap((tool): [string, string][] =>
      tool.type === 'native' || wireName(tool.name) === tool.name ? [] : [[wireName(tool.name), tool.name]],
    ),
  )
  if (names.size === 0) return undefined
  return (events) =>
    events.map((event) => {
      if (event.type !== 'part-start' || event.head.type !== 'tool-call') return event
      return { ...event, head: { ...event.head, name: names.get(event.head.name) ?? event.head.name } }
    })
}
