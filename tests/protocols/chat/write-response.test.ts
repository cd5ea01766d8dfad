import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import Ajv2020 from 'ajv/dist/2020.js'
import fc from 'fast-check'
import OpenAI from 'openai'
import { GatewayError } from '../../../src/error.ts'
import {
  Fold,
  fold,
  type GenerationEvent,
  type GenerationResponse,
  type PartHead,
} from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { unwrapSignature } from '../../../src/generation/signature.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import { writeResponse } from '../../../src/protocols/chat/write-response.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { sentences } from '../../grammar.ts'
import { chunksIn, contextWith, framesOf, START, WITH_USAGE, withUniqueIds, type Json } from './building.ts'

/** Responses to clients of chat completions. */

test('audio in several pieces is written as one', () => {
  const parts = ['AA==', 'AQI='].map((data): GenerationResponse['parts'][number] => ({
    type: 'audio',
    source: { type: 'data', mediaType: 'audio/L16', data },
  }))
  const { choices } = writeResponse(
    { id: 'u', model: 'm', parts, usage: noUsage(), metered: false, finish: { reason: 'stop', raw: 'STOP' } },
    contextWith(),
  ) as Json
  expect(choices[0].message.audio.data).toBe('AAEC')
})

test('a stream of every kind of part is written as these frames', () => {
  const frames = framesOf(
    [
      START,
      { type: 'part-start', part: 0, head: { type: 'reasoning' } },
      { type: 'part-delta', part: 0, text: 'Hm' },
      { type: 'part-end', part: 0, signature: 'sig' },
      { type: 'part-start', part: 1, head: { type: 'text' } },
      { type: 'part-delta', part: 1, text: 'Hi' },
      { type: 'part-end', part: 1 },
      {
        type: 'part-start',
        part: 2,
        head: { type: 'citation', citation: { url: 'https://a.b', title: 'A', start: 0, end: 2 } },
      },
      { type: 'part-end', part: 2 },
      { type: 'part-start', part: 3, head: { type: 'tool-call', id: 'c1', name: 'f', form: 'function' } },
      { type: 'part-delta', part: 3, text: '{"a":' },
      { type: 'part-delta', part: 3, text: '1}' },
      { type: 'part-end', part: 3, signature: 'own' },
      { type: 'part-start', part: 4, head: { type: 'tool-call', id: 'c2', name: 'g', form: 'function' } },
      { type: 'part-end', part: 4 },
      { type: 'part-start', part: 5, head: { type: 'image', mediaType: 'image/png' } },
      { type: 'part-delta', part: 5, text: 'AA' },
      { type: 'part-delta', part: 5, text: 'BB' },
      { type: 'part-end', part: 5 },
      { type: 'usage', usage: { inputTokens: 5, cacheReadTokens: 3, outputTokens: 2, reasoningTokens: 1 } },
      { type: 'finish', reason: 'tool-calls', raw: 'tool_use' },
    ],
    contextWith(WITH_USAGE, { provider: 'p', model: 'm' }),
  )
  const chunks = chunksIn(frames)
  expect(frames.at(-1)).toEqual({ data: '[DONE]' })
  for (const chunk of chunks) {
    expect(chunk).toMatchObject({
      id: 'chatcmpl-ours',
      object: 'chat.completion.chunk',
      created: 1_700_000_000,
      model: 'maker/model',
    })
    expect(Array.isArray(chunk.choices)).toBe(true)
    expect('usage' in chunk).toBe(true)
  }
  const wrapped = chunks[2]!.choices[0].delta.reasoning_details[0].signature
  expect(unwrapSignature(wrapped)).toEqual({ data: 'sig', issuer: { provider: 'p', model: 'm' } })
  expect(chunks.map((chunk) => chunk.choices[0]?.delta)).toEqual([
    { role: 'assistant', content: '' },
    { reasoning: 'Hm', reasoning_details: [{ type: 'reasoning.text', text: 'Hm', format: 'unknown', index: 0 }] },
    { reasoning_details: [{ type: 'reasoning.text', text: '', signature: wrapped, format: 'unknown', index: 0 }] },
    { content: 'Hi' },
    { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'f', arguments: '' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '1}' } }] },
    {
      reasoning_details: [
        { type: 'reasoning.encrypted', data: expect.any(String), format: 'unknown', index: 1, id: 'c1' },
      ],
    },
    { tool_calls: [{ index: 1, id: 'c2', type: 'function', function: { name: 'g', arguments: '' } }] },
    { tool_calls: [{ index: 1, function: { arguments: '{}' } }] },
    { images: [{ index: 0, type: 'image_url', image_url: { url: 'data:image/png;base64,AABB' } }] },
    {
      annotations: [
        { type: 'url_citation', url_citation: { url: 'https://a.b', title: 'A', start_index: 0, end_index: 2 } },
      ],
    },
    {},
    undefined,
  ])
  expect(chunks.at(-2)!.choices[0]).toMatchObject({ finish_reason: 'tool_calls', native_finish_reason: 'tool_use' })
  expect(chunks.at(-1)).toMatchObject({
    choices: [],
    usage: {
      prompt_tokens: 8,
      completion_tokens: 3,
      total_tokens: 11,
      prompt_tokens_details: { cached_tokens: 3 },
      completion_tokens_details: { reasoning_tokens: 1 },
    },
  })
})

