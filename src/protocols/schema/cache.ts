import type { Tool } from '../../generation/request.ts'
import type { LossCode } from '../loss-codes.ts'
import type { Translation } from '../translation.ts'
import { refusingAt, type SchemaBudget } from './schema.ts'

export type FunctionTool = Tool & { type: 'function' }

/** A loss of a tool's schema or of its strictness. */
export type SchemaLoss = { code: LossCode; field: 'parameters' | 'strict'; reason: string }

/** Writes the schema of a tool for one kind of provider; `lose` reports what the provider does not know. */
export type SchemaWriter<T> = (tool: FunctionTool, budget: SchemaBudget, lose: (loss: SchemaLoss) => void) => T

/** Limits in characters, received and written text together: of all cached schemas, and of one. */
const CACHE_CHARACTERS_MAX = 4 * 1024 * 1024
const ENTRY_CHARACTERS_MAX = 128 * 1024

type Entry = { written: unknown; losses: readonly SchemaLoss[]; size: number }

/**
 * A cache of written tool schemas, since agents send the same tools with each request. The returned values are shared
 * and must not be changed.
 */
export class SchemaCache {
  readonly #entries = new Map<SchemaWriter<unknown>, Map<string, Entry>>()
  #characters = 0

  /** Throws invalid_request with the path of a schema that the provider cannot accept. */
  write<T>(writer: SchemaWriter<T>, tool: FunctionTool, translation: Translation): T {
    const entries = this.#entriesOf(writer)
    const key = JSON.stringify([tool.name, tool.strict, tool.parameters])
    const entry =
      entries.get(key) ??
      refusingAt(translation.at(tool, 'parameters'), () => this.#written(writer, tool, translation.schemaBudget, key))
    for (const { code, field, reason } of entry.losses) translation.lose(code, translation.at(tool, field), reason)
    return entry.written as T
  }

  #entriesOf(writer: SchemaWriter<unknown>): Map<string, Entry> {
    const entries = this.#entries.get(writer) ?? new Map<string, Entry>()
    this.#entries.set(writer, entries)
    return entries
  }

  #written<T>(writer: SchemaWriter<T>, tool: FunctionTool, budget: SchemaBudget, key: string): Entry {
    const losses: SchemaLoss[] = []
    const written = writer(tool, budget, (loss) => losses.push(loss))
    const entry = { written, losses, size: key.length + JSON.stringify(written).length }
    // A schema that exceeded the budget of this request may be complete in another.
    if (!budget.exceeded && entry.size <= ENTRY_CHARACTERS_MAX) this.#add(this.#entriesOf(writer), key, entry)
    return entry
  }

  #add(entries: Map<string, Entry>, key: string, entry: Entry): void {
    entries.set(key, entry)
    this.#characters += entry.size
    for (const all of this.#entries.values())
      for (const [oldest, { size }] of all) {
        if (this.#characters <= CACHE_CHARACTERS_MAX) return
        all.delete(oldest)
        this.#characters -= size
      }
  }
}
