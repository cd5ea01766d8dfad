import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** Errors of paths that belong to no protocol, or to several: each client gets the format that it reads. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway?.stop())

type Format = 'OpenAI' | 'Anthropic' | 'Google'

function formatOf(body: unknown): Format | undefined {
  const { type, error } = body as { type?: string; error: Record<string, unknown> }
  if (type === 'error' && typeof error.type === 'string') return 'Anthropic'
  if (typeof error.code === 'number' && typeof error.status === 'string') return 'Google'
  return typeof error.message === 'string' && typeof error.type === 'string' ? 'OpenAI' : undefined
}

/** The headers that the SDKs of both always send. */
const ANTHROPIC = { 'anthropic-version': '2023-06-01' }
const GOOGLE = { 'x-goog-api-client': 'google-genai-sdk/3.6.0' }

test.each([
  // OpenAI's API has these, under words of other protocols.
  ['GET', '/v1/chat/completions/chatcmpl-1/messages', {}, 'OpenAI'],
  ['POST', '/v1/threads/thread_1/messages', {}, 'OpenAI'],
  ['POST', '/v1/embeddings', {}, 'OpenAI'],
  ['POST', '/v1/audio/speech', {}, 'OpenAI'],
  ['POST', '/v1/messages/batches', {}, 'Anthropic'],
  ['GET', '/v1/messages/batches/msgbatch_1/results', {}, 'Anthropic'],
  ['POST', '/v1/v1/messages', {}, 'Anthropic'],
  ['POST', '/messages', {}, 'Anthropic'],
  ['POST', '/v1/complete', ANTHROPIC, 'Anthropic'],
  ['GET', '/v1/skills', ANTHROPIC, 'Anthropic'],
  ['POST', '/v1beta/cachedContents', {}, 'Google'],
  ['POST', '/v1/cachedContents', GOOGLE, 'Google'],
  ['POST', '/upload/v1beta/files', GOOGLE, 'Google'],
  ['POST', '/upload/v1beta/files', {}, 'Google'],
  ['POST', '/v1beta/models/sandbox/gemini:embedContent', {}, 'Google'],
] as [string, string, Record<string, string>, Format][])('%s %s %j is unknown, in the format of %s', async (...one) => {
  const [method, path, headers, format] = one
  const response = await fetch(gateway.url + path, {
    method,
    headers: { ...headers, authorization: `Bearer ${gateway.key}` },
  })
  expect([response.status, formatOf(await response.json())]).toEqual([404, format])
})

test.each(['/v1/models', '/v1/models/sandbox/none', '/v1/files', '/v1/files/file_1'])(
  'GET %s without a key is refused in the format of its client',
  async (path) => {
    for (const [headers, format] of [
      [{}, 'OpenAI'],
      [ANTHROPIC, 'Anthropic'],
      [GOOGLE, 'Google'],
    ] as [Record<string, string>, Format][]) {
      const response = await fetch(gateway.url + path, { headers })
      expect([response.status, formatOf(await response.json())]).toEqual([401, format])
    }
  },
)
