/**
 * Builds executables of one file, which need neither Node nor Bun, in `dist/`: `npm run build` for this platform,
 * `npm run build -- linux-arm64 windows-x64` or `-- all` for others. Their Bun comes from the npm registry.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import packageJson from '../package.json'

/** The package of npm with Bun for each platform. */
const PLATFORMS: Record<string, string> = {
  'linux-x64': 'bun-linux-x64',
  'linux-x64-musl': 'bun-linux-x64-musl',
  'linux-arm64': 'bun-linux-aarch64',
  'linux-arm64-musl': 'bun-linux-aarch64-musl',
  'darwin-x64': 'bun-darwin-x64',
  'darwin-arm64': 'bun-darwin-aarch64',
  'windows-x64': 'bun-windows-x64',
}

const root = join(import.meta.dir, '..')
const PROGRAM = 'src/cli/executable.ts'
const CONSOLE = 'console/dist'

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: { output: { type: 'string', default: join(root, 'dist') }, 'without-console': { type: 'boolean' } },
})
const platforms = positionals.includes('all') ? Object.keys(PLATFORMS) : positionals
const unknown = platforms.find((platform) => PLATFORMS[platform] === undefined)
if (unknown !== undefined) {
  console.error(`${unknown} is not a platform: use all, or some of ${Object.keys(PLATFORMS).join(', ')}`)
  process.exit(2)
}
mkdirSync(values.output, { recursive: true })
if (platforms.length === 0) build(join(values.output, process.platform === 'win32' ? 'sluice.exe' : 'sluice'), [])
for (const platform of platforms) buildFor(platform)

function buildFor(platform: string): void {
  const isWindows = platform.startsWith('windows')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-build-'))
  try {
    run(['npm', 'pack', '--silent', `@oven/${PLATFORMS[platform]}@${packageJson.dependencies.bun}`], folder)
    const [archive = ''] = new Bun.Glob('*.tgz').scanSync(folder)
    run(['tar', '-xzf', archive], folder)
    const bun = join(folder, 'package/bin', isWindows ? 'bun.exe' : 'bun')
    const output = join(values.output, `sluice-${platform}${isWindows ? '.exe' : ''}`)
    build(output, [`--target=bun-${platform}`, `--compile-executable-path=${bun}`])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function build(output: string, options: string[]): void {
  // Bytecode makes the file a sixth larger, and saves two thirds of the CPU of a start.
  const format = ['--root=src', '--format=esm', '--bytecode', '--minify-whitespace', '--minify-syntax']
  const autoload = ['--no-compile-autoload-dotenv', '--no-compile-autoload-bunfig']
  const assets = mkdtempSync(join(tmpdir(), 'sluice-assets-'))
  try {
    const compile = ['build', '--compile', ...options, ...format, ...autoload, ...consoleIn(assets)]
    run([process.execPath, ...compile, PROGRAM, ...threads(), '--outfile', output], root)
  } finally {
    rmSync(assets, { recursive: true, force: true })
  }
  console.log(`${output} ${Math.round(statSync(output).size / 1e6)} MB`)
}

/** The modules that are started as threads, by their paths. */
function threads(): string[] {
  const found = new Set<string>()
  for (const file of new Bun.Glob('src/**/*.ts').scanSync(root))
    for (const [, path] of readFileSync(join(root, file), 'utf8').matchAll(/threadModule\('([^']+)'\)/g))
      found.add(`src/${path}`)
  return [...found]
}

/** The option that takes the console in, whose path inside begins with the name of the folder given. */
function consoleIn(assets: string): string[] {
  if (values['without-console'] === true) return []
  const [folder = ''] = CONSOLE.split('/')
  if (existsSync(join(root, CONSOLE))) {
    cpSync(join(root, CONSOLE), join(assets, CONSOLE), { recursive: true })
    return [`--asset=${join(assets, folder)}`]
  }
  console.error('The console is left out, because it is not built: npm run console builds it.')
  return []
}

function run(command: string[], cwd: string): void {
  const { exitCode } = Bun.spawnSync(command, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  if (exitCode !== 0) throw new Error(`${command.slice(0, 3).join(' ')} ended with status ${exitCode}`)
}
