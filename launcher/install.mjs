// Plain Node: this runs before anything is installed.
import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/**
 * Installs missing or outdated packages, with messages on stderr. `tests`: include the packages that only tests need.
 * Ends the process if it fails.
 */
export function installMissing({ tests = false } = {}) {
  const reason = missingReason(tests)
  if (reason === undefined) return
  console.error(`sluice: installing (${reason})`)
  // Explicit, because a user's npm settings may differ, and Bun is an optional package. Warnings about the engines of
  // test tools are useless here.
  const args = [
    'ci',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    '--include=optional',
    tests ? '--include=dev' : '--omit=dev',
  ]
  const { status, error } = npm(args)
  if (error !== undefined)
    fail(`cannot start npm (${error.message}); install it, or run npm ${args.join(' ')} in ${root}`)
  if (status !== 0) fail(`npm ${args.join(' ')} failed in ${root}; see its output above`)
}

/** Bun's executable in its platform package; node_modules/.bin/bun works only if install scripts could run. */
export function findBun() {
  const found = platformPackages()
    .map(executable)
    .find((file) => existsSync(file))
  if (found === undefined)
    fail(
      `there is no Bun for ${process.platform} ${process.arch} in node_modules; ` +
        `available: ${knownPackages().join(', ')}`,
    )
  return found
}

/**
 * Settings of Bun's memory allocator. Its thread looks through all memory for what can be given back each second rather
 * than each 100 ms: for a server with 200 requests a second that is a tenth of its CPU time.
 */
export const ALLOCATOR = { MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '1000' }

/**
 * Makes `bun`, as scripts of package.json find it, a script that starts the platform's executable with the settings of
 * the allocator, which reads them before any code runs. The package's own install script may not have run.
 */
export function linkBun() {
  const folder = join(root, 'node_modules', '.bin')
  const bun = relative(folder, findBun())
  const isWindows = process.platform === 'win32'
  const file = join(folder, isWindows ? 'bun.cmd' : 'bun')
  const text = isWindows ? windowsScript(bun) : posixScript(bun)
  if (lstatSync(file, { throwIfNoEntry: false })?.isFile() && readFileSync(file, 'utf8') === text) return
  mkdirSync(folder, { recursive: true })
  // A link would be written through, into the executable.
  rmSync(file, { force: true })
  writeFileSync(file, text, { mode: 0o755 })
}

const settings = (line) => Object.entries(ALLOCATOR).map(([name, value]) => line(name, value))

const windowsScript = (bun) =>
  [
    '@setlocal',
    ...settings((name, value) => `@if not defined ${name} set ${name}=${value}`),
    `@"%~dp0${bun}" %*`,
    '',
  ].join('\r\n')

const posixScript = (bun) =>
  [
    '#!/bin/sh',
    ...settings((name, value) => `export ${name}="\${${name}:-${value}}"`),
    `exec "\${0%/*}/${bun}" "$@"`,
    '',
  ].join('\n')

export function fail(message) {
  console.error(`sluice: ${message}`)
  process.exit(1)
}

/** Why an installation is needed, or undefined. */
function missingReason(tests) {
  const lockFile = join(root, 'package-lock.json')
  const installedFile = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(installedFile)) return 'nothing is installed yet'
  // If there is no package for this platform at all, findBun reports it; installing again would not help.
  const packages = platformPackages().filter((name) => knownPackages().includes(name))
  if (packages.length > 0 && !packages.some((name) => existsSync(executable(name)))) return 'Bun is missing'
  if (!tests && statSync(installedFile).mtimeMs >= statSync(lockFile).mtimeMs) return undefined
  // A checkout may change only the file's time, so its contents are compared.
  const [wanted, installed] = [lockFile, installedFile].map((file) => JSON.parse(readFileSync(file, 'utf8')).packages)
  for (const [path, entry] of Object.entries(wanted)) {
    const needed =
      path.startsWith('node_modules/') && !entry.optional && !entry.devOptional && !entry.link && (tests || !entry.dev)
    if (needed && installed[path]?.version !== entry.version)
      return `${path.slice('node_modules/'.length)} ${entry.version} is missing`
  }
  // Bun's platform packages are optional: the installed one must have the right version.
  const stale = packages.find(
    (name) => existsSync(executable(name)) && versionOf(name) !== wanted[`node_modules/${name}`]?.version,
  )
  return stale === undefined ? undefined : `${stale} is out of date`
}

const versionOf = (name) => JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')).version

const executable = (name) => join(root, 'node_modules', name, 'bin', process.platform === 'win32' ? 'bun.exe' : 'bun')

/** The platform packages for this machine. This version of Bun has no separate build for processors without AVX2. */
function platformPackages() {
  const system = process.platform === 'win32' ? 'windows' : process.platform === 'android' ? 'linux' : process.platform
  const name = `@oven/bun-${system}-${{ x64: 'x64', arm64: 'aarch64' }[process.arch] ?? process.arch}`
  if (process.platform === 'android') return [`${name}-android`]
  return process.platform === 'linux' && isMusl() ? [`${name}-musl`] : [name]
}

const isMusl = () =>
  existsSync('/etc/alpine-release') ||
  ['x86_64', 'aarch64'].some(
    (machine) =>
      existsSync(`/lib/ld-musl-${machine}.so.1`) &&
      !existsSync(`/lib64/ld-linux-x86-64.so.2`) &&
      !existsSync('/lib/ld-linux-aarch64.so.1'),
  )

/** Bun's platform packages in the lock file. */
const knownPackages = () =>
  Object.keys(
    JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages['node_modules/bun']
      ?.optionalDependencies ?? {},
  )

/** The command that installs the packages of `console/`, or undefined where they are installed. */
export function consoleInstallation() {
  const folder = join(root, 'console')
  const installed = packagesIn(join(folder, 'node_modules', '.package-lock.json'))
  const wanted = Object.entries(packagesIn(join(folder, 'package-lock.json')))
  const isMissing = ([path, { version, optional }]) => path !== '' && !optional && installed[path]?.version !== version
  if (!wanted.some(isMissing)) return undefined
  const { command, first } = npmCommand()
  return { command, args: [...first, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'] }
}

/** Installs the packages of `console/` where they are missing, and returns true if they are there then. */
export function installConsole() {
  const install = consoleInstallation()
  if (install === undefined) return true
  console.error('sluice: installing the packages of the console')
  const { command, args } = install
  const { status } = spawnSync(command, args, {
    cwd: join(root, 'console'),
    stdio: ['ignore', 2, 2],
    shell: command === 'npm.cmd',
  })
  return status === 0
}

const packagesIn = (lockFile) => (existsSync(lockFile) ? JSON.parse(readFileSync(lockFile, 'utf8')).packages : {})

function npm(args) {
  const { command, first } = npmCommand()
  // The output of npm goes to stderr: stdout is for the server's own lines.
  return spawnSync(command, [...first, ...args], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: command === 'npm.cmd',
  })
}

/** If npm started this process, the same npm; the variable may also be the path of another package manager. */
function npmCommand() {
  const self = process.env.npm_execpath
  if (self !== undefined && /npm-cli\.c?js$/.test(self)) return { command: process.execPath, first: [self] }
  return { command: process.platform === 'win32' ? 'npm.cmd' : 'npm', first: [] }
}
