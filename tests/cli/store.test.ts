import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { databaseFor } from '../postgres/databases.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { until } from '../store/account-contract.ts'
import { listening, type Started } from './listening.ts'

setDefaultTimeout(120_000)

const scratch = mkdtempSync(join(tmpdir(), 'sluice-cli-store-'))
const running = new Set<Started['child']>()
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL')
  for (const child of running) await child.exited
  rmSync(scratch, { recursive: true, force: true })
})

const KEY = 'sk-ai-v1-0123456789abcdef'
const OWNER_KEY = 'sk-mg-v1-0123456789abcdef'

const start = (args: string[]): Started['child'] => {
  const env = {
    PATH: process.env.PATH ?? '',
    ...LATE_COMPILERS,
    HOME: scratch,
    SLUICE_KEY: KEY,
    SLUICE_MANAGEMENT_KEY: OWNER_KEY,
  }
  const io = { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' } as const
  const child = Bun.spawn([program(), ...args], { cwd: scratch, env, ...io })
  running.add(child)
  return child
}

const serve = (...args: string[]): Promise<Started> =>
  listening(start(['serve', '--port', '0', '--no-console', ...args]))

async function stop({ child }: Started): Promise<void> {
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
}

async function sluice(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = start(args)
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, out, err }
}

const json = async (...args: string[]): Promise<any> => JSON.parse((await sluice(...args, '--json')).out)

const authorization = `Bearer ${KEY}`

const ask = async (url: string): Promise<number> => (await send(url)).status

async function send(url: string): Promise<{ status: number; id: string }> {
  const body = JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'hi' }] })
  const headers = { authorization, 'content-type': 'application/json' }
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
  await response.arrayBuffer()
  return { status: response.status, id: response.headers.get('x-request-id')! }
}

const CONTENT = 'the content of a file '.repeat(100_000)

async function upload(url: string): Promise<string> {
  const body = new FormData()
  body.set('purpose', 'user_data')
  body.set('file', new File([CONTENT], 'some.txt', { type: 'text/plain' }))
  const response = await fetch(`${url}/v1/files`, { method: 'POST', headers: { authorization }, body })
  return ((await response.json()) as { id: string }).id
}

async function contentOf(url: string, id: string): Promise<string> {
  return (await fetch(`${url}/v1/files/${id}/content`, { headers: { authorization } })).text()
}

/** The configuration of a server on a database. */
const configFor = (url: string, more = ''): string => configOf(`store: ${url}\n${more}`)

function configOf(text: string): string {
  const file = join(scratch, `${Bun.hash(text)}.yaml`)
  writeFileSync(file, text)
  return file
}

const generationsOf = async (...args: string[]): Promise<number> =>
  (await json('ledger', 'audit', ...args)).rows.generations

let databases = 0
const newDatabase = (): Promise<string> => databaseFor(`cli_${process.pid}_${databases++}`, () => true)

describe('sluice store restore', () => {
  test('the data folder is as the copy, once its server has stopped', async () => {
    const [data, copy] = [join(scratch, 'data'), join(scratch, 'copy')]
    const server = await serve('--data', data)
    const file = await upload(server.url)
    expect(await ask(server.url)).toBe(200)
    expect((await sluice('store', 'backup', copy, '--data', data)).code).toBe(0)
    expect(await ask(server.url)).toBe(200)
    const refused = await sluice('store', 'restore', copy, '--data', data)
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('is in use by another Sluice')])
    expect((await json('store', 'status', '--data', data)).processes).toMatchObject([{ id: server.child.pid }])
    await stop(server)
    expect(await generationsOf('--data', data)).toBe(2)
    const { replaced } = await json('store', 'restore', copy, '--data', data)
    expect([await generationsOf('--data', data), await generationsOf('--data', replaced)]).toEqual([1, 2])
    const again = await serve('--data', data)
    expect([await ask(again.url), (await contentOf(again.url, file)) === CONTENT]).toEqual([200, true])
    await stop(again)
  })

  test('a copy that is not right is refused, and nothing is changed', async () => {
    const [data, copy] = [join(scratch, 'kept'), join(scratch, 'broken')]
    await stop(await serve('--data', data))
    mkdirSync(copy)
    const restore = (): Promise<{ code: number; err: string }> => sluice('store', 'restore', copy, '--data', data)
    expect(await restore()).toMatchObject({ code: 1, err: expect.stringContaining('has no database sluice.sqlite') })
    writeFileSync(join(copy, 'sluice.sqlite'), 'x'.repeat(10_000))
    expect(await restore()).toMatchObject({ code: 1, err: expect.stringContaining('is corrupt') })
    const status = await json('store', 'status', '--data', data)
    expect(status).toMatchObject({ engine: expect.stringMatching(/^SQLite 3/), processes: [], moving: false })
    expect(status.schema.version).toBe(status.schema.known)
    await stop(await serve('--data', data))
  })
})

