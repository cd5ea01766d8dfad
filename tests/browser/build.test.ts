import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CAN_BROWSE } from './browser.ts'

const root = join(import.meta.dir, '../..')
const folder = mkdtempSync(join(tmpdir(), 'sluice-console-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Bytes of gzip that the first load may need. */
const FIRST_SCRIPTS = 210_000
const SHEETS = 46_000
const FONTS = 90_000

const build = (to: string): number =>
  Bun.spawnSync([process.execPath, '--no-install', join(root, 'console/build.ts'), to]).exitCode

type Built = { key: string; first: string[]; files: string[] }
const builtIn = (to: string): Built => JSON.parse(readFileSync(join(to, 'build.json'), 'utf8')) as Built
/** The API reference is a page of its own, with the sheet of Swagger UI. */
const isSheet = (name: string): boolean => name.endsWith('.css') && !name.startsWith('swagger-ui')
const bytesOf = (path: string): number => Bun.file(path).size

describe.skipIf(!CAN_BROWSE)('the build of the console', () => {
  test('the same sources give the same bytes', () => {
    const [one, two] = ['one', 'two'].map((name) => join(folder, name)) as [string, string]
    expect([build(one), build(two)]).toEqual([0, 0])
    expect(builtIn(one)).toEqual(builtIn(two))
    expect(builtIn(one).files.length).toBeGreaterThan(5)
    for (const file of ['index.html', ...builtIn(one).files.map((name) => `assets/${name}`)])
      expect(`${file} ${Bun.hash(readFileSync(join(one, file)))}`).toBe(
        `${file} ${Bun.hash(readFileSync(join(two, file)))}`,
      )
  }, 60_000)

  test('the first load keeps its budget', () => {
    const { first, files } = builtIn(join(folder, 'one'))
    const sum = (names: string[], end = '.gz'): number =>
      names.reduce((bytes, name) => bytes + bytesOf(join(folder, 'one/assets', name + end)), 0)
    const compressed = files.filter((name) => !name.endsWith('.woff2'))
    expect(compressed.filter((name) => !existsSync(join(folder, 'one/assets', `${name}.br`)))).toEqual([])
    expect(sum(first)).toBeLessThan(FIRST_SCRIPTS)
    expect(sum(files.filter(isSheet))).toBeLessThan(SHEETS)
    expect(
      sum(
        files.filter((name) => name.endsWith('.woff2')),
        '',
      ),
    ).toBeLessThan(FONTS)
  })

  test('no sheet has a font or picture in it, and no file is a source map', () => {
    const { files } = builtIn(join(folder, 'one'))
    const sheets = files.filter(isSheet)
    const urls = sheets.flatMap((name) =>
      [...readFileSync(join(folder, 'one/assets', name), 'utf8').matchAll(/url\(([^)]*)\)/g)].map(([, url]) => url),
    )
    expect(urls.filter((url) => !url?.startsWith('/console/assets/'))).toEqual([])
    expect(urls.length).toBe(2)
    expect(files.filter((name) => name.endsWith('.map'))).toEqual([])
  })
})

describe('the build beside a server', () => {
  const copy = join(folder, 'copy')
  const state = (): unknown => JSON.parse(readFileSync(join(copy, 'console/state.json'), 'utf8'))
  const run = (env: Record<string, string> = {}) =>
    Bun.spawnSync([Bun.which('node') ?? 'node', join(copy, 'launcher/console.mjs')], {
      env: { PATH: process.env.PATH ?? '', ...env },
    })

  test('a failed build says what failed and what repeats it, and the next one that succeeds removes that', () => {
    mkdirSync(join(copy, 'console/node_modules'), { recursive: true })
    cpSync(join(root, 'launcher'), join(copy, 'launcher'), { recursive: true })
    cpSync(join(root, 'package-lock.json'), join(copy, 'package-lock.json'))
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    for (const file of ['package-lock.json', 'node_modules/.package-lock.json'])
      writeFileSync(join(copy, 'console', file), JSON.stringify({ packages: {} }))
    writeFileSync(join(copy, 'console/build.ts'), 'process.exit(3)')
    expect(run().exitCode).toBe(1)
    expect(state()).toEqual({
      state: 'failed',
      message: `bun console/build.ts failed in ${join(copy, 'console')} (exit code 3). npm run console repeats it.`,
    })
    writeFileSync(join(copy, 'console/build.ts'), '')
    expect(run().exitCode).toBe(0)
    expect(existsSync(join(copy, 'console/state.json'))).toBe(false)
  }, 30_000)

  test('packages that cannot be installed are a failure of the same form', () => {
    writeFileSync(
      join(copy, 'console/package-lock.json'),
      JSON.stringify({ lockfileVersion: 3, packages: { 'node_modules/missing': { version: '1.0.0' } } }),
    )
    expect(run({ npm_execpath: '' }).exitCode).toBe(1)
    expect(state()).toMatchObject({ state: 'failed', message: expect.stringContaining('npm ci failed in') })
  }, 30_000)
})
