import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { isSource } from './program.ts'

const root = join(import.meta.dir, '..')

/** Files that the sources import, by their paths from the folder of package.json. */
const imported = [...new Bun.Glob('src/**/*.ts').scanSync({ cwd: root })].flatMap((file) =>
  [...readFileSync(join(root, file), 'utf8').matchAll(/\b(?:from|import\()\s*'(\.[^']+)'/g)].map(([, path = '']) =>
    posix.join(posix.dirname(file.replaceAll('\\', '/')), path),
  ),
)

test('the digest of the executable that tests start covers every file that it is made of', () => {
  expect(imported.length).toBeGreaterThan(1_000)
  expect(imported.filter((path) => !isSource(path))).toEqual([])
  expect(['src/app.ts', 'catalog/models.json', 'scripts/build.ts'].every(isSource)).toBe(true)
})
