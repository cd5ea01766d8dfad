import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { descendantsOf } from '../../bench/process.ts'
import { listening } from './listening.ts'

const project = join(import.meta.dir, '../..')
const copy = mkdtempSync(join(tmpdir(), 'sluice-launcher-'))

/** A replacement for the server: it prints its arguments, and records the signal or event that stops it. */
const STUB = `
if (process.argv[2] === 'exit') process.exit(Number(process.argv[3]))
setInterval(() => {}, 1000)
for (const name of ['SIGTERM', 'SIGINT', 'disconnect']) process.on(name, async () => {
  await Bun.write('${copy}/stopped-by', name)
  setTimeout(() => process.exit(0), 50)
})
const words = [...process.argv.slice(2), process.env.WATER, process.cwd(), process.pid]
console.log('arguments ' + words.join(' '))
console.log('listening on http://stub')
`

beforeAll(() => {
  cpSync(join(project, 'launcher'), join(copy, 'launcher'), { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(project, file), join(copy, file))
  mkdirSync(join(copy, 'src'))
  writeFileSync(join(copy, 'src/main.ts'), STUB)
  symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'))
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

const launch = (args: string[], env: Record<string, string> = {}): Bun.Subprocess<'ignore', 'pipe', 'pipe'> =>
  Bun.spawn([Bun.which('node') ?? 'node', join(copy, 'launcher/sluice.mjs'), ...args], {
    cwd: tmpdir(),
    env: { PATH: process.env.PATH ?? '', ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })

const stoppedBy = (): Promise<string> => Bun.file(join(copy, 'stopped-by')).text()

test('the launcher passes arguments, environment and signals on', async () => {
  const { child, lines } = await listening(launch(['serve', '--port', '0']))
  expect(lines[0]).toMatch(new RegExp(`^arguments serve --port 0  ${tmpdir()} \\d+$`))
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
  expect(await stoppedBy()).toBe('SIGTERM')
  const other = await listening(launch(['serve'], { WATER: 'high' }))
  expect(other.lines[0]).toMatch(new RegExp(`^arguments serve high ${tmpdir()} \\d+$`))
  other.child.kill('SIGINT')
  expect(await other.child.exited).toBe(0)
  expect(await stoppedBy()).toBe('SIGINT')
}, 20_000)

test('the launcher ends with the exit code or signal of the server', async () => {
  expect(await launch(['exit', '3']).exited).toBe(3)
  expect(await launch(['exit', '0']).exited).toBe(0)
  const { child, lines } = await listening(launch(['serve']))
  process.kill(Number(lines[0]?.split(' ').at(-1)), 'SIGKILL')
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
}, 20_000)

const node = Bun.which('node') ?? 'node'
const canReplaceItself = Bun.spawnSync([node, '-p', 'typeof process.execve']).stdout.toString().trim() === 'function'

test.if(!canReplaceItself)(
  'the server stops when the launcher is killed',
  async () => {
    const { child, lines } = await listening(launch(['serve']))
    child.kill('SIGKILL')
    await ended(pidIn(lines))
    expect(await stoppedBy()).toBe('disconnect')
  },
  20_000,
)

test.if(canReplaceItself)(
  'the launcher replaces itself with the server',
  async () => {
    const { child, lines } = await listening(launch(['serve']))
    expect(pidIn(lines)).toBe(child.pid)
    child.kill()
    await child.exited
  },
  20_000,
)

const pidIn = (lines: string[]): number => Number(lines[0]?.split(' ').at(-1))

/** The setting of the memory allocator with which the launcher starts Bun. */
const ALLOCATOR = 'MIMALLOC_PURGE_HOLES_MIN_INTERVAL'

test('a script of package.json runs under the Bun of the project with its settings, whatever was linked', async () => {
  const other = join(copy, 'other')
  cpSync(join(copy, 'launcher'), join(other, 'launcher'), { recursive: true })
  cpSync(join(copy, 'package-lock.json'), join(other, 'package-lock.json'))
  for (const name of ['.package-lock.json', '@oven'])
    symlinkOf(join(project, 'node_modules', name), join(other, 'node_modules', name))
  writeFileSync(
    join(other, 'package.json'),
    JSON.stringify({ scripts: { other: 'node launcher/prepare.mjs && bun other.ts' } }),
  )
  writeFileSync(join(other, 'other.ts'), `console.log(...process.argv.slice(2), Bun.version, process.env.${ALLOCATOR})`)
  const bin = join(other, 'node_modules/.bin/bun')
  const run = (): string =>
    Bun.spawnSync(['npm', 'run', '-s', 'other', '--', '--fast', 'x'], { cwd: other }).stdout.toString()
  for (const before of ['missing', 'broken', 'linked by npm', 'as it was left']) {
    if (before !== 'as it was left') rmSync(bin, { force: true })
    if (before === 'broken') writeFileSync(bin, 'exit 1')
    if (before === 'linked by npm') symlinkSync(process.execPath, bin)
    expect(`${before}: ${run()}`).toBe(`${before}: --fast x ${Bun.version} 1000\n`)
  }
}, 30_000)

function symlinkOf(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}

test.skipIf(process.platform !== 'linux').each(['SIGTERM', 'SIGKILL'] as const)(
  'npm start has no launcher beside the server, which stops with npm at %s',
  async (signal) => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-npm-'))
    const npm = Bun.spawn(['npm', 'start', '--', '--data', data, '--port', '0', '--no-console'], {
      cwd: project,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    await listening(npm)
    const children = descendantsOf(npm.pid)
    const names = children.map((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim())
    expect(names.filter((name) => name !== 'sh')).toEqual(['bun'])
    npm.kill(signal)
    for (const pid of children) await ended(pid)
    rmSync(data, { recursive: true })
  },
  30_000,
)

async function ended(pid: number): Promise<void> {
  const deadline = Date.now() + 10_000
  while (isAlive(pid) && Date.now() < deadline) await Bun.sleep(20)
  expect(isAlive(pid)).toBe(false)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('the launcher reports what to do if it cannot install packages', async () => {
  const withoutModules = join(copy, 'withoutModules')
  for (const name of ['launcher', 'package.json', 'package-lock.json'])
    cpSync(join(copy, name), join(withoutModules, name), { recursive: true })
  const child = Bun.spawn([Bun.which('node') ?? 'node', join(withoutModules, 'launcher/sluice.mjs'), '--help'], {
    env: { PATH: '/nonexistent' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  expect(await child.exited).toBe(1)
  expect(await new Response(child.stderr).text()).toMatch(
    /^sluice: installing \(nothing is installed yet\)\nsluice: cannot start npm .* npm ci --ignore-scripts .*\n$/,
  )
}, 20_000)
