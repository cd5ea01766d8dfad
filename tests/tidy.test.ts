/** Conventions of the codebase, as far as a machine can check them. Debt lists and counts may only shrink. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { Glob } from 'bun'

const root = join(import.meta.dir, '..')
const LONGEST_FUNCTION = 70
const LONGEST_FILE = 400
const LONGEST_CONSOLE_FILE = 300
const LONGEST_LINE = 120
const MOST_ROOT_FILES = 8

/** Imports against the dependency order, `from -> to`. */
const ORDER_DEBT: readonly string[] = []
/** Exports that nothing uses yet, `file name`. */
const EXPORT_DEBT: readonly string[] = []
/** Provider ids in code, `file id`. */
const PROVIDER_DEBT: readonly string[] = []
/** Words of the former vocabulary, and the terms used now; CONTRIBUTING.md explains them. */
const GLOSSARY: Readonly<Record<string, string>> = {
  abilities: 'capabilities',
  bare: 'unsigned, unprefixed or raw',
  film: 'video',
  foreign: 'native',
  forgive: 'void',
  hear: 'record',
  heard: 'recorded or received',
  keeper: 'response store',
  landscape: 'image',
  maker: 'issuer',
  mend: 'transform',
  purse: 'wallet',
  recall: 'restore',
  rooms: 'modules or services',
  seal: 'signature envelope',
  spine: 'context',
  tell: 'report',
  told: 'reported',
  underway: 'in flight',
  unseal: 'unwrap',
  wish: 'requested option',
  wishes: 'requested options',
}
/** A member of stored JSON, which databases of earlier versions contain. */
const STORED_NAME = 'src/ledger/open-generation.ts heard:'

const list = (...patterns: string[]): string[] =>
  patterns.flatMap((pattern) => [...new Glob(pattern).scanSync({ cwd: root, dot: true })]).sort()
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

const source = list('src/**/*.ts')
const consoleCode = list('console/{app,api,pages,parts,snippets}/**/*.{ts,tsx}', 'console/build.ts')
const code = [...source, ...consoleCode, ...list('bench/**/*.ts', 'prove/**/*.ts', 'scripts/**/*.ts', 'launcher/*.mjs')]
const written = [
  ...code,
  ...list('tests/**/*.ts', 'docs/**/*.md', '*.md', 'catalog/*', '.ci/*', '*.yaml', 'package.json', 'tsconfig.json'),
].filter((file) => file !== 'tests/tidy.test.ts')

/** Fails for a violation that is not listed as debt, and for listed debt that is no violation any more. */
function expectOnly(debt: readonly string[], found: string[], rule: string): void {
  const added = found.filter((one) => !debt.includes(one))
  expect(added.map((one) => `${one}: ${rule}`)).toEqual([])
  const paid = debt.filter((one) => !found.includes(one))
  expect(paid.map((one) => `${one}: is fixed, remove it from the list`)).toEqual([])
}