describe('sluice store migrate', () => {
  test('a server on the database goes on where the one on the folder ended', async () => {
    const data = join(scratch, 'moved')
    const url = await newDatabase()
    const migrate = ['store', 'migrate', '--data', data, '--to', url]
    const server = await serve('--data', data)
    const file = await upload(server.url)
    for (let index = 0; index < 3; index++) expect(await ask(server.url)).toBe(200)
    expect(await sluice(...migrate)).toMatchObject({ code: 1, err: expect.stringContaining('is in use by another') })
    await stop(server)
    const moved = await sluice(...migrate)
    expect([moved.code, moved.err]).toEqual([0, expect.stringMatching(/^generations: 3$/m)])
    expect(moved.out).toContain('whose counts, sums and audit agree, and the contents of 1 files')
    expect(moved.out).not.toContain('bodies')
    expect(await sluice(...migrate)).toMatchObject({ code: 1, err: expect.stringContaining('is in use already') })
    const config = configFor(url)
    const elsewhere = join(scratch, 'elsewhere')
    mkdirSync(elsewhere)
    cpSync(join(data, 'pepper'), join(elsewhere, 'pepper'))
    const next = await serve('--data', elsewhere, '--config', config)
    expect([await ask(next.url), (await contentOf(next.url, file)) === CONTENT]).toEqual([200, true])
    const status = async (): Promise<any> => json('store', 'status', '--data', data, '--config', config)
    expect(await status()).toMatchObject({
      engine: expect.stringMatching(/^PostgreSQL \d/),
      processes: [{ name: expect.stringContaining(String(next.child.pid)) }],
      pending: { open_generations: 0, predictions: 0, webhooks: 0 },
    })
    await stop(next)
    expect(await until(async () => (await status()).processes.length === 0)).toBe(true)
    expect([await generationsOf('--data', data, '--config', config), await generationsOf('--data', data)]).toEqual([
      4, 3,
    ])
  })

  test('captured bodies stay in the folder, where a server on the database shows them', async () => {
    const [data, elsewhere] = [join(scratch, 'captured'), join(scratch, 'without-bodies')]
    const url = await newDatabase()
    const capture = 'capture: { most: all, default: all }\n'
    const server = await serve('--data', data, '--config', configOf(capture))
    const { status, id } = await send(server.url)
    expect(status).toBe(200)
    await stop(server)
    const moved = await sluice('store', 'migrate', '--data', data, '--to', url)
    expect(moved).toMatchObject({
      code: 0,
      out: expect.stringContaining(`bodies are still in ${join(data, 'bodies')}`),
    })
    mkdirSync(elsewhere)
    cpSync(join(data, 'pepper'), join(elsewhere, 'pepper'))
    for (const [folder, expected] of [
      [data, [200, expect.stringContaining('"content":"hi"')]],
      [elsewhere, [404, expect.any(String)]],
    ] as const) {
      const next = await serve('--data', folder, '--config', configFor(url, capture))
      const path = `/v1/management/requests/${id.replace('req_', '')}/bodies/client_request`
      const body = await fetch(next.url + path, { headers: { authorization: `Bearer ${OWNER_KEY}` } })
      expect([body.status, await body.text()]).toEqual(expected as never)
      await stop(next)
    }
  })

  test('the URL is checked before anything is done', async () => {
    const migrate = async (...args: string[]): Promise<unknown> => {
      const { code, err } = await sluice('store', 'migrate', '--data', join(scratch, 'none'), ...args)
      return [code, err]
    }
    expect(await migrate()).toEqual([2, expect.stringContaining('requires --to postgres://')])
    expect(await migrate('--to', 'mysql://x/y')).toEqual([2, expect.stringContaining('--to has the scheme mysql')])
    expect(await migrate('--to', 'postgres://x/y')).toEqual([1, expect.stringContaining('does not exist')])
  })
})