test('usage is written only for a client that requested it', () => {
  const events: GenerationEvent[] = [
    START,
    { type: 'usage', usage: { inputTokens: 1 } },
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ]
  expect(chunksIn(framesOf(events, contextWith())).some((chunk) => 'usage' in chunk)).toBe(false)
  expect(chunksIn(framesOf(events)).map((chunk) => chunk.usage === null)).toEqual([true, true, false])
})

test('an error is written as a chunk and then alone, and nothing follows it', () => {
  const error: GenerationEvent = { type: 'error', error: new GatewayError('overloaded', 'Too much.') }
  for (const events of [[error], [START, error, { type: 'finish', reason: 'stop', raw: '' } as GenerationEvent]]) {
    const frames = framesOf(events)
    const error = { message: 'Too much.', type: 'server_error', param: null, code: 'overloaded' }
    expect(JSON.parse(frames.at(-2)!.data)).toMatchObject({ choices: [{ index: 0, finish_reason: 'error' }], error })
    expect(JSON.parse(frames.at(-1)!.data)).toEqual({ error })
    expect(frames.some((frame) => frame.data === '[DONE]')).toBe(false)
  }
})

test('annotations of a text go out before the error that ends its stream', () => {
  const frames = framesOf([
    START,
    { type: 'part-start', part: 0, head: { type: 'text' } },
    { type: 'part-delta', part: 0, text: 'Hi' },
    { type: 'part-end', part: 0 },
    { type: 'part-start', part: 1, head: { type: 'citation', citation: { url: 'https://a.b' } } },
    { type: 'part-end', part: 1 },
    { type: 'error', error: new GatewayError('overloaded', 'Too much.') },
  ])
  expect(JSON.parse(frames.at(-3)!.data).choices[0].delta).toMatchObject({
    annotations: [{ type: 'url_citation', url_citation: { url: 'https://a.b' } }],
  })
})

test('reasoning that the client excludes is not written', () => {
  const events: GenerationEvent[] = [
    START,
    { type: 'part-start', part: 0, head: { type: 'reasoning' } },
    { type: 'part-delta', part: 0, text: 'secret' },
    { type: 'part-end', part: 0, signature: 's' },
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ]
  const context = contextWith({ reasoning: { exclude: true } })
  expect(JSON.stringify(framesOf(events, context))).not.toContain('secret')
  expect(JSON.stringify(writeResponse(fold(events), context))).not.toContain('secret')
})

test('a whole response is written with these members', () => {
  const answer: GenerationResponse = {
    ...fold([
      START,
      { type: 'usage', usage: { inputTokens: 2, outputTokens: 1 } },
      { type: 'finish', reason: 'tool-calls', raw: 'tool_use' },
    ]),
    parts: [
      { type: 'reasoning', text: 'Hm' },
      { type: 'tool-call', id: 'c', name: 'f', form: 'function', arguments: '' },
      { type: 'tool-call', id: 'd', name: 'g', form: 'custom', arguments: '' },
    ],
  }
  expect(writeResponse(answer, contextWith())).toEqual({
    id: 'chatcmpl-ours',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'maker/model',
    choices: [
      {
        index: 0,
        logprobs: null,
        finish_reason: 'tool_calls',
        native_finish_reason: 'tool_use',
        message: {
          role: 'assistant',
          content: null,
          refusal: null,
          reasoning: 'Hm',
          reasoning_details: [{ type: 'reasoning.text', text: 'Hm', format: 'unknown', index: 0 }],
          tool_calls: [
            { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } },
            { id: 'd', type: 'custom', custom: { name: 'g', input: '' } },
          ],
        },
      },
    ],
    usage: {
      prompt_tokens: 2,
      completion_tokens: 1,
      total_tokens: 3,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  })
  expect('usage' in writeResponse({ ...answer, metered: false }, contextWith())).toBe(false)
})

