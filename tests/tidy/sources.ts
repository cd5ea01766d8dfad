import { expect } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'

/**
 * The project's files, for tests of its conventions as far as a machine can check them. Debt lists and counts may only
 * shrink.
 */

const root = join(import.meta.dir, '../..')

export const list = (...patterns: string[]): string[] =>
  patterns.flatMap((pattern) => [...new Glob(pattern).scanSync({ cwd: root, dot: true })]).sort()
export const read = (file: string): string => readFileSync(join(root, file), 'utf8')

export const source = list('src/**/*.ts')
export const consoleCode = list('console/{app,api,pages,parts,snippets}/**/*.{ts,tsx}', 'console/build.ts')
export const code = [
  ...source,
  ...consoleCode,
  ...list('bench/**/*.ts', 'prove/**/*.ts', 'scripts/**/*.ts', 'launcher/*.mjs'),
]
export const written = [
  ...code,
  ...list('tests/**/*.ts', 'docs/**/*.md', '*.md', 'catalog/*', '.ci/*', '*.yaml', 'package.json', 'tsconfig.json'),
].filter((file) => file !== 'tests/tidy/names.test.ts')

/** Fails for a violation that is not listed as debt, and for listed debt that is no violation any more. */
export function expectOnly(debt: readonly string[], found: string[], rule: string): void {
  const added = found.filter((one) => !debt.includes(one))
  expect(added.map((one) => `${one}: ${rule}`)).toEqual([])
  const paid = debt.filter((one) => !found.includes(one))
  expect(paid.map((one) => `${one}: is fixed, remove it from the list`)).toEqual([])
}

export const withoutComments = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
