import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import Ajv2020 from 'ajv/dist/2020.js'
import fc from 'fast-check'
import OpenAI from 'openai'
import { GatewayError } from '../../../src/error.ts'
import { Fold, fold, type Answer, type GenerationEvent } from '../../../src/generation/event.ts'
import { unwrapSignature } from '../../../src/generation/signature.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import type { TranslationContext } from '../../../src/protocols/protocol.ts'
import { checkGrammar, sentences } from '../../grammar.ts'

/** Streams of chat completions to clients, and what is read of them again. */

const exchangeOf = (
  fields: Record<string, unknown> = {},
  issuer?: { provider: string; model: string },
): TranslationContext => {
  const body = { model: 'maker/model', messages: [{ role: 'user', content: 'hi' }], stream: true, ...fields }
  const rawRequest = { body, text: JSON.stringify(body), headers: new Headers() }
  return {
    rawRequest,
    request: chat.serve.readRequest(rawRequest),
    responseIdentity: {
      id: 'chatcmpl-ours',
      model: 'maker/model',
      createdAt: 1_700_000_000,
      ...(issuer === undefined ? {} : { issuer }),
    },
  }
}
const asking = { stream_options: { include_usage: true } }
const write = (events: GenerationEvent[], context = exchangeOf(asking)): Frame[] => {
  const writer = chat.serve.writer(context)
  return events.flatMap((event) => writer.write(event))
}
const read = (frames: Frame[]): GenerationEvent[] => {
  const reader = chat.call.reader({})
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}
type Json = Record<string, any>
const parsed = (frames: Frame[]): Json[] =>
  frames.filter((frame) => frame.data !== '[DONE]').map((frame) => JSON.parse(frame.data) as Json)
const start: GenerationEvent = { type: 'start', id: 'up', model: 'm' }

test('sound in several pieces is one recording', () => {
  const parts = ['AA==', 'AQI='].map((data): Answer['parts'][number] => ({
    type: 'audio',
    source: { type: 'data', mediaType: 'audio/L16', data },
  }))
  const { choices } = chat.serve.writeAnswer(
    { id: 'u', model: 'm', parts, usage: noUsage(), metered: false, finish: { reason: 'stop', raw: 'STOP' } },
    exchangeOf(),
  ) as Json
  expect(choices[0].message.audio.data).toBe('AAEC')
})