describe('modules', () => {
  const ORDER = [
    ['collections'],
    ['error', 'json', 'config'],
    ['log'],
    ['http', 'worker', 'generation'],
    ['telemetry'],
    ['store'],
    ['files'],
    ['protocols'],
    ['providers'],
    ['accounts'],
    ['ledger'],
    ['pipeline'],
    ['endpoints'],
    ['openapi'],
    ['app'],
  ]
  const BASE = /^src\/(deadlines|error|money|nearest)\.ts$/

  const moduleOf = (file: string): string =>
    /^src\/cli\//.test(file)
      ? 'app'
      : file === 'src/context.ts'
        ? 'pipeline'
        : (/^src\/(\w+)\//.exec(file)?.[1] ??
          (BASE.test(file) ? (file.startsWith('src/error') ? 'error' : 'config') : 'app'))
  const rankOf = (file: string): number => ORDER.findIndex((modules) => modules.includes(moduleOf(file)))

  const imports = source.flatMap((from) =>
    [...read(from).matchAll(/(import type\b[^']*)?\b(?:from|import\()\s*'(\.[^']+)'/g)]
      .map(([, typeOnly, path = '']) => ({
        from,
        to: normalize(join(dirname(from), path)),
        typeOnly: typeOnly !== undefined,
      }))
      .filter(({ to }) => to.startsWith('src/')),
  )

  /** The configuration names types of the modules above it. */
  const isContract = ({ from, typeOnly }: (typeof imports)[number]): boolean => typeOnly && moduleOf(from) === 'config'

  test('every module has a place in the dependency order', () => {
    expect(source.filter((file) => rankOf(file) < 0)).toEqual([])
    expect(imports.length).toBeGreaterThan(20)
  })

  test('modules import only from modules before them in the dependency order', () => {
    const wrong = imports.filter(
      (one) => moduleOf(one.from) !== moduleOf(one.to) && rankOf(one.to) >= rankOf(one.from) && !isContract(one),
    )
    expectOnly(
      ORDER_DEBT,
      wrong.map(({ from, to }) => `${from} -> ${to}`),
      'imports against the dependency order',
    )
  })

  test('no import leads from src/context.ts back to it', () => {
    const reached = new Set<string>()
    const follow = (file: string): void => {
      for (const { from, to } of imports) {
        if (from !== file || reached.has(to)) continue
        reached.add(to)
        follow(to)
      }
    }
    follow('src/context.ts')
    expect(reached.size).toBeGreaterThan(20)
    expect(reached.has('src/context.ts')).toBe(false)
  })

  test('no protocol imports another protocol and no endpoint imports another endpoint', () => {
    const folderOf = (file: string): string | undefined => /^src\/protocols\/(?!schema\/)(\w+)\//.exec(file)?.[1]
    const between = imports.filter(
      ({ from, to }) => folderOf(from) !== undefined && folderOf(to) !== undefined && folderOf(from) !== folderOf(to),
    )
    expect(between.map(({ from, to }) => `${from} -> ${to}: a protocol imports another protocol`)).toEqual([])
    const partOf = (file: string): string => /^src\/endpoints\/(\w+)\//.exec(file)?.[1] ?? file
    const endpoints = imports.filter(
      ({ from, to }) => moduleOf(from) === 'endpoints' && moduleOf(to) === 'endpoints' && partOf(from) !== partOf(to),
    )
    expect(endpoints.map(({ from, to }) => `${from} -> ${to}: an endpoint imports another endpoint`)).toEqual([])
  })

  test('only the store uses SQL, and only http opens sockets', () => {
    const sql = source.filter(
      (file) => !file.startsWith('src/store/') && /\bfrom 'bun:sqlite'|\bBun\.SQL\b/.test(read(file)),
    )
    const sockets = source.filter(
      (file) => !file.startsWith('src/http/') && /\bBun\.(serve|connect|listen)\b/.test(read(file)),
    )
    expect([
      ...sql.map((file) => `${file}: SQL outside src/store`),
      ...sockets.map((file) => `${file}: a socket outside src/http`),
    ]).toEqual([])
  })

  test('outgoing requests use send() to providers and the guard of src/http/ssrf-guard.ts to all other hosts', () => {
    const around = source.filter(
      (file) =>
        !file.startsWith('src/http/') &&
        /(?<![\w.#]|async )fetch\(|\bBun\.fetch\b|new WebSocket\(|from 'node:(https|http2|net|tls|dgram|dns)/.test(
          withoutComments(read(file)),
        ),
    )
    const senders = source.filter(
      (file) =>
        !file.startsWith('src/providers/') &&
        file !== 'src/http/ssrf-guard.ts' &&
        // It asks the server at its own address.
        file !== 'src/cli/server.ts' &&
        // The operator names the collector, which is usually on a private network.
        file !== 'src/telemetry/otlp-exporter.ts' &&
        // And the server of the bucket, and what gives its key.
        file !== 'src/files/bucket-request.ts' &&
        /^import \{[^}]*\bsend\b[^}]*\} from '[^']*\/call\.ts'/m.test(read(file)),
    )
    expect([
      ...around.map((file) => `${file}: makes outgoing requests itself; use src/http/call.ts`),
      ...senders.map((file) => `${file}: sends to a host other than a provider; use src/http/ssrf-guard.ts`),
    ]).toEqual([])
  })
})

describe('size', () => {
  test(`no function is longer than ${LONGEST_FUNCTION} lines and no file longer than ${LONGEST_FILE}`, () => {
    const functions = code.flatMap((file) =>
      functionsOf(read(file))
        .filter(({ lines }) => lines > LONGEST_FUNCTION)
        .map(({ name, lines }) => `${file} ${name}: ${lines}`),
    )
    const files = code
      .map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
      .filter(({ file, lines }) => lines > (file.startsWith('console/') ? LONGEST_CONSOLE_FILE : LONGEST_FILE))
      .map(({ file, lines }) => `${file}: ${lines}`)
    expect([...functions, ...files]).toEqual([])
  })

  test(`no line is wider than ${LONGEST_LINE} characters`, () => {
    expect(
      [...code, ...list('tests/**/*.ts')].flatMap((file) =>
        read(file)
          .split('\n')
          .flatMap((line, index) => (line.length > LONGEST_LINE ? [`${file}:${index + 1}: ${line.length}`] : [])),
      ),
    ).toEqual([])
  })

  test(`the root of src/ has at most ${MOST_ROOT_FILES} files`, () => {
    expect(list('src/*').length).toBeLessThanOrEqual(MOST_ROOT_FILES)
  })

  test('the length of functions is measured for every form of declaration', () => {
    const body = '\n  a()'.repeat(9)
    const samples = [
      `export function one(): void {${body}\n}`,
      `const one = async (a: A): Promise<B> => {${body}\n}`,
      `class X {\n  async #one<T>(a: T): Promise<T> {${body}\n  }\n}`,
      `export async function one(\n  a: A,\n): B {${body}\n}`,
      `export async function one({\n  a,\n}: A): B {${body}\n}`,
      `const all = {\n  one: async (a) => {${body}\n  },\n}`,
    ]
    expect(samples.map((sample) => functionsOf(sample).map(({ name, lines }) => `${name} ${lines}`))).toEqual([
      ['one 11'],
      ['one 11'],
      ['#one 11'],
      ['one 13'],
      ['one 13'],
      ['one 11'],
    ])
  })
})

const FUNCTION_HEAD = new RegExp(
  [
    '^( *)(?:export |default |static |async |override |get |set |readonly |private )*',
    String.raw`(?:function\*? *([\w$]+)|(?:const|let) ([\w$]+)\b.*(?:=>|function).*\{$`,
    String.raw`|\*?(#?[\w$]+)(?:<[^(]*>)?\(|([#\w$]+)(?: =|:) .*=> \{$)`,
  ].join(''),
)

/** Functions by their indentation: the formatter closes a body where its first line began. */
function functionsOf(text: string): { name: string; lines: number }[] {
  const lines = text.split('\n')
  const found: { name: string; lines: number }[] = []
  for (const [index, line] of lines.entries()) {
    const head = FUNCTION_HEAD.exec(line)
    const name = head?.[2] ?? head?.[3] ?? head?.[4] ?? head?.[5]
    if (
      head === null ||
      name === undefined ||
      /^(if|for|while|switch|catch|return|await|super|with|do|else|throw|yield|new|expect|test|describe)$/.test(name)
    )
      continue
    const indent = head[1] ?? ''
    if (line.includes('}') && !line.endsWith('{')) continue
    // A head over several lines ends where its parameters do.
    const opened = line.endsWith('{')
      ? index
      : lines.findIndex((later, at) => at > index && later.startsWith(`${indent})`))
    if (opened < 0 || !(lines[opened] ?? '').endsWith('{')) continue
    // `}: Options): void {` ends destructured parameters.
    const end = lines.findIndex((later, at) => at > opened && later.startsWith(`${indent}}`) && !later.endsWith('{'))
    if (end > 0) found.push({ name, lines: end - index + 1 })
  }
  return found
}

describe('names and texts', () => {
  test('provider ids appear in catalog/ only', () => {
    const ids = Object.keys(idsOf(JSON.parse(read('catalog/providers.json')))).filter((id) => id !== 'sandbox')
    expect(ids.length).toBeGreaterThan(3)
    const found = source
      .filter((file) => !file.startsWith('src/providers/sandbox/'))
      .flatMap((file) => {
        const text = withoutComments(read(file))
        return ids
          .filter((id) => text.includes(`'${id}'`) || text.includes(`"${id}"`) || text.includes(`\`${id}\``))
          .map((id) => `${file} ${id}`)
      })
    expectOnly(PROVIDER_DEBT, found, 'a provider id in code; make it a flag of catalog/providers.json')
  })

  test('no file is a grab-bag', () => {
    const grabBags = code.filter((file) =>
      /(^|\/)(utils?|helpers?|common|types|misc|core|services?|handlers?|managers?)(\.ts|\.mjs|\/)/.test(file),
    )
    expect(grabBags.map((file) => `${file}: name it after its content`)).toEqual([])
  })

  test('no comment begins with a fragment', () => {
    const fragment = /(?:\/\*\*|^\s*\/\/) (What|Whether|How|Of|Which) /
    expect(
      code.flatMap((file) =>
        read(file)
          .split('\n')
          .flatMap((line, index, lines) => {
            const first = /^\s*\/\*\*$/.test(lines[index - 1] ?? '') ? line.replace(/^\s*\*/, '/**') : line
            return fragment.test(first) ? [`${file}:${index + 1}: write a noun phrase or a sentence`] : []
          }),
      ),
    ).toEqual([])
  })

  test.each(Object.entries(GLOSSARY))('the word %s is not used in identifiers: the glossary says %s', (word, term) => {
    const found = identifiers()
      .filter(({ words }) => words.includes(word))
      .map(({ file, name }) => `${file} ${name}: say ${term}`)
    expect(found.filter((one) => !one.startsWith(STORED_NAME))).toEqual([])
  })

  test('every export is used by another file', () => {
    const users = new Map<string, number>()
    for (const file of [...code, ...list('tests/**/*.ts')].filter((one) => one !== 'tests/tidy.test.ts'))
      for (const word of new Set(read(file).match(/[\w$]+/g))) users.set(word, (users.get(word) ?? 0) + 1)
    const unused = [...source, ...consoleCode].flatMap((file) =>
      [...read(file).matchAll(/^export (?:async )?(?:const|function\*?|(?:abstract )?class|let|type) ([\w$]+)/gm)]
        .map(([, name = '']) => name)
        .filter((name) => users.get(name)! < 2)
        .map((name) => `${file} ${name}`),
    )
    expectOnly(EXPORT_DEBT, unused, 'exported and used nowhere else')
  })

  test('every open task names its decision record', () => {
    const open = written.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) =>
          /\b(TODO|FIXME|XXX|HACK)\b(?!\(\d{4}\))/.test(line)
            ? [`${file}:${index + 1}: write TODO(0007) with the number of a page in docs/decisions/`]
            : [],
        ),
    )
    expect(open).toEqual([])
  })

  test('no text names a person, a machine or an issue', () => {
    const outside = /\/(?:home|root|Users)\/|\b[Cc]o-[Aa]uthored-[Bb]y\b|(?:^|[\s(])#\d{2,5}\b(?![\da-fA-F])/
    const found = written.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (outside.test(line) ? [`${file}:${index + 1}: ${outside.exec(line)?.[0]}`] : [])),
    )
    expect(found).toEqual([])
  })

  test('modules have no default exports and imports name the file with its extension', () => {
    const found = source.flatMap((file) => {
      const text = read(file)
      return [
        ...(/^export default\b/m.test(text) ? [`${file}: a default export`] : []),
        ...(/from '\.[^']*(?<!\.ts|\.json)'/.test(text) ? [`${file}: an import without its file's extension`] : []),
      ]
    })
    expect(found).toEqual([])
  })
})

describe('the console', () => {
  /** Files whose lines match, as `file:line`. */
  const linesWith = (pattern: RegExp): string[] =>
    consoleCode.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}`] : [])),
    )

  test('it writes no markup, and stores nothing in the browser but scheme and time zone', () => {
    expect(consoleCode.length).toBeGreaterThan(10)
    expect(linesWith(/dangerouslySetInnerHTML|\.(?:inner|outer)HTML|insertAdjacentHTML|document\.write/)).toEqual([])
    const stored = linesWith(/\b(?:localStorage|sessionStorage|indexedDB|document\.cookie)\b/)
    expect(stored.filter((line) => !line.startsWith('console/parts/when.tsx:'))).toEqual([])
  })

  test('amounts of money are no floating-point numbers, except as heights in charts', () => {
    const numbers = linesWith(/(?:Number|parseFloat)\([^)]*usd|_usd\)? *[-+*/] /i)
    expect(numbers.filter((line) => !line.startsWith('console/parts/money.ts:'))).toEqual([])
  })

  test('the gateway takes nothing from it, and it takes types from the gateway, and exact amounts', () => {
    const targets = source.flatMap((file) =>
      [...read(file).matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => normalize(join(dirname(file), path))),
    )
    expect(targets.filter((path) => path.startsWith('console/'))).toEqual([])
    const values = linesWith(/from '(?:\.\.\/)+src\/(?!money\.ts)/).filter((at) => {
      const [file = '', line] = at.split(':')
      return !/^import type /.test(read(file).split('\n')[Number(line) - 1] ?? '')
    })
    expect(values).toEqual([])
  })
})

