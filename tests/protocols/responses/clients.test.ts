import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { streamText } from 'ai'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import OpenAI from 'openai'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { sentences } from '../../grammar.ts'
import { contextOf, framesOf, parsed, sentence, stop, text, type Any } from './fixtures.ts'

/** Responses as OpenAI's SDK, the AI SDK and the published schemas read them. */

let frames: Frame[] = []
let server: ReturnType<typeof Bun.serve>
beforeAll(() => {
  server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () =>
      new Response(
        responses.serve.keepAlive + frames.map(({ event, data }) => `event: ${event}\ndata: ${data}\n\n`).join(''),
        { headers: { 'content-type': 'text/event-stream' } },
      ),
  })
})
afterAll(() => server.stop(true))

const client = () => new OpenAI({ apiKey: 'x', baseURL: `http://127.0.0.1:${server.port}/v1`, maxRetries: 0 })
const sdk = async () => client().responses.stream({ model: 'a/b', input: 'hi' }).finalResponse()
const textOf = (events: GenerationEvent[]): string =>
  fold(events)
    .parts.map((part) => (part.type === 'text' ? part.text : ''))
    .join('')

describe("OpenAI's SDK", () => {
  test('reads any response completely', async () => {
    await fc.assert(
      fc.asyncProperty(sentences({ errors: false }), async (events) => {
        frames = framesOf(events)
        const response = await sdk()
        expect(response.output_text).toBe(textOf(events))
        const calls = response.output.flatMap((item) =>
          item.type === 'function_call' ? [[item.call_id, item.name, item.arguments]] : [],
        )
        expect(calls).toEqual(
          fold(events).parts.flatMap((part) =>
            part.type === 'tool-call' ? [[part.id, part.name, part.arguments]] : [],
          ),
        )
        expect(response.id).toBe('resp_1')
      }),
      { numRuns: 60 },
    )
  }, 60_000)

  test('throws the message of any failure', async () => {
    await fc.assert(
      fc.asyncProperty(sentences(), async (events) => {
        const end = events.at(-1)!
        fc.pre(end.type === 'error')
        frames = framesOf(events)
        await expect(sdk()).rejects.toThrow(end.type === 'error' ? end.error.message : '')
      }),
      { numRuns: 20 },
    )
  }, 60_000)
})

test('the AI SDK reads text and usage', async () => {
  frames = framesOf([
    ...sentence([{ type: 'reasoning', form: 'summary' }, ['hm'], 'sig'], [text, ['Hel', 'lo']], {
      usage: { inputTokens: 7, outputTokens: 2 },
    }),
    stop,
  ])
  const model = createOpenAI({ apiKey: 'x', baseURL: `http://127.0.0.1:${server.port}/v1` })('a/b')
  const result = streamText({ model, prompt: 'hi' })
  expect(await result.text).toBe('Hello')
  expect(await result.finishReason).toBe('stop')
  expect((await result.usage).inputTokens).toBe(7)
})

test('the AI SDK reads a response without usage', async () => {
  frames = framesOf([...sentence([text, ['x']]), stop])
  const model = createOpenAI({ apiKey: 'x', baseURL: `http://127.0.0.1:${server.port}/v1` })('a/b')
  const result = streamText({
    model,
    prompt: 'hi',
    onError: ({ error }) => {
      throw error
    },
  })
  expect(await result.text).toBe('x')
  expect(await result.finishReason).toBe('stop')
})

const SCHEMAS = join(import.meta.dir, '../../../../shared/specs/schemas')
const here = existsSync(SCHEMAS)
const schemaOf = (name: string, definition: string) => {
  const ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: false })
  ajv.addSchema(JSON.parse(readFileSync(join(SCHEMAS, name), 'utf8')), 'schema')
  const validate = ajv.compile({ $ref: `schema#/$defs/${definition}` })
  return (value: unknown): string => (validate(value) ? '' : ajv.errorsText(validate.errors))
}

describe.skipIf(!here)('the published JSON schemas', () => {
  const body = {
    tools: [{ type: 'function', name: 'f', parameters: {}, strict: false, description: null }],
    instructions: 'be',
    reasoning: { effort: 'low' },
  }

  test('accept every event', () => {
    const check = schemaOf('openai-responses.schema.json', 'ResponseStreamEvent')
    fc.assert(
      fc.property(
        sentences({ kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'], errors: false }),
        (events) => {
          for (const frame of parsed(framesOf(events, contextOf(body))))
            if (!frame.type.startsWith('response.image')) expect(check(frame)).toBe('')
        },
      ),
      { numRuns: 15 },
    )
  }, 60_000)

  test('accept the whole response, that of Open Responses too', () => {
    const openai = schemaOf('openai-responses.schema.json', 'Response'),
      neutral = schemaOf('openresponses.schema.json', 'ResponseResource')
    fc.assert(
      fc.property(sentences({ kinds: ['text', 'reasoning', 'refusal', 'tool-call'], errors: false }), (events) => {
        const response = responses.serve.writeResponse(
          fold([events[0]!, { type: 'usage', usage: { inputTokens: 1 } }, ...events.slice(1)]),
          contextOf(body),
        ) as Any
        expect(openai(response)).toBe('')
        expect(neutral(response)).toBe('')
      }),
      { numRuns: 25 },
    )
  }, 60_000)
})
