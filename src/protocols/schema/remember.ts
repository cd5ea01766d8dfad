import type { Tool } from '../../generation/request.ts'
import type { Loss } from '../protocol.ts'
import { affords } from './schema.ts'

type FunctionTool = Tool & { type: 'function' }
type Writer<T> = (tool: FunctionTool, losses: Loss[]) => T

/**
 * Characters of the schemas that one writer remembers, as they came and as they are written, and of the largest: in
 * memory they take a few times as much.
 */
const ALL_CHARACTERS = 4 * 1024 * 1024
const ONE_CHARACTERS = 128 * 1024

/**
 * A writer of tools' schemas that remembers what it wrote last: agents send the same tools with each of their requests.
 * What it gives is shared, and not to be changed.
 */
export function remembering<T>(write: Writer<T>): Writer<T> {
  const known = new Map<string, { written: T; losses: readonly Loss[]; size: number }>()
  let characters = 0
  const remember = (key: string, written: T, losses: readonly Loss[]): void => {
    const size = key.length + JSON.stringify(written).length
    if (size > ONE_CHARACTERS) return
    known.set(key, { written, losses, size })
    characters += size
    for (const [oldest, { size }] of known) {
      if (characters <= ALL_CHARACTERS) return
      known.delete(oldest)
      characters -= size
    }
  }
  return (tool, losses) => {
    const key = JSON.stringify([tool.name, tool.strict, tool.parameters])
    const found = known.get(key)
    if (found !== undefined) {
      for (const loss of found.losses) losses.push(loss)
      return found.written
    }
    const lost: Loss[] = []
    const written = write(tool, lost)
    for (const loss of lost) losses.push(loss)
    // What was cut short by the bounds of its request may come out whole in the next.
    if (affords('steps', 0) && affords('characters', 0)) remember(key, written, lost)
    return written
  }
}
