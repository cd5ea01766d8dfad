import { isAlias, isMap, isScalar, isSeq, visit, type Document, type LineCounter, type Node } from 'yaml'

export type Problem = { line: number; column: number; path: string; message: string }

/** The limit on values after aliases are expanded, which can multiply a small file. */
const MAX_VALUES = 20_000

/** The file has too many values to be read. */
export class TooManyValues extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.message)
    this.problem = problem
  }
}

/** The file being read. It collects problems, and has the environment variables. */
export class Source {
  readonly problems: Problem[] = []
  /** The line of each key, by its path. */
  readonly lines = new Map<string, number>()
  /** Undefined where `${NAME}` is literal text. */
  readonly env: Record<string, string | undefined> | undefined
  readonly #document: Document
  readonly #lines: LineCounter
  #anchors: Map<string, Node[]> | undefined
  #values = 0

  constructor(document: Document, lines: LineCounter, env?: Record<string, string | undefined>) {
    this.#document = document
    this.#lines = lines
    this.env = env
  }

  root(): ConfigLocation | undefined {
    return this.locate(this.#document.contents, '', 0)
  }

  /** Adds a problem. */
  report(offset: number, path: string, message: string): undefined {
    this.problems.push(this.#problem(offset, path, message))
    return undefined
  }

  locateKey(path: string, offset: number): void {
    this.lines.set(path, Math.max(this.#lines.linePos(offset).line, 1))
  }

  #problem(offset: number, path: string, message: string): Problem {
    const { line, col } = this.#lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1), path, message }
  }

  /** The location of a node, with aliases resolved; undefined after a problem. Throws TooManyValues. */
  locate(node: unknown, path: string, offset: number): ConfigLocation | undefined {
    const at = startOf(node) ?? offset
    if (++this.#values > MAX_VALUES)
      throw new TooManyValues(this.#problem(at, path, `expands to more than ${MAX_VALUES} values`))
    if (!isAlias(node)) return new ConfigLocation(this, node as Node | null, path, at)
    const target = this.#anchored(node.source, at)
    return target === undefined
      ? this.report(at, path, `refers to the anchor ${node.source}, which is not defined before it`)
      : new ConfigLocation(this, target, path, at)
  }

  /** The last node with this anchor before an offset. The search of the YAML library is linear for each alias. */
  #anchored(name: string, before: number): Node | undefined {
    if (this.#anchors === undefined) {
      const anchors = (this.#anchors = new Map<string, Node[]>())
      visit(this.#document, {
        Node: (_, node) => {
          if (!isAlias(node) && node.anchor !== undefined)
            anchors.set(node.anchor, [...(anchors.get(node.anchor) ?? []), node])
        },
      })
    }
    return this.#anchors.get(name)?.findLast((node) => (startOf(node) ?? 0) < before)
  }
}

const startOf = (node: unknown): number | undefined => (node as Node | null)?.range?.[0]

/** One value in the file with its path and position. */
export class ConfigLocation {
  readonly source: Source
  readonly node: Node | null
  readonly path: string
  readonly offset: number

  constructor(source: Source, node: Node | null, path: string, offset: number) {
    this.source = source
    this.node = node
    this.path = path
    this.offset = offset
  }

  /** Reports a problem at this location. */
  fail(message: string): undefined {
    return this.source.report(this.offset, this.path, message)
  }

  /** True if there is no value after the colon. */
  get empty(): boolean {
    return this.node === null || (isScalar(this.node) && this.node.value === null)
  }

  get scalar(): unknown {
    return isScalar(this.node) ? this.node.value : undefined
  }

  /** The kind of value for error messages, which never contain the value itself: it may be a secret. */
  get kind(): string {
    if (this.empty) return 'nothing'
    if (isMap(this.node)) return 'a mapping'
    if (isSeq(this.node)) return 'a list'
    const value = this.scalar
    return typeof value === 'string'
      ? 'a string'
      : typeof value === 'number'
        ? 'a number'
        : typeof value === 'boolean'
          ? 'true or false'
          : 'a value of another kind'
  }

  /** The members of a mapping. */
  *members(): Generator<{ key: string; keyOffset: number; location: ConfigLocation }> {
    if (!isMap(this.node)) return
    const seen = new Set<string>()
    for (const pair of this.node.items) {
      const offset = startOf(pair.key) ?? this.offset
      const key = keyText(pair.key)
      if (key === undefined) {
        this.source.report(offset, this.path, 'has a key that is not a plain name')
        continue
      }
      if (seen.has(key)) this.source.report(offset, this.path, `has the key ${JSON.stringify(key.slice(0, 80))} twice`)
      seen.add(key)
      const location = this.source.locate(pair.value, this.path === '' ? key : `${this.path}.${key}`, offset)
      if (location === undefined) continue
      this.source.locateKey(location.path, offset)
      yield { key, keyOffset: offset, location }
    }
  }

  /** The elements of a list. */
  *elements(): Generator<ConfigLocation> {
    if (!isSeq(this.node)) return
    for (const [index, item] of this.node.items.entries()) {
      const location = this.source.locate(item, `${this.path}[${index}]`, this.offset)
      if (location !== undefined) yield location
    }
  }

  /** A string with environment variables expanded; undefined after a problem. `what`: the expected value. */
  text(what: string): string | undefined {
    if (typeof this.scalar !== 'string')
      return this.fail(
        `must be ${what}, not ${this.kind}${isScalar(this.node) && !this.empty ? ': put it in quotes' : ''}`,
      )
    return this.expand(this.scalar)
  }

  /** Expands `${NAME}` and `${NAME:-default}`. As in a shell, the default also replaces an empty variable. */
  expand(text: string): string | undefined {
    const { env } = this.source
    if (env === undefined) return text
    let complete = true
    const expanded = text.replace(
      /\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^{}]*))?\}|\$\{/g,
      (whole, name?: string, fallback?: string, value?: string) => {
        const set = name === undefined || !Object.hasOwn(env, name) ? undefined : env[name]
        if (name !== undefined && fallback !== undefined) return set === undefined || set === '' ? value! : set
        if (set !== undefined) return set
        complete = false
        this.fail(
          name === undefined
            ? 'contains a ${ that is not of the form ${NAME} or ${NAME:-default}'
            : `requires the environment variable ${name}; set it, or write \${${name}:-default}`,
        )
        return whole
      },
    )
    return complete ? expanded : undefined
  }
}

function keyText(key: unknown): string | undefined {
  if (!isScalar(key)) return undefined
  if (typeof key.value === 'string') return key.value
  return key.value === null ? undefined : key.source
}
