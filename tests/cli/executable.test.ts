import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { program } from '../program.ts'
import { listening, type Started } from './listening.ts'

// Each test starts processes of a large file.
setDefaultTimeout(60_000)

const folder = mkdtempSync(join(tmpdir(), 'sluice-executable-'))
const executable = join(folder, process.platform === 'win32' ? 'sluice.exe' : 'sluice')
const data = join(folder, 'data')
const env = { PATH: '', HOME: folder }

const run = async (...args: string[]): Promise<{ code: number; output: string }> => {
  const child = Bun.spawn([executable, ...args], { cwd: folder, env, stdout: 'pipe', stderr: 'pipe' })
  const output = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, output: output.join('') }
}

let server: Started
let key: string
const post = (path: string, body: object): Promise<Response> =>
  fetch(server.url + path, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

beforeAll(async () => {
  copyFileSync(program(), executable)
  const child = Bun.spawn([executable, 'serve', '--port', '0', '--data', data], {
    cwd: folder,
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  server = await listening(child)
  key = /^key pay-as-you-go (\S+)$/m.exec(server.lines.join('\n'))![1]!
}, 120_000)
afterAll(async () => {
  server?.child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

test('the executable of one file answers without Node, Bun or the project', async () => {
  const response = await post('/v1/messages', {
    model: 'sandbox/chat',
    max_tokens: 100,
    messages: [{ role: 'user', content: '[[reply: Water.]]' }],
  })
  expect(((await response.json()) as { content: object[] }).content).toMatchObject([{ type: 'text', text: 'Water.' }])
})

test('its tokeniser and its process for heavy requests start from the same file', async () => {
  const messages = [{ role: 'user', content: 'All water runs to the sea.' }]
  const count = await post('/v1/messages/count_tokens', { model: 'sandbox/chat', messages })
  expect(await count.json()).toEqual({ input_tokens: 11 })
  const heavy = [{ role: 'user', content: 'water '.repeat(300_000) }]
  const response = await post('/v1/chat/completions', { model: 'sandbox/messages', max_tokens: 10, messages: heavy })
  expect([response.status, await response.text()]).toMatchObject([200, expect.stringContaining('You said')])
})

test('health says whether a server takes requests', async () => {
  const { port } = new URL(server.url)
  expect(await run('health', '--port', port)).toEqual({ code: 0, output: 'ok\n' })
  const { code, output } = await run('health', '--port', '9')
  expect([code, output]).toEqual([1, expect.stringContaining('no server answers at http://127.0.0.1:9/readyz')])
})

test('a backup of a running server is a data folder, whose ledger is consistent', async () => {
  const form = new FormData()
  form.set('purpose', 'user_data')
  form.set('file', new File(['All water runs to the sea.'], 'sea.txt'))
  const headers = { 'x-api-key': key }
  const uploaded = await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body: form })
  const { id } = (await uploaded.json()) as { id: string }
  const backup = join(folder, 'backup')
  expect(await run('store', 'backup', backup, '--data', data)).toMatchObject({ code: 0 })
  expect((await run('store', 'backup', backup, '--data', data)).output).toContain(`${backup} exists`)
  expect(statSync(join(backup, 'sluice.sqlite')).mode & 0o777).toBe(0o600)
  expect(existsSync(join(backup, 'server.pid'))).toBe(false)
  expect((await run('ledger', 'audit', '--data', backup)).output).toContain('the ledger is consistent')

  server.child.kill('SIGTERM')
  expect(await server.child.exited).toBe(0)
  const child = Bun.spawn([executable, 'serve', '--port', '0', '--data', backup], {
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  server = await listening(child)
  const content = await fetch(`${server.url}/v1/files/${id}/content`, { headers })
  expect(await content.text()).toBe('All water runs to the sea.')
})
