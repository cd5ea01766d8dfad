import type { Tool } from '../../generation/request.ts'
import type { LossCode } from '../loss-codes.ts'
import type { Translation } from '../translation.ts'
import { refusingAt, type SchemaBudget } from './schema.ts'

export type FunctionTool = Tool & { type: 'function' }

/** A loss of a tool's schema or of its strictness. */
export type SchemaLoss = { code: LossCode; field: 'parameters' | 'strict'; reason: string }

/** Writes the schema of a tool for one kind of provider; `lose` reports what the provider does not know. */
export type SchemaWriter<T> = (tool: FunctionTool, budget: SchemaBudget, lose: (loss: SchemaLoss) => void) => T

/** Characters of all remembered schemas, as they came and as they are written, and of the largest. */
const ALL_CHARACTERS = 4 * 1024 * 1024
const ONE_CHARACTERS = 128 * 1024

type Entry = { written: unknown; losses: readonly SchemaLoss[]; size: number }

/**
 * The schemas of tools that were written last: agents send the same tools with each of their requests. What it returns
 * is shared and must not be changed.
 */
export class SchemaCache {
  readonly #known = new Map<SchemaWriter<unknown>, Map<string, Entry>>()
  #characters = 0

  /** Throws invalid_request with the path of the schema for one that the provider cannot be sent. */
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
    const entries = this.#known.get(writer) ?? new Map<string, Entry>()
    this.#known.set(writer, entries)
    return entries
  }

  #written<T>(writer: SchemaWriter<T>, tool: FunctionTool, budget: SchemaBudget, key: string): Entry {
    const losses: SchemaLoss[] = []
    const written = writer(tool, budget, (loss) => losses.push(loss))
    const entry = { written, losses, size: key.length + JSON.stringify(written).length }
    // A schema that was cut short by the budget of its request may come out whole in the next.
    if (!budget.exceeded && entry.size <= ONE_CHARACTERS) this.#remember(this.#entriesOf(writer), key, entry)
    return entry
  }

  #remember(entries: Map<string, Entry>, key: string, entry: Entry): void {
    entries.set(key, entry)
    this.#characters += entry.size
    for (const all of this.#known.values())
      for (const [oldest, { size }] of all) {
        if (this.#characters <= ALL_CHARACTERS) return
        all.delete(oldest)
        this.#characters -= size
      }
  }
}
