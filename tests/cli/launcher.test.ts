import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
const words = [...process.argv.slice(2), process.env.BUN_CONFIG_MAX_HTTP_REQUESTS, process.pid]
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
  expect(lines[0]).toMatch(/^arguments serve --port 0 65336 \d+$/)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
  const other = await listening(launch(['serve'], { BUN_CONFIG_MAX_HTTP_REQUESTS: '7' }))
  expect(other.lines[0]).toMatch(/^arguments serve 7 \d+$/)
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

test('the server stops when the launcher is killed', async () => {
  const { child, lines } = await listening(launch(['serve']))
  child.kill('SIGKILL')
  const pid = Number(lines[0]?.split(' ').at(-1))
  const deadline = Date.now() + 10_000
  while (isAlive(pid) && Date.now() < deadline) await Bun.sleep(20)
  expect(isAlive(pid)).toBe(false)
  expect(await stoppedBy()).toBe('disconnect')
}, 20_000)

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('the launcher runs another script of the project', async () => {
  writeFileSync(join(copy, 'other.ts'), `console.log(process.argv.slice(2).join(' '), typeof Bun)`)
  const child = launch(['run', join(copy, 'other.ts'), '--fast', 'x'])
  expect(await new Response(child.stdout).text()).toBe('--fast x object\n')
}, 20_000)

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
