import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { generateText, stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'
import { asGatewayError } from '../../../src/error.ts'
import { unfold } from '../../../src/generation/event.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { context, frames, rawRequestOf, whole } from './kit.ts'

/** A model of another protocol, which signs its reasoning, calls and texts: it calls tools once, then responds. */
const issuer = { provider: 'elsewhere', model: 'thinker' }
const calls = whole({
  parts: [
    { type: 'reasoning', text: '', signature: { data: 'alone' } },
    { type: 'reasoning', text: 'hm', signature: { data: 'thought' } },
    { type: 'text', text: 'I look.', citations: [{ url: 'https://example.com' }] },
    {
      type: 'tool-call',
      id: 'call_1',
      name: 'look',
      arguments: '{"at":"sky"}',
      form: 'function',
      signature: { data: 'call' },
    },
    { type: 'tool-call', id: 'call_2', name: 'look', arguments: '{"at":"sea"}', form: 'function' },
  ],
  finish: { reason: 'tool-calls', raw: 'STOP' },
})
const done = whole({ parts: [{ type: 'text', text: 'Blue.', signature: { data: 'text' } }] })

let requests: GenerationRequest[] = []
let refusals: number[] = []

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(incoming) {
    try {
      const request = messages.serve.readRequest(rawRequestOf(await incoming.text()))
      requests.push(request)
      const answer = request.turns.some(({ role }) => role === 'tool') ? done : calls
      if (!request.stream) return Response.json(messages.serve.writeResponse(answer, context(issuer)))
      const text = frames([...unfold(answer)], issuer)
        .map(({ event, data }) => `event: ${event}\ndata: ${data}\n\n`)
        .join('')
      return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
    } catch (thrown) {
      const error = asGatewayError(thrown)
      refusals.push(error.status)
      return Response.json(messages.serve.writeError(error, 'req_1'), { status: messages.serve.statusOf!(error) })
    }
  },
})
afterAll(() => server.stop(true))
beforeEach(() => {
  requests = []
  refusals = []
})

/** The second request has all of the first response, with its signatures and their issuer. */
function expectReplay(): void {
  expect(requests).toHaveLength(2)
  const [, assistant, results] = requests[1]!.turns
  expect(assistant!.parts.map((part) => [part.type, 'signature' in part ? part.signature : undefined])).toEqual([
    ['reasoning', { data: 'alone', issuer }],
    ['reasoning', { data: 'thought', issuer }],
    ['text', undefined],
    ['tool-call', { data: 'call', issuer }],
    ['tool-call', undefined],
  ])
  expect(results!.parts.map((part) => (part.type === 'tool-result' ? [part.callId, part.name] : part.type))).toEqual([
    ['call_1', 'look'],
    ['call_2', 'look'],
  ])
}

describe('a tool loop', () => {
  test("of Anthropic's tool runner falls back from threads, and sends every signature back", async () => {
    const client = new Anthropic({ apiKey: 'key', baseURL: `http://127.0.0.1:${server.port}`, maxRetries: 0 })
    const look = betaTool({
      name: 'look',
      description: 'Looks.',
      inputSchema: { type: 'object', properties: { at: { type: 'string' } } } as const,
      run: () => 'blue',
    })
    const message = await client.beta.messages.toolRunner({
      model: 'p/m',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'What colour?' }],
      tools: [look],
    })
    expect(message.content[0]).toMatchObject({ type: 'text', text: 'Blue.' })
    expect(refusals).toEqual([400])
    expectReplay()
  })

  const model = createAnthropic({ apiKey: 'key', baseURL: `http://127.0.0.1:${server.port}/v1` })('p/m')
  const look = tool({
    description: 'Looks.',
    inputSchema: z.object({ at: z.string() }),
    execute: () => Promise.resolve('blue'),
  })
  const options = { model, prompt: 'What colour?', maxOutputTokens: 100, tools: { look }, stopWhen: stepCountIs(3) }

  test("of Vercel's AI SDK sends every signature back", async () => {
    expect((await generateText(options)).text).toBe('Blue.')
    expectReplay()
  })

  test("of Vercel's AI SDK sends every signature back in streams", async () => {
    expect(await streamText(options).text).toBe('Blue.')
    expectReplay()
  })
})
