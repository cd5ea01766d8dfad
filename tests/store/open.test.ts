import { expect, test } from 'bun:test'
import { join } from 'node:path'

test('a gateway whose store is SQLite loads no driver of PostgreSQL', async () => {
  const app = join(import.meta.dir, '../../src/app.ts')
  const script = `await import(${JSON.stringify(app)}); console.log(Object.keys(require.cache).join('\\n'))`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
  const modules = (await new Response(child.stdout).text()).split('\n')
  expect(modules).toContain(app)
  expect(modules.filter((file) => /\/node_modules\/pg|\/store\/postgres\//.test(file))).toEqual([])
}, 30_000)
