/**
 * Compiles `src/json/body-scan.as.ts` into `src/json/body-scan.wasm.ts`: `npm run scan`. The compiler is fetched for
 * this alone, because its package is 94 MB and only this script needs it.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const COMPILER = 'assemblyscript@0.28.20'
const OPTIONS = ['-O3', '--converge', '--noAssert', '--runtime', 'stub', '--initialMemory', '4']
const LINE = 100

const folder = join(import.meta.dir, '../src/json')
const source = join(folder, 'body-scan.as.ts')
const tokens = join(folder, 'body-tokens.as.ts')
const output = mkdtempSync(join(tmpdir(), 'scan-'))
try {
  const binary = join(output, 'scan.wasm')
  const command = ['npm', 'exec', '--yes', `--package=${COMPILER}`, '--', 'asc', source, ...OPTIONS, '-o', binary]
  const { exitCode } = Bun.spawnSync(command, { cwd: output, stdio: ['ignore', 'inherit', 'inherit'] })
  if (exitCode !== 0) throw new Error(`the compiler ended with status ${exitCode}`)
  const base64 = Buffer.from(await Bun.file(binary).arrayBuffer()).toString('base64')
  const lines = base64.match(new RegExp(`.{1,${LINE}}`, 'g'))!
  const sourceHash = new Bun.CryptoHasher('sha256')
  for (const file of [source, tokens]) sourceHash.update(await Bun.file(file).text())
  await Bun.write(
    join(folder, 'body-scan.wasm.ts'),
    `/** Compiled from \`body-scan.as.ts\` by \`npm run scan\`; do not edit. */\n` +
      `export const SOURCE_SHA256 = '${sourceHash.digest('hex')}'\n\n` +
      `export const BINARY = [\n${lines.map((line) => `  '${line}',\n`).join('')}].join('')\n`,
  )
} finally {
  rmSync(output, { recursive: true, force: true })
}
