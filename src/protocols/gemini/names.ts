import { createHash } from 'node:crypto'
import type { GenerationRequest } from '../../generation/request.ts'

/** Google's grammar for function names: a letter or underscore first, 64 characters at most. */
const NAME = /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/

/**
 * A function name as Google takes it; a foreign one is cut and marked by a hash of itself, the same in every request.
 */
export const wireName = (name: string): string =>
  NAME.test(name)
    ? name
    : `_${name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 50)}_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`

/** The client's names and kinds of its tools, by the names that we sent. */
export function clientTools(
  request: GenerationRequest | undefined,
): Map<string, { name: string; form: 'function' | 'custom' }> {
  const tools = new Map<string, { name: string; form: 'function' | 'custom' }>()
  for (const tool of request?.tools ?? [])
    if (tool.type !== 'native') tools.set(wireName(tool.name), { name: tool.name, form: tool.type })
  return tools
}
