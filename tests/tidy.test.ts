/** The house's habits, as far as a machine can check them. What is listed as debt may only shrink. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { Glob } from 'bun'

const root = join(import.meta.dir, '..')
const LONGEST_FUNCTION = 70
const LONGEST_FILE = 500

/** Imports against the ladder, `from -> to`. */
const ORDER_DEBT: readonly string[] = []
/** Functions over the wall, `file name: lines`; files over the wall, `file: lines`. */
const LENGTH_DEBT: readonly string[] = []
/** Exports that nothing uses yet, `file name`. */
const EXPORT_DEBT: readonly string[] = []
/** Provider ids in code, `file id`. */
const PROVIDER_DEBT: readonly string[] = []

const list = (...patterns: string[]): string[] =>
  patterns.flatMap((pattern) => [...new Glob(pattern).scanSync({ cwd: root, dot: true })]).sort()
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

const source = list('src/**/*.ts')
const code = [...source, ...list('bench/**/*.ts', 'scripts/**/*.ts', 'launcher/*.mjs')]
const written = [
  ...code,
  ...list('tests/**/*.ts', 'docs/**/*.md', '*.md', 'catalog/*', '.ci/*', '*.yaml', 'package.json', 'tsconfig.json'),
].filter((file) => file !== 'tests/tidy.test.ts')

/** Nothing new is wrong, and what is listed as debt is still owed: otherwise strike it from the list. */
function expectOnly(debt: readonly string[], found: string[], rule: string): void {
  const fresh = found.filter((one) => !debt.includes(one))
  expect(fresh.map((one) => `${one}: ${rule}`)).toEqual([])
  expect(debt.filter((one) => !found.includes(one)).map((one) => `${one}: paid, strike it from the list`)).toEqual([])
}