test('a message without any content has an empty text, so that it can be sent back', () => {
  const messageOf = (parts: Part[]): Json => {
    const finish = { reason: 'stop' as const, raw: 'end_turn' }
    const answer = { id: 'x', model: 'y', parts, usage: noUsage(), metered: false, finish }
    return (writeResponse(answer, contextWith()) as Json).choices[0].message
  }
  expect(messageOf([])).toEqual({ role: 'assistant', content: '', refusal: null })
  expect(messageOf([{ type: 'reasoning', text: 'Hm' }]).content).toBe('')
  expect(messageOf([{ type: 'refusal', text: 'No.' }])).toEqual({ role: 'assistant', content: null, refusal: 'No.' })
})

describe('the official SDK', () => {
  let serve: (request: { stream?: boolean }) => Response = () => new Response()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => serve((await request.json()) as { stream?: boolean }),
  })
  afterAll(() => server.stop(true))
  const client = new OpenAI({ apiKey: 'sk-test', baseURL: `http://127.0.0.1:${server.port}/v1`, maxRetries: 0 })
  const ask = { model: 'maker/model', messages: [{ role: 'user' as const, content: 'hi' }] }
  const sse = (frames: Frame[]): Response =>
    new Response(frames.map((frame) => `data: ${frame.data}\n\n`).join(''), {
      headers: { 'content-type': 'text/event-stream' },
    })

  test('it reads any stream through its stream helper', async () => {
    await fc.assert(
      fc.asyncProperty(sentences(), async (made) => {
        const sentence = withUniqueIds(made)
        serve = () => sse(framesOf(sentence))
        const whole = client.chat.completions
          .stream({ ...ask, stream_options: { include_usage: true } })
          .finalChatCompletion()
        const last = sentence.at(-1)!
        if (last.type === 'error') {
          expect(String(await whole.catch((error: unknown) => error))).toContain(last.error.message)
          return
        }
        const sum = new Fold()
        for (const event of sentence) sum.add(event)
        // The helper throws for these two finish reasons by design.
        const said = await whole.catch((error: Error) => error)
        if (said instanceof Error) {
          expect(['LengthFinishReasonError', 'ContentFilterFinishReasonError']).toContain(said.constructor.name)
          return
        }
        const { message } = said.choices[0]!
        expect(message.content ?? '').toBe(
          sum.answer.parts.map((part) => (part.type === 'text' ? part.text : '')).join(''),
        )
        expect(
          (message.tool_calls ?? []).map((call) => [call.id, call.type === 'function' ? call.function.arguments : '']),
        ).toEqual(sum.answer.parts.flatMap((part) => (part.type === 'tool-call' ? [[part.id, part.arguments]] : [])))
        expect(said.usage !== undefined && said.usage !== null).toBe(sum.answer.metered)
      }),
      { numRuns: 120 },
    )
  })

  test('it reads a whole response', async () => {
    const answer = fold([
      START,
      { type: 'part-start', part: 0, head: { type: 'text' } },
      { type: 'part-delta', part: 0, text: 'Hi' },
      { type: 'part-end', part: 0 },
      { type: 'finish', reason: 'stop', raw: 'stop' },
    ])
    serve = () => Response.json(writeResponse(answer, contextWith()))
    expect((await client.chat.completions.create(ask)).choices[0]!.message.content).toBe('Hi')
  })

  test('it reads an error body', async () => {
    serve = () =>
      Response.json(
        chat.serve.writeError(new GatewayError('model_not_found', 'No such model.', { param: 'model' }), 'req'),
        { status: 404 },
      )
    expect(await client.chat.completions.create(ask).catch((error: unknown) => error)).toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
      type: 'invalid_request_error',
    })
  })
})