/** The catalogue's rows by id, whether it is a list or a map. */
function idsOf(catalogue: unknown): Record<string, unknown> {
  if (Array.isArray(catalogue)) return Object.fromEntries((catalogue as { id: string }[]).map((row) => [row.id, row]))
  const { providers } = catalogue as { providers?: unknown }
  return providers === undefined ? (catalogue as Record<string, unknown>) : idsOf(providers)
}

const identifiersIn = (text: string): string[] =>
  withoutComments(text)
    .replace(/'(?:[^'\\\n]|\\.)*'/g, '')
    .replace(/`(?:[^`\\]|\\.)*`/g, (template) => (template.match(/(?<=\$\{)[^}]*/g) ?? []).join(' '))
    .replace(/ \/\/ .*$/gm, '')
    .match(/(?<![\w$])[A-Za-z_$][\w$]*/g) ?? []

/** The identifiers in the code, found once for all words. */
const identifiers = (): readonly Identifier[] => (identifiersOfCode ??= code.flatMap(identifiersOf))
let identifiersOfCode: readonly Identifier[] | undefined

type Identifier = { file: string; name: string; words: string[] }

const identifiersOf = (file: string): Identifier[] =>
  [...new Set(identifiersIn(read(file)))].map((name) => ({ file, name, words: wordsOf(name) }))

/** `resolveMediaURL` -> resolve, media, url. */
const wordsOf = (name: string): string[] => name.split(/[_$\d]+|(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase())

const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