describe('rooms', () => {
  const ORDER = [
    ['error', 'json', 'config'],
    ['http', 'generation'],
    ['store'],
    ['files'],
    ['protocols'],
    ['providers'],
    ['accounts'],
    ['ledger'],
    ['pipeline'],
    ['endpoints'],
    ['app'],
  ]
  const BASE = /^src\/(error|money|nearest)\.ts$/

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

  test('every room stands on the ladder', () => {
    expect(source.filter((file) => rankOf(file) < 0)).toEqual([])
    expect(imports.length).toBeGreaterThan(20)
  })

  test('import one way', () => {
    const wrong = imports.filter(
      (one) => moduleOf(one.from) !== moduleOf(one.to) && rankOf(one.to) >= rankOf(one.from) && !isContract(one),
    )
    expectOnly(
      ORDER_DEBT,
      wrong.map(({ from, to }) => `${from} -> ${to}`),
      'imports against the ladder',
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

  test('no protocol knows another, no endpoint knows another', () => {
    const folderOf = (file: string): string | undefined => /^src\/protocols\/(?!schema\/)(\w+)\//.exec(file)?.[1]
    const between = imports.filter(
      ({ from, to }) => folderOf(from) !== undefined && folderOf(to) !== undefined && folderOf(from) !== folderOf(to),
    )
    expect(between.map(({ from, to }) => `${from} -> ${to}: protocols do not know each other`)).toEqual([])
    const partOf = (file: string): string => /^src\/endpoints\/(\w+)\//.exec(file)?.[1] ?? file
    const endpoints = imports.filter(
      ({ from, to }) => moduleOf(from) === 'endpoints' && moduleOf(to) === 'endpoints' && partOf(from) !== partOf(to),
    )
    expect(endpoints.map(({ from, to }) => `${from} -> ${to}: endpoints do not know each other`)).toEqual([])
  })

  test('only the store says SQL, only http and store touch the runtime', () => {
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

  test('calls go out in two ways: to providers by send, to what others name by the guard', () => {
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
        /^import \{[^}]*\bsend\b[^}]*\} from '[^']*\/call\.ts'/m.test(read(file)),
    )
    expect([
      ...around.map((file) => `${file}: calls out by itself`),
      ...senders.map((file) => `${file}: calls an address that is no provider's; use src/http/ssrf-guard.ts`),
    ]).toEqual([])
  })
})

describe('size', () => {
  test(`no function passes ${LONGEST_FUNCTION} lines and no file ${LONGEST_FILE}`, () => {
    const functions = code.flatMap((file) =>
      functionsOf(read(file))
        .filter(({ lines }) => lines > LONGEST_FUNCTION)
        .map(({ name, lines }) => `${file} ${name}: ${lines}`),
    )
    const files = code
      .map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
      .filter(({ lines }) => lines > LONGEST_FILE)
      .map(({ file, lines }) => `${file}: ${lines}`)
    expectOnly(LENGTH_DEBT, [...functions, ...files], 'too long')
  })

  test('functions are measured', () => {
    const body = '\n  a()'.repeat(9)
    const samples = [
      `export function one(): void {${body}\n}`,
      `const one = async (a: A): Promise<B> => {${body}\n}`,
      `class X {\n  async #one<T>(a: T): Promise<T> {${body}\n  }\n}`,
      `export async function one(\n  a: A,\n): B {${body}\n}`,
    ]
    expect(samples.map((sample) => functionsOf(sample).map(({ name, lines }) => `${name} ${lines}`))).toEqual([
      ['one 11'],
      ['one 11'],
      ['#one 11'],
      ['one 13'],
    ])
  })
})

/** Functions by their indentation: the house style closes a body where its first line began. */
function functionsOf(text: string): { name: string; lines: number }[] {
  const lines = text.split('\n')
  const found: { name: string; lines: number }[] = []
  for (const [index, line] of lines.entries()) {
    const head =
      /^( *)(?:export |default |static |async |override |get |set |readonly |private )*(?:function\*? *([\w$]+)|(?:const|let) ([\w$]+)\b.*(?:=>|function).*\{$|\*?(#?[\w$]+)(?:<[^(]*>)?\(|([#\w$]+) = .*=> \{$)/.exec(
        line,
      )
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
    const end = lines.findIndex((later, at) => at > opened && later.startsWith(`${indent}}`))
    if (end > 0) found.push({ name, lines: end - index + 1 })
  }
  return found
}

describe('words', () => {
  test('provider ids live in catalog/', () => {
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

  test('no file is a drawer', () => {
    const drawers = code.filter((file) =>
      /(^|\/)(utils?|helpers?|common|types|misc|core|services?|handlers?|managers?)(\.ts|\.mjs|\/)/.test(file),
    )
    expect(drawers.map((file) => `${file}: name it after what is in it`)).toEqual([])
  })

  test('exports are used', () => {
    const texts = new Map(
      [...code, ...list('tests/**/*.ts')]
        .filter((file) => file !== 'tests/tidy.test.ts')
        .map((file) => [file, read(file)]),
    )
    const unused = source.flatMap((file) =>
      [...read(file).matchAll(/^export (?:async )?(?:const|function\*?|class|let) ([\w$]+)/gm)]
        .map(([, name = '']) => name)
        .filter((name) => !isUsed(name, file, texts))
        .map((name) => `${file} ${name}`),
    )
    expectOnly(EXPORT_DEBT, unused, 'exported and used nowhere else')
  })

  test('what is left to do has a decision', () => {
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

  test('the project speaks of itself alone', () => {
    const native = /\/(?:home|root|Users)\/|\bco-authored-by\b|(?:^|[\s(])#\d{2,5}\b(?![\da-fA-F])/i
    const found = written.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (native.test(line) ? [`${file}:${index + 1}: ${native.exec(line)?.[0]}`] : [])),
    )
    expect(found).toEqual([])
  })

  test('one style: no default exports, no semicolons at line ends, imports name their file', () => {
    const found = source.flatMap((file) => {
      const text = read(file)
      return [
        ...(/^export default\b/m.test(text) ? [`${file}: a default export`] : []),
        ...(/^(?: *(?:import|export|const|let|return)\b[^`\n]*);$/m.test(text)
          ? [`${file}: a semicolon at the end of a line`]
          : []),
        ...(/from '\.[^']*(?<!\.ts|\.json)'/.test(text) ? [`${file}: an import without its file's extension`] : []),
      ]
    })
    expect(found).toEqual([])
  })
})

function isUsed(name: string, file: string, texts: ReadonlyMap<string, string>): boolean {
  const word = new RegExp(`(?<![\\w$])${name.replaceAll('$', '\\$')}(?![\\w$])`)
  return [...texts].some(([other, text]) => other !== file && word.test(text))
}

/** The catalogue's rows by id, whether it is a list or a map. */
function idsOf(catalogue: unknown): Record<string, unknown> {
  if (Array.isArray(catalogue)) return Object.fromEntries((catalogue as { id: string }[]).map((row) => [row.id, row]))
  const { providers } = catalogue as { providers?: unknown }
  return providers === undefined ? (catalogue as Record<string, unknown>) : idsOf(providers)
}

const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