test('a stream, frame by frame', () => {
  const frames = write(
    [
      start,
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
    exchangeOf(asking, { provider: 'p', model: 'm' }),
  )
  const chunks = parsed(frames)
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
  const sealed = chunks[2]!.choices[0].delta.reasoning_details[0].signature
  expect(unwrapSignature(sealed)).toEqual({ data: 'sig', issuer: { provider: 'p', model: 'm' } })
  expect(chunks.map((chunk) => chunk.choices[0]?.delta)).toEqual([
    { role: 'assistant', content: '' },
    { reasoning: 'Hm', reasoning_details: [{ type: 'reasoning.text', text: 'Hm', format: 'unknown', index: 0 }] },
    { reasoning_details: [{ type: 'reasoning.text', text: '', signature: sealed, format: 'unknown', index: 0 }] },
    { content: 'Hi' },
    {
      annotations: [
        { type: 'url_citation', url_citation: { url: 'https://a.b', title: 'A', start_index: 0, end_index: 2 } },
      ],
    },
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

test('usage is for those who ask', () => {
  const events: GenerationEvent[] = [
    start,
    { type: 'usage', usage: { inputTokens: 1 } },
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ]
  expect(parsed(write(events, exchangeOf())).some((chunk) => 'usage' in chunk)).toBe(false)
  expect(parsed(write(events)).map((chunk) => chunk.usage === null)).toEqual([true, true, false])
})

test('a failure is a chunk with an error, then the error alone, and nothing after it, even as the first word', () => {
  const error: GenerationEvent = { type: 'error', error: new GatewayError('overloaded', 'Too much.') }
  for (const events of [[error], [start, error, { type: 'finish', reason: 'stop', raw: '' } as GenerationEvent]]) {
    const frames = write(events)
    const error = { message: 'Too much.', type: 'server_error', param: null, code: 'overloaded' }
    expect(JSON.parse(frames.at(-2)!.data)).toMatchObject({ choices: [{ index: 0, finish_reason: 'error' }], error })
    expect(JSON.parse(frames.at(-1)!.data)).toEqual({ error })
    expect(frames.some((frame) => frame.data === '[DONE]')).toBe(false)
  }
})

test('reasoning that the client does not want to see is not shown', () => {
  const events: GenerationEvent[] = [
    start,
    { type: 'part-start', part: 0, head: { type: 'reasoning' } },
    { type: 'part-delta', part: 0, text: 'secret' },
    { type: 'part-end', part: 0, signature: 's' },
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ]
  const context = exchangeOf({ reasoning: { exclude: true } })
  expect(JSON.stringify(write(events, context))).not.toContain('secret')
  expect(JSON.stringify(chat.serve.writeAnswer(fold(events), context))).not.toContain('secret')
})

/**
 * What survives a trip over this wire: neighbours of one kind are one part, unsigned empty parts vanish, media come
 * where they come.
 */
const essence = (answer: Answer): Json => {
  const text = (type: string): string =>
    answer.parts.map((part) => (part.type === type && 'text' in part ? (part.text as string) : '')).join('')
  return {
    text: text('text'),
    refusal: text('refusal'),
    reasoning: text('reasoning'),
    signatures: answer.parts.flatMap((part) =>
      part.type === 'reasoning' && part.signature !== undefined ? [part.signature.data] : [],
    ),
    calls: answer.parts.flatMap((part) =>
      part.type === 'tool-call' ? [[part.id, part.name, part.arguments === '' ? '{}' : part.arguments]] : [],
    ),
    images: answer.parts.flatMap((part) =>
      part.type === 'image' && part.source.type === 'data' ? [part.source.data] : [],
    ),
    usage: answer.metered ? answer.usage : undefined,
  }
}
const plainly = (events: GenerationEvent[]): GenerationEvent[] =>
  events.map((event) =>
    event.type === 'part-end' && heads(events)[event.part] !== 'reasoning'
      ? { type: 'part-end', part: event.part }
      : event,
  )
const heads = (events: GenerationEvent[]): string[] =>
  events.flatMap((event) => (event.type === 'part-start' ? [event.head.type] : []))
/** Two calls of one id cannot be told apart on any wire, so ids are made unique. */
const distinct = (events: GenerationEvent[]): GenerationEvent[] =>
  events.map((event) =>
    event.type === 'part-start' && event.head.type === 'tool-call'
      ? { ...event, head: { ...event.head, id: `${event.head.id}_${event.part}` } }
      : event,
  )

describe('round trips', () => {
  test('any sentence over the stream', () => {
    fc.assert(
      fc.property(
        sentences({ errors: false, kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'] }),
        (made) => {
          const sentence = plainly(distinct(made))
          const events = read(write(sentence))
          checkGrammar(events)
          expect(essence(fold(events))).toEqual(essence(fold(sentence)))
          expect(events.at(-1)!.type).toBe('finish')
        },
      ),
      { numRuns: 300 },
    )
  })

  test('any answer in one piece', () => {
    fc.assert(
      fc.property(
        sentences({ errors: false, kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'] }),
        (made) => {
          const answer = fold(plainly(distinct(made)))
          const events = chat.call.readAnswer(
            JSON.parse(JSON.stringify(chat.serve.writeAnswer(answer, exchangeOf()))),
            {},
          )
          checkGrammar(events)
          expect(essence(fold(events))).toEqual(essence(answer))
        },
      ),
      { numRuns: 300 },
    )
  })

  test('a sentence that ends in an error ends in an error of the same kind', () => {
    fc.assert(
      fc.property(sentences(), (sentence) => {
        const events = read(write(sentence))
        checkGrammar(events)
        const [said, heard] = [sentence.at(-1)!, events.at(-1)!]
        expect(heard.type).toBe(said.type)
        if (said.type === 'error' && heard.type === 'error') expect(heard.error.message).toContain(said.error.message)
      }),
      { numRuns: 200 },
    )
  })
})

const issuer = { provider: 'p', model: 'm' }
/** The answer's message as a client sends it back. */
const replayed = (answer: Answer) => {
  const { choices } = JSON.parse(JSON.stringify(chat.serve.writeAnswer(answer, exchangeOf({}, issuer)))) as Json
  const message = choices[0].message as Json
  if (message.content === null && message.tool_calls === undefined) message.content = ''
  return exchangeOf({ messages: [{ role: 'user', content: 'hi' }, message] }).request.turns[1]!.parts
}

describe('an answer that the client sends back', () => {
  test('keeps its reasoning, its signatures with their maker, and its calls', () => {
    fc.assert(
      fc.property(
        sentences({ errors: false, kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image'] }),
        (made) => {
          const answer = fold(distinct(made))
          const parts = replayed(answer)
          expect(essence({ ...answer, parts, metered: false })).toEqual(essence({ ...answer, metered: false }))
          const signed = (all: Answer['parts']): unknown[] =>
            all.flatMap((part) =>
              part.type !== 'image' && 'signature' in part && part.signature !== undefined
                ? [[part.type, 'text' in part ? part.text : undefined, part.signature.data]]
                : [],
            )
          expect(signed(parts)).toEqual(signed(answer.parts))
          for (const part of parts)
            if ('signature' in part && part.signature !== undefined) expect(part.signature.issuer).toEqual(issuer)
        },
      ),
      { numRuns: 200 },
    )
  })

  test('a signature of a call, a text or an image does not stick to the thoughts before it', () => {
    const image = {
      type: 'image',
      source: { type: 'data', mediaType: 'image/png', data: 'AAAA' },
      signature: { data: 'I', issuer },
    } as const
    const parts: Answer['parts'] = [
      { type: 'reasoning', form: 'summary', text: 'S' },
      { type: 'text', text: 'x', signature: { data: 'T', issuer } },
      image,
      { type: 'tool-call', id: 'c', name: 'f', form: 'function', arguments: '{}', signature: { data: 'C', issuer } },
    ]
    const answer: Answer = { ...fold([start, { type: 'finish', reason: 'stop', raw: 'stop' }]), parts }
    expect(replayed(answer)).toEqual(parts)
  })

  test('a summary stays one part with its encrypted item', () => {
    const parts: Answer['parts'] = [
      { type: 'reasoning', form: 'summary', id: 'rs_1', text: 'S', signature: { data: 'D' } },
      { type: 'reasoning', redacted: true, text: '', signature: { data: 'R' } },
      { type: 'text', text: 'x' },
    ]
    const answer: Answer = {
      ...fold([
        { type: 'start', id: 'up', model: 'm' },
        { type: 'finish', reason: 'stop', raw: 'stop' },
      ]),
      parts,
    }
    expect(replayed(answer)).toEqual([
      { type: 'reasoning', form: 'summary', id: 'rs_1', text: 'S', signature: { data: 'D', issuer } },
      { type: 'reasoning', redacted: true, text: '', signature: { data: 'R', issuer } },
      { type: 'text', text: 'x' },
    ])
  })
})

test('an answer in one piece, member by member', () => {
  const answer: Answer = {
    ...fold([
      start,
      { type: 'usage', usage: { inputTokens: 2, outputTokens: 1 } },
      { type: 'finish', reason: 'tool-calls', raw: 'tool_use' },
    ]),
    parts: [
      { type: 'reasoning', text: 'Hm' },
      { type: 'tool-call', id: 'c', name: 'f', form: 'function', arguments: '' },
      { type: 'tool-call', id: 'd', name: 'g', form: 'custom', arguments: '' },
    ],
  }
  expect(chat.serve.writeAnswer(answer, exchangeOf())).toEqual({
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
  expect('usage' in chat.serve.writeAnswer({ ...answer, metered: false }, exchangeOf())).toBe(false)
})

describe('the official SDK takes it', () => {
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

  test('any sentence, through the stream helper', async () => {
    await fc.assert(
      fc.asyncProperty(sentences(), async (made) => {
        const sentence = distinct(made)
        serve = () => sse(write(sentence))
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
        // The helper throws on these two by design; the raw stream below has them.
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

  test('an answer in one piece', async () => {
    const answer = fold([
      start,
      { type: 'part-start', part: 0, head: { type: 'text' } },
      { type: 'part-delta', part: 0, text: 'Hi' },
      { type: 'part-end', part: 0 },
      { type: 'finish', reason: 'stop', raw: 'stop' },
    ])
    serve = () => Response.json(chat.serve.writeAnswer(answer, exchangeOf()))
    expect((await client.chat.completions.create(ask)).choices[0]!.message.content).toBe('Hi')
  })

  test('an error body', async () => {
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
describe.skipIf(!existsSync(SCHEMA))("OpenAI's schema takes it", () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  if (existsSync(SCHEMA)) ajv.addSchema(JSON.parse(readFileSync(SCHEMA, 'utf8')) as object, 'chat')
  const validator = (name: string) => ajv.getSchema(`chat#/$defs/${name}`) ?? ajv.getSchema(`chat#/definitions/${name}`)

  test('answers and chunks', () => {
    const whole = validator('CreateChatCompletionResponse')!
    const chunk = validator('CreateChatCompletionStreamResponse')!
    fc.assert(
      fc.property(sentences({ errors: false }), (sentence) => {
        const answer = chat.serve.writeAnswer(fold(sentence), exchangeOf())
        if (!whole(JSON.parse(JSON.stringify(answer)))) throw new Error(JSON.stringify(whole.errors))
        for (const one of parsed(write(sentence)))
          if (!chunk(one)) throw new Error(JSON.stringify(chunk.errors) + JSON.stringify(one))
      }),
      { numRuns: 150 },
    )
  })
})
