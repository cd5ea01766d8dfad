import { createHash } from 'node:crypto'
import type { Tool } from '../../generation/request.ts'
import type { Quirks } from '../protocol.ts'
import { wireName } from '../tool-names.ts'

/** OpenAI takes no longer ids than this. */
const LONGEST = 64

/** A call id that fits; the same on both sides of a pair. */
export function fittingId(id: string, { callIds }: Quirks): string {
  if (callIds !== 'alphanumeric-9')
    return id.length <= LONGEST ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`
  return /^[a-zA-Z0-9]{9}$/.test(id)
    ? id
    : createHash('sha256')
        .update(id)
        .digest('base64')
        .replace(/[^a-zA-Z0-9]/g, '')
        .slice(0, 9)
}

/** The names of one request's tools as the provider has them, and back. */
export class ToolNames {
  readonly #byWireName = new Map<string, string>()
  readonly #wrapped = new Set<string>()

  constructor(tools: Tool[], quirks: Quirks) {
    for (const tool of tools) {
      if (tool.type === 'native') continue
      this.#byWireName.set(wireName(tool.name), tool.name)
      if (tool.type === 'custom' && quirks.customTools !== true) this.#wrapped.add(tool.name)
    }
  }

  /** `wrapped`: the client's custom tool travelled as a function with one string, `input`. */
  read(rawRequest: string): { name: string; wrapped: boolean } {
    const name = this.#byWireName.get(rawRequest) ?? rawRequest
    return { name, wrapped: this.#wrapped.has(name) }
  }
}
