import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startGateway, type Gateway } from '../server.ts'
import { parseStory, printStory, stable, type Section, type Story } from './story.ts'

/**
 * Every `*.story` beside this file, played against a running server and a real upstream. UPDATE=1 writes what was heard
 * into the files.
 */

const folder = import.meta.dir
const files = readdirSync(folder).filter((file) => file.endsWith('.story'))
const stories = new Map(
  files.map((file) => [file.replace('.story', ''), parseStory(readFileSync(join(folder, file), 'utf8'))]),
)

type Asked = { path: string; body: string }
const asked = new Map<string, Asked[]>()
let gateway: Gateway
let upstream: ReturnType<typeof Bun.serve>

const section = (story: Story, name: string, after = 0): Section | undefined =>
  story.sections.slice(after).find((candidate) => candidate.name.startsWith(name))

/** The provider's side: the story is found by the model's name; its n-th answer serves the n-th call. */
async function play(request: Request): Promise<Response> {
  const path = new URL(request.url).pathname.replace(/^\/v1/, '') + new URL(request.url).search
  const body = await request.text()
  const name = /models\/([^:]+):/.exec(path)?.[1] ?? (JSON.parse(body) as { model: string }).model
  const story = stories.get(name)
  if (story === undefined) return Response.json({ error: { message: `no story ${name}` } }, { status: 404 })
  const calls = asked.get(name) ?? []
  calls.push({ path, body })
  asked.set(name, calls)
  const answers = story.sections.filter((candidate) => candidate.name === 'provider answers')
  const answer = answers[calls.length - 1] ?? answers.at(-1)!
  const [status = '200', type = 'application/json', ...headers] = answer.detail.split(' ')
  return new Response(answer.body.replaceAll('\\r\\n', '\r\n'), {
    status: Number(status),
    headers: { 'content-type': type, ...Object.fromEntries(headers.map((pair) => pair.split('='))) },
  })
}

beforeAll(async () => {
  upstream = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: play })
  const providers = ['chat.completions', 'responses', 'messages', 'generateContent'].map(
    (protocol) =>
      `  acme-${protocol.split('.')[0]!.toLowerCase()}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${upstream.port}/v1", apiKey: secret, unlisted: true }\n`,
  )
  gateway = await startGateway({ config: `providers:\n${providers.join('')}` })
})

afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

for (const [name, story] of stories) {
  test(`${name}: ${story.intent.replaceAll('\n', ' ')}`, async () => {
    asked.delete(name)
    const ask = section(story, 'client asks')!
    const [method = 'POST', path = '/', ...extra] = ask.detail.split(' ')
    const response = await fetch(gateway.url + path, {
      method,
      headers: {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'application/json',
        ...Object.fromEntries(extra.map((pair) => pair.split('='))),
      },
      body: ask.body,
    })
    const heard = await response.text()
    check(story, name, response, heard)
    if (process.env.UPDATE === '1') writeFileSync(join(folder, `${name}.story`), printStory(story))
  })
}

function check(story: Story, name: string, response: Response, heard: string): void {
  const calls = asked.get(name) ?? []
  const expectedCalls = story.sections.filter(
    (candidate) => candidate.name.startsWith('provider') && candidate.name.endsWith('is asked'),
  )
  for (const [index, expected] of expectedCalls.entries())
    settle(expected, calls[index]?.path ?? 'nothing', pretty(calls[index]?.body ?? ''))
  settle(section(story, 'client hears')!, String(response.status), stable(pretty(heard)))
  expect(calls.length).toBe(expectedCalls.length)
  const headers = section(story, 'headers')
  if (headers !== undefined)
    settle(
      headers,
      '',
      headers.body
        .trim()
        .split('\n')
        .map((line) => `${line.split(': ')[0]!}: ${stable(response.headers.get(line.split(': ')[0]!) ?? 'absent')}`)
        .join('\n'),
    )
}

function settle(expected: Section, detail: string, body: string): void {
  if (process.env.UPDATE === '1') {
    expected.detail = detail
    expected.body = body + '\n'
    return
  }
  expect(detail).toBe(expected.detail)
  expect(body.trim()).toBe(expected.body.trim())
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 1)
  } catch {
    return text.replaceAll('\r\n', '\\r\\n')
  }
}
