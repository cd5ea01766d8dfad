import { createHash } from 'node:crypto'
import type { GenerationRequest } from '../generation/request.ts'

/** OpenAI takes no longer names of tools. */
const LONGEST = 64

/** A tool name in letters, digits, `_` and `-` that OpenAI's protocols take; another is cut and marked by a hash of itself, the same in every request. */
export const wireName = (name: string): string => {
  if (/^[\w-]{1,64}$/.test(name)) return name
  return `${name.replace(/[^\w-]/g, '_').slice(0, LONGEST - 9)}_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`
}

/** The names of the client's tools that had to be written in another way, by what was written. */
export const renamedTools = (request: GenerationRequest | undefined): ReadonlyMap<string, string> =>
  new Map((request?.tools ?? []).flatMap((tool): [string, string][] => (tool.type === 'foreign' || wireName(tool.name) === tool.name ? [] : [[wireName(tool.name), tool.name]])))
