import { afterAll, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listening, type Started } from '../cli/listening.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { until } from '../store/account-contract.ts'
import { databaseFor } from './databases.ts'

setDefaultTimeout(120_000)

const scratch = mkdtempSync(join(tmpdir(), 'sluice-processes-'))
const children: Started['child'][] = []
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  for (const child of children) await child.exited
  rmSync(scratch, { recursive: true, force: true })
})

const config = join(scratch, 'sluice.yaml')

/** Runs a command with a data folder of its own, as on another machine. */
function start(folder: string, words: string[], env: Record<string, string> = {}): Started['child'] {
  const args = [program(), ...words, '--config', config, '--data', join(scratch, folder)]
  const child = Bun.spawn(args, {
    ...{ cwd: scratch, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    env: { PATH: process.env.PATH ?? '', ...LATE_COMPILERS, HOME: scratch, ...env },
  })
  children.push(child as Started['child'])
  return child as Started['child']
}

const serve = (folder: string): Promise<Started> => listening(start(folder, ['serve', '--port', '0', '--no-console']))

const statusOf = async ({ url }: Started, key: string): Promise<number> => {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  await response.arrayBuffer()
  return response.status
}

test('processes that start together have one pepper, and a revoked key is refused by all', async () => {
  writeFileSync(config, `store: ${await databaseFor(`processes_${process.pid}`, () => true)}\n`)
  const servers = await Promise.all(['one', 'two'].map(serve))
  const printed = servers.flatMap(({ lines }) => lines.filter((line) => line.startsWith('key pay-as-you-go')))
  expect(printed.length).toBe(1)
  const key = printed[0]!.split(' ')[2]!
  for (const server of servers) expect(await until(async () => (await statusOf(server, key)) === 200)).toBe(true)
  expect(['one', 'two'].filter((folder) => existsSync(join(scratch, folder, 'pepper')))).toEqual([])
  expect(await start('three', ['keys', 'revoke', key]).exited).toBe(0)
  for (const server of servers) expect(await until(async () => (await statusOf(server, key)) === 401)).toBe(true)
  const other = start('four', ['serve', '--port', '0'], { SLUICE_PEPPER: Buffer.alloc(32, 1).toString('base64') })
  expect(await other.exited).toBe(1)
  expect(await new Response(other.stderr).text()).toContain('SLUICE_PEPPER does not match the keys in the database')
})

test('processes that start together for the first time, or with a new key, all begin with the chosen one', async () => {
  writeFileSync(config, `store: ${await databaseFor(`chosen_${process.pid}`, () => true)}\n`)
  for (const key of ['sk-ai-v1-0123456789abcdef', 'sk-ai-v1-fedcba9876543210']) {
    const begin = (folder: string): Promise<Started> =>
      listening(start(folder, ['serve', '--port', '0', '--no-console'], { SLUICE_KEY: key }))
    const servers = await Promise.all(['five', 'six', 'seven'].map(begin))
    for (const server of servers) expect(await until(async () => (await statusOf(server, key)) === 200)).toBe(true)
    for (const { child } of servers) child.kill('SIGTERM')
    for (const { child } of servers) expect(await child.exited).toBe(0)
  }
})
