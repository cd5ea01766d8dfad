import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The command line of Sluice as tests start it: an executable of one file, because a start from bytecode takes a
 * quarter of the CPU that one from modules does. Tests of how the modules are started use src/main.ts.
 */

const root = join(import.meta.dir, '..')
const folder = join(root, 'node_modules/.cache/sluice')
const PREFIX = 'program-'
const FILE = process.platform === 'win32' ? 'sluice.exe' : 'sluice'
/**
 * Settings of the runtime for processes that tests start: most end before its JIT compilers pay for themselves, which
 * therefore begin forty times as late.
 */
export const LATE_COMPILERS = {
  BUN_JSC_thresholdForJITAfterWarmUp: '20000',
  BUN_JSC_thresholdForOptimizeAfterWarmUp: '50000',
  BUN_JSC_thresholdForOptimizeAfterLongWarmUp: '50000',
  BUN_JSC_thresholdForOptimizeSoon: '50000',
}

/** Everything that the executable is made of, besides installed packages and Bun. */
const SOURCES = new Bun.Glob('{src,catalog}/**')
const SINGLE_SOURCES = ['package.json', 'scripts/build.ts', 'node_modules/.package-lock.json']
/** True for a file that is part of the digest. `path`: from the folder of package.json. */
export const isSource = (path: string): boolean => SOURCES.match(path) || SINGLE_SOURCES.includes(path)

/** Tests of another state of the sources may still run. */
const KEPT = 3

let found: string | undefined

/** The path of the executable for the sources as they are, which is built unless it is there. */
export const program = (): string => (found ??= programFor(keyOfSources()))

function programFor(key: string): string {
  const place = join(folder, PREFIX + key)
  const path = join(place, FILE)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  // Its last step is atomic: other processes find a whole one, or build it themselves.
  const next = mkdtempSync(join(folder, 'next-'))
  try {
    const script = join(root, 'scripts/build.ts')
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, script, '--without-console', '--output', next])
    if (exitCode !== 0) throw new Error(`the program of the tests cannot be built: ${stderr.toString()}`)
    if (keyOfSources() !== key) return programFor(keyOfSources())
    if (!isMoved(next, place) && !existsSync(path)) throw new Error(`${place} cannot be written`)
  } finally {
    rmSync(next, { recursive: true, force: true })
  }
  removeOldOnes()
  return path
}

function isMoved(from: string, to: string): boolean {
  try {
    renameSync(from, to)
    return true
  } catch {
    return false
  }
}

function keyOfSources(): string {
  const hash = createHash('sha256').update(`${Bun.version_with_sha}\0`)
  for (const file of [...SINGLE_SOURCES, ...SOURCES.scanSync({ cwd: root })].sort())
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update('\0')
  return hash.digest('hex').slice(0, 32)
}

function removeOldOnes(): void {
  const all = readdirSync(folder)
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => ({ path: join(folder, name), at: statSync(join(folder, name)).mtimeMs }))
  for (const { path } of all.sort((a, b) => b.at - a.at).slice(KEPT)) rmSync(path, { recursive: true, force: true })
}

// The tests run by launcher/test.mjs find it built.
if (import.meta.main) program()