const SCHEMA = new URL('../../../../shared/specs/schemas/openai-chat.schema.json', import.meta.url).pathname
describe.skipIf(!existsSync(SCHEMA))("OpenAI's schema", () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  if (existsSync(SCHEMA)) ajv.addSchema(JSON.parse(readFileSync(SCHEMA, 'utf8')) as object, 'chat')
  const validator = (name: string) => ajv.getSchema(`chat#/$defs/${name}`) ?? ajv.getSchema(`chat#/definitions/${name}`)

  test('it accepts whole responses and chunks', () => {
    const whole = validator('CreateChatCompletionResponse')!
    const chunk = validator('CreateChatCompletionStreamResponse')!
    fc.assert(
      fc.property(sentences({ errors: false }), (sentence) => {
        const answer = writeResponse(fold(sentence), contextWith())
        if (!whole(JSON.parse(JSON.stringify(answer)))) throw new Error(JSON.stringify(whole.errors))
        for (const one of chunksIn(framesOf(sentence)))
          if (!chunk(one)) throw new Error(JSON.stringify(chunk.errors) + JSON.stringify(one))
      }),
      { numRuns: 150 },
    )
  })
})

test('entries of a piece of reasoning share an index, and the first has its id', () => {
  const events: GenerationEvent[] = [
    { type: 'start', id: 'x', model: 'm' },
    ...['a', 'b'].flatMap((id, part): GenerationEvent[] => [
      { type: 'part-start', part, head: { type: 'reasoning', form: 'summary', id } },
      { type: 'part-delta', part, text: 'H' },
      { type: 'part-delta', part, text: 'm' },
      { type: 'part-end', part },
    ]),
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ]
  const marksOf = (details: Json[]): unknown[] => details.map(({ id, index }) => [id, index])
  const writer = chat.serve.writer(contextWith({}))
  const deltas = chunksIn(events.flatMap((event) => writer.write(event))).map((chunk) => chunk.choices[0]?.delta)
  expect(marksOf(deltas.flatMap((delta) => delta?.reasoning_details ?? []))).toEqual([
    ['a', 0],
    [undefined, 0],
    ['b', 1],
    [undefined, 1],
  ])
  const whole = chat.serve.writeResponse(fold(events), contextWith({})) as Json
  expect(marksOf(whole.choices[0].message.reasoning_details)).toEqual([
    ['a', 0],
    ['b', 1],
  ])
})

test('nothing follows the end of a stream, and caches of all lifetimes are one number', () => {
  const finish: GenerationEvent = { type: 'finish', reason: 'stop', raw: 'stop', stopSequence: 'END' }
  const usage: GenerationEvent = { type: 'usage', usage: { cacheWrite1hTokens: 1 } }
  const losses = new LossReport()
  const context = { ...contextWith(WITH_USAGE), losses }
  const frames = framesOf([START, usage, finish, finish, usage, START], context)
  expect(frames.filter(({ data }) => data === '[DONE]')).toHaveLength(1)
  expect(frames.at(-1)).toEqual({ data: '[DONE]' })
  expect(losses.losses.map(({ path }) => path)).toEqual(['response.stop_sequence', 'response.usage'])
})

test('parts in another order than the fields of a message are reported once each, hidden reasoning is not', () => {
  const whole = (head: PartHead, text: string, part: number): GenerationEvent[] => [
    { type: 'part-start', part, head },
    { type: 'part-delta', part, text },
    { type: 'part-delta', part, text },
    { type: 'part-end', part },
  ]
  const lostOf = (fields: Json): string[] => {
    const losses = new LossReport()
    const events = [
      ...whole({ type: 'text' }, 'x', 0),
      ...whole({ type: 'reasoning' }, '', 1),
      ...whole({ type: 'reasoning' }, 'A', 2),
      ...whole({ type: 'tool-call', id: 'c', name: 'f', form: 'function' }, '1', 3),
      ...whole({ type: 'text' }, 'y', 4),
    ]
    framesOf([START, ...events], { ...contextWith(fields), losses })
    return losses.losses.map(({ path, reason }) => `${path}: ${reason}`)
  }
  const text = 'response.text: a message has one field for text: the place after a tool call is lost'
  expect(lostOf({})).toEqual([
    'response.reasoning: a message has one field for reasoning: the place after text is lost',
    text,
  ])
  expect(lostOf({ reasoning: { exclude: true } })).toEqual([text])
})
