import type { ProtocolName } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import type { PartSequence } from './part-sequence.ts'

type Json = Record<string, unknown>

/** A server that invents members without end must not fill the memory. */
const MEMBERS_MAX = 100

/**
 * Members of a response that its reader does not read, each once. They become native content without a value at
 * its end, which writers report as lost.
 */
export class UnreadMembers {
  #found: string[] | undefined

  /** `known`: the members that are read, or that say nothing beyond the response's own bookkeeping. */
  add(object: Json, known: ReadonlySet<string>, prefix = ''): void {
    for (const name in object) {
      if (known.has(name) || saysNothing(object[name])) continue
      this.#found ??= []
      const path = prefix + name
      if (this.#found.length < MEMBERS_MAX && !this.#found.includes(path)) this.#found.push(path)
    }
  }

  writeTo(sequence: PartSequence, protocol: ProtocolName): void {
    for (const kind of this.#found ?? []) sequence.whole({ type: 'native', protocol, kind, value: undefined })
  }
}

/** For members that come from elsewhere in the response. */
export const NO_MEMBERS: ReadonlySet<string> = new Set()

/** A frame may be nested more deeply than a recursive function can follow. */
const LEVELS_MAX = 8

/** Null, `false`, an empty text, and what has nothing else. */
function saysNothing(value: unknown, levels = LEVELS_MAX): boolean {
  if (levels > 0 && Array.isArray(value)) return value.every((element) => saysNothing(element, levels - 1))
  if (!isObject(value)) return value === undefined || value === null || value === '' || value === false
  for (const name in value) if (levels === 0 || !saysNothing(value[name], levels - 1)) return false
  return true
}
