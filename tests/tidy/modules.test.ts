import { describe, expect, test } from 'bun:test'
import { dirname, join, normalize } from 'node:path'
import { expectOnly, read, source, withoutComments } from './sources.ts'

/** Imports against the dependency order, `from -> to`. */
const ORDER_DEBT: readonly string[] = []

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

  /** The imports of each file that exist at run time, without those that wait until they are needed. */
  const valueImports = new Map(
    source.map((from) => [
      from,
      [...read(from).matchAll(/^(?:import|export) (?!type\b)([^']*?) from '(\.[^']+)'/gm)]
        .filter(([, names = '']) => !/^\{(\s*type [^,}]+,?)+\s*\}$/.test(names))
        .map(([, , path = '']) => normalize(join(dirname(from), path))),
    ]),
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

  test('no file imports itself through others, except for types', () => {
    const isLoaded = new Set<string>()
    const circles: string[] = []
    const load = (file: string, above: readonly string[]): void => {
      if (above.includes(file)) circles.push([...above.slice(above.indexOf(file)), file].join(' -> '))
      if (isLoaded.has(file)) return
      isLoaded.add(file)
      for (const to of valueImports.get(file) ?? []) load(to, [...above, file])
    }
    for (const file of source) load(file, [])
    expect(circles).toEqual([])
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
