import { basename } from 'node:path'
import { LineCounter, parseDocument } from 'yaml'
import type { Config } from './config.ts'
import { readFile } from './load.ts'
import { Source, TooManyValues, type Problem } from './location.ts'
import { FILE } from './schema.ts'
import { type ReadFile, toConfig } from './settings.ts'

/** Settings made at run time, as sluice.yaml would have them, in JSON. */
export type SettingsLayer = Record<string, unknown>

/** The configuration file, which wins over what was set at run time. */
export class ConfigFile {
  /** For people: `sluice.yaml`. */
  readonly name: string
  readonly #base: Config
  readonly #lines: ReadonlyMap<string, number>

  constructor(base: Config) {
    this.#base = base
    this.name = basename(base.file ?? 'sluice.yaml')
    this.#lines = this.#read().source.lines
  }

  /** `sluice.yaml:12` for a path that the file has; undefined for any other. */
  whereIs(path: string): string | undefined {
    const line = this.#lines.get(path)
    return line === undefined ? undefined : `${this.name}:${line}`
  }

  /** The paths of settings that the file has, without values. */
  paths(): IterableIterator<string> {
    return this.#lines.keys()
  }

  /** The configuration with what was set at run time, and the problems with that. */
  with(layer: SettingsLayer): { config: Config | undefined; problems: Problem[] } {
    const { source, read } = this.#read()
    const lines = new LineCounter()
    const text = JSON.stringify(layer)
    const set = new Source(parseDocument(text, { schema: 'json', lineCounter: lines, uniqueKeys: false }), lines)
    try {
      const root = set.root()
      const readSet = root === undefined ? undefined : FILE.read(root)
      const config = toConfig(merged(read, readSet) as ReadFile, this.#base.env)
      return { config, problems: [...set.problems, ...source.problems] }
    } catch (error) {
      if (error instanceof TooManyValues) return { config: undefined, problems: [error.problem] }
      throw error
    }
  }

  /** The file as it is written, with `${NAME}` in it. */
  written(): Record<string, unknown> {
    const written: unknown = parseDocument(this.#base.text ?? '', { uniqueKeys: false }).toJS()
    return (written ?? {}) as Record<string, unknown>
  }

  #read(): ReturnType<typeof readFile> {
    return readFile(this.#base.text ?? '', this.name, this.#base.env)
  }
}

/** Values of the file before those of the other one: objects whose ids users choose as wholes, settings one by one. */
function merged(file: unknown, set: unknown): unknown {
  if (file === undefined) return set
  if (file instanceof Map && set instanceof Map) return new Map([...set, ...file])
  if (!isMapping(file) || !isMapping(set)) return file
  const both: Record<string, unknown> = Object.assign(Object.create(null), set)
  for (const [name, value] of Object.entries(file)) both[name] = merged(value, set[name])
  return both
}

/** Mappings are read into objects without a prototype. */
const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === null
