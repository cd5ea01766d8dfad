import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv from 'ajv'
import fc from 'fast-check'
import { parse, stringify } from 'yaml'
import { fileSchema } from '../../src/config/schema.ts'
import { ConfigError, readConfig } from '../../src/config/load.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { IS_LONG, runs } from '../runs.ts'

const example = readFileSync(join(import.meta.dir, '../../sluice.example.yaml'), 'utf8')
const tree: unknown = parse(example)
const RUNS = runs(200, 10_000)
const PATIENCE_MS = IS_LONG ? 600_000 : 30_000

/** Loads a text and returns whether it is valid. Every refusal must be a ConfigError whose problems are located. */
function loads(text: string): boolean {
  try {
    new Catalogue(readConfig(text, 'f.yaml', {}))
    return true
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    expect(error.problems.length).toBeGreaterThan(0)
    for (const problem of error.problems) expect(problem).toMatch(/^f\.yaml(:[1-9]\d*:[1-9]\d*)?: /)
    expect(error.problems[0]).toMatch(/^f\.yaml:[1-9]\d*:[1-9]\d*: /)
    return false
  }
}

const SCRAPS = [
  '{',
  '}',
  '[',
  ']',
  ': ',
  '- ',
  '\n',
  '  ',
  '"',
  "'",
  '&a ',
  '*a',
  '!!binary ',
  '? ',
  '---\n',
  '...\n',
  '%YAML 1.2\n',
  '<<: ',
  '${',
  '${X}',
  '${X:-}',
  '\t',
  '\0',
  '\ud800',
  '#',
  '|',
  '>',
  '~',
  '.inf',
  '0x',
  '__proto__',
  'null',
]

const textMutation = fc.array(
  fc.tuple(fc.nat(example.length), fc.nat(12), fc.oneof(fc.constantFrom(...SCRAPS), fc.string({ maxLength: 3 }))),
  { minLength: 1, maxLength: 4 },
)

test(
  'a mutated text loads or is refused with line and column',
  () => {
    let loaded = 0
    fc.assert(
      fc.property(textMutation, (cuts) => {
        const text = cuts.reduce(
          (sum, [at, length, scrap]) => sum.slice(0, at) + scrap + sum.slice(at + length),
          example,
        )
        if (loads(text)) loaded++
      }),
      { numRuns: RUNS },
    )
    // Mutations inside comments must load: a reader that refuses everything would pass otherwise.
    expect(loaded).toBeGreaterThan(0)
  },
  PATIENCE_MS,
)

const VALUES = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e21,
  '',
  'x',
  '10s',
  '1MiB',
  'none',
  '${X}',
  '${X:-1}',
  [],
  [null],
  {},
  { a: 1 },
  { endpoints: [{ provider: 'openai', model: 'x' }] },
  [[[[]]]],
]
const KEYS = ['__proto__', 'constructor', 'port', 'providers', 'sandbox', 'openai', '', '1', 'a/b', 'name', 'enabled']

type Path = (string | number)[]
const pathsOf = (value: unknown, path: Path = []): Path[] =>
  typeof value !== 'object' || value === null
    ? [path]
    : [
        path,
        ...Object.entries(value).flatMap(([key, inner]) =>
          pathsOf(inner, [...path, Array.isArray(value) ? Number(key) : key]),
        ),
      ]
const PATHS = pathsOf(tree)

/** A copy of a tree with one value replaced, removed or given a new member. */
function mutated(value: unknown, path: Path, how: Mutation): unknown {
  if (path.length === 0) {
    if (how.kind === 'exchange') return how.value
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries([...Object.entries(value), [how.key, how.value]])
      : value
  }
  const [head, ...rest] = path
  if (Array.isArray(value))
    return value.flatMap((inner, index) =>
      index !== head ? [inner] : rest.length === 0 && how.kind === 'remove' ? [] : [mutated(inner, rest, how)],
    )
  const entries = Object.entries(value as object)
  return Object.fromEntries(
    entries.flatMap(([key, inner]) =>
      key !== head
        ? [[key, inner]]
        : rest.length === 0 && how.kind === 'remove'
          ? []
          : [[key, mutated(inner, rest, how)]],
    ),
  )
}

type Mutation = { kind: 'exchange' | 'remove' | 'add'; value: unknown; key: string }
const mutation: fc.Arbitrary<Mutation> = fc.record({
  kind: fc.constantFrom('exchange', 'remove', 'add'),
  value: fc.constantFrom(...VALUES),
  key: fc.constantFrom(...KEYS),
})

test(
  'a mutated tree loads or is refused with line and column, and what loads fits the published schema',
  () => {
    const validate = new Ajv({ allowUnionTypes: true }).compile(fileSchema())
    let loaded = 0
    fc.assert(
      fc.property(fc.constantFrom(...PATHS), mutation, (path, how) => {
        const text = stringify(mutated(tree, how.kind === 'remove' && path.length === 0 ? ['listen'] : path, how))
        if (!loads(text)) return
        loaded++
        const read: unknown = parse(text)
        if (read !== null) expect([text, validate(read)]).toEqual([text, true])
      }),
      { numRuns: RUNS },
    )
    expect(loaded).toBeGreaterThan(RUNS / 20)
  },
  PATIENCE_MS,
)
