import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { Fold, type GenerationEvent } from '../../src/generation/event.ts'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import { FrameSplitter, type Frame } from '../../src/http/frames.ts'
import { readToTranslate } from '../translating.ts'
import { chat } from '../../src/protocols/chat/index.ts'
import type { TranslationContext, RawRequest } from '../../src/protocols/protocol.ts'
import { checkGrammar } from '../grammar.ts'
import { runs } from '../runs.ts'
import { haveRecordings, rowsOf, textOf, type Row } from './recordings.ts'

const rows = rowsOf('openai-chat')
const withFile = (kind: 'request' | 'response', ending: string): Row[] =>
  rows.filter((row) => row.files[kind]?.endsWith(ending))

const rawRequestOf = (source: string): RawRequest => ({
  body: JSON.parse(source) as Record<string, unknown>,
  text: source,
  headers: new Headers(),
})
const contextOf = (body: object = {}): TranslationContext => {
  const rawRequest = rawRequestOf(
    JSON.stringify({ model: 'provider/model', messages: [{ role: 'user', content: 'hi' }], stream: true, ...body }),
  )
  return {
    rawRequest,
    request: chat.serve.readRequest(rawRequest),
    responseIdentity: { id: 'chatcmpl-ours', model: 'provider/model', createdAt: 1 },
  }
}

/** Frames of a stream, split without the gateway's FrameSplitter. */
const framesOf = (sse: string): Frame[] =>
  sse
    .replaceAll('\r\n', '\n')
    .split('\n\n')
    .flatMap((block) => {
      const data = block
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).replace(/^ /, ''))
      return data.length === 0 ? [] : [{ data: data.join('\n') }]
    })

const read = (frames: Frame[]): GenerationEvent[] => {
  const reader = chat.call.reader({})
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}

/** Several choices are refused; every other recorded request with a 2xx is accepted. */
const isRefused = (body: Record<string, unknown>): boolean => typeof body.n === 'number' && body.n > 1

describe.skipIf(!haveRecordings)('recorded chat completions', () => {
  test('there are recorded streams and requests', () => {
    expect(withFile('response', '.sse').length).toBeGreaterThan(40)
    expect(withFile('request', '.json').length).toBeGreaterThan(100)
  })

  for (const row of withFile('request', '.json').filter((one) => one.status < 300)) {
    test(`reads the request of ${row.id}`, () => {
      const rawRequest = rawRequestOf(textOf(row.files.request!))
      // One recorder left the model out of the body: its server took it from the path.
      if (rawRequest.body.model === undefined) rawRequest.body.model = 'from/path'
      if (isRefused(rawRequest.body))
        expect(() => readToTranslate('chat.completions', rawRequest)).toThrow('n: must be')
      else {
        const { system, turns } = chat.serve.readRequest(rawRequest)
        expect(system.length + turns.length).toBeGreaterThan(0)
      }
    })
  }

  for (const row of withFile('response', '.sse')) {
    const whole = textOf(row.files.response!)
    test(`reads the stream of ${row.id}`, () => {
      const events = read(framesOf(whole))
      checkGrammar(events)
      expect(summary(events)).toEqual(expected(framesOf(whole)))
    })

    test(`reads ${row.id} alike in pieces of any size`, () => {
      const reference = read(framesOf(whole))
      for (const size of [1, 7, 1000]) {
        const splitter = new FrameSplitter()
        const bytes = new TextEncoder().encode(whole)
        const frames: Frame[] = []
        for (let at = 0; at < bytes.length; at += size) frames.push(...splitter.push(bytes.subarray(at, at + size)))
        frames.push(...splitter.end())
        expect(shape(read(frames))).toEqual(shape(reference))
      }
    })

    test(`replaces only id and model in the stream of ${row.id}`, () => {
      const passthrough = chat.passthrough(contextOf({ stream_options: { include_usage: true } }))
      for (const frame of framesOf(whole)) {
        const out = passthrough.frame(frame)
        if (frame.data === '[DONE]') {
          expect(out).toBeUndefined()
          continue
        }
        const before = tolerant(frame.data)
        if (before === undefined) continue
        expect(JSON.parse(out!.data)).toEqual(
          'choices' in before ? { ...before, id: 'chatcmpl-ours', model: 'provider/model' } : before,
        )
      }
    })

    test(`removes only the usage chunk of ${row.id} for a client that did not request it`, () => {
      const passthrough = chat.passthrough(contextOf())
      for (const frame of framesOf(whole).filter((one) => tolerant(one.data) !== undefined)) {
        const { choices, usage } = tolerant(frame.data)!
        expect(passthrough.frame(frame) === undefined).toBe(
          Array.isArray(choices) && choices.length === 0 && usage !== undefined && usage !== null,
        )
      }
    })
  }

  for (const row of withFile('response', '.json')) {
    test(`reads the response of ${row.id}`, () => {
      const source = textOf(row.files.response!)
      const body = JSON.parse(source) as Json
      if (body.error !== undefined || row.status >= 400) {
        expect(() => chat.call.readResponse(body, {})).toThrow(GatewayError)
        const error = chat.call.readError(row.status, source)
        expect(error.message.length).toBeGreaterThan(10)
        expect(error.status).toBe([401, 403, 500].includes(row.status) ? 502 : row.status)
        return
      }
      const events = chat.call.readResponse(body, {})
      checkGrammar(events)
      expect(summary(events)).toEqual(
        expected([
          {
            data: JSON.stringify({
              ...body,
              choices: body.choices.map((choice: Json) => ({ ...choice, delta: choice.message })),
            }),
          },
          { data: 'whole' },
        ]),
      )
      expect(JSON.parse(chat.passthrough(contextOf()).answer(source))).toEqual({
        ...body,
        id: 'chatcmpl-ours',
        model: 'provider/model',
      })
    })
  }

  test('a damaged recorded request is read or refused with a GatewayError', () => {
    const sources = withFile('request', '.json')
      .map((row) => textOf(row.files.request!))
      .filter((source) => source.length < 20_000)
    const odd = fc.constantFrom<unknown>(
      null,
      true,
      -1,
      1.5,
      '',
      'x',
      [],
      {},
      [null],
      [[]],
      { type: null },
      { type: 'text' },
      { __proto__: null, a: 1 },
      'data:;base64,!',
      Number.MAX_VALUE,
    )
    fc.assert(
      fc.property(fc.constantFrom(...sources), fc.infiniteStream(fc.nat(1e6)), odd, (source, path, value) => {
        const body = JSON.parse(source) as Record<string, unknown>
        mutate(body, path, value)
        try {
          chat.serve.readRequest(rawRequestOf(JSON.stringify(body)))
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError)
          expect((error as GatewayError).status).toBe(400)
        }
      }),
      { numRuns: runs(1500, 45_000) },
    )
  })
})

type Json = Record<string, any>

const tolerant = (data: string): Json | undefined => {
  try {
    return JSON.parse(data) as Json
  } catch {
    return undefined
  }
}

function mutate(node: any, path: Iterable<number>, value: unknown): void {
  let here = node
  for (const step of path) {
    const keys = Object.keys(here)
    if (keys.length === 0) return
    const key = keys[step % keys.length]!
    if (here[key] === null || typeof here[key] !== 'object' || step % 5 === 0) {
      here[key] = value
      return
    }
    here = here[key]
  }
}

/** Generated ids differ from run to run. */
const shape = (events: GenerationEvent[]): unknown =>
  JSON.parse(
    JSON.stringify(
      events.map((event) => (event.type === 'error' ? { type: 'error', message: event.error.message } : event)),
    ).replace(/call_[0-9a-f]{20}\d+/g, 'call_generated'),
  )

/** The content and usage of all events. */
function summary(events: GenerationEvent[]): Json {
  const last = events.at(-1)!
  const sum = new Fold()
  for (const event of events) if (event.type !== 'error') sum.add(event)
  const { parts, usage, metered, id } = sum.answer
  const heads = events.flatMap((event) => (event.type === 'part-start' ? [event.head.type] : []))
  const of = (type: string): string =>
    events.map((event) => (event.type === 'part-delta' && heads[event.part] === type ? event.text : '')).join('')
  return {
    id,
    text: of('text'),
    reasoning: of('reasoning'),
    refusal: of('refusal'),
    calls: parts.flatMap((part) => (part.type === 'tool-call' ? [[part.id, part.name, part.arguments]] : [])),
    // The signature follows the format and the id of its entry, which the issuer requires as well.
    signatures: parts.flatMap((part) =>
      part.type === 'reasoning' && part.signature !== undefined ? [part.signature.data.split('\0').at(-1)] : [],
    ),
    usage: metered
      ? [promptTokens(usage), completionTokens(usage), usage.cacheReadTokens, usage.reasoningTokens]
      : undefined,
    end: last.type === 'finish' ? last.raw : 'error',
  }
}

/** The same summary, computed from the recording without the gateway's code. */
function expected(frames: Frame[]): Json {
  const out: Json = {
    id: '',
    text: '',
    reasoning: '',
    refusal: '',
    calls: [],
    signatures: [],
    usage: undefined,
    end: 'error',
  }
  const calls = new Map<number, string[]>()
  let failed = false
  for (const { data } of frames) {
    if (data === 'whole' && out.end === 'error') out.end = ''
    // Snowflake's responses have no finish reason, but usage and [DONE].
    if (data === '[DONE]' && out.end === 'error' && out.usage !== undefined) out.end = ''
    const chunk = tolerant(data)
    if (chunk === undefined) continue
    if (chunk.error !== undefined) {
      failed = true
      continue
    }
    out.id ||= chunk.id
    count(out, chunk.usage ?? chunk.x_groq?.usage)
    const choice = (chunk.choices ?? []).find((one: Json) => one.index === 0)
    if (choice === undefined) continue
    const delta = choice.delta ?? {}
    // Mistral's models that reason have a list of typed parts instead of a text.
    for (const part of Array.isArray(delta.content) ? delta.content : []) {
      if (part.type === 'thinking') out.reasoning += part.thinking.map(({ text }: Json) => text).join('')
      else out.text += part.text
    }
    out.text += typeof delta.content === 'string' && delta.content ? delta.content : (delta.audio?.transcript ?? '')
    const details = (delta.reasoning_details ?? []) as Json[]
    out.reasoning += details.some((detail) => detail.text || detail.summary)
      ? details.map((detail) => detail.text ?? detail.summary ?? '').join('')
      : (delta.reasoning ?? delta.reasoning_content ?? '')
    out.signatures.push(
      ...details.flatMap((detail) => (detail.signature || detail.data ? [detail.signature ?? detail.data] : [])),
    )
    out.refusal += delta.refusal ?? ''
    for (const [position, call] of (delta.tool_calls ?? []).entries()) {
      const entry = calls.get(call.index ?? position) ?? ['', '', '']
      calls.set(call.index ?? position, [
        entry[0] || call.id,
        entry[1] || call.function.name,
        entry[2] + (call.function.arguments ?? ''),
      ])
    }
    if (choice.finish_reason) out.end = choice.finish_reason
  }
  out.calls = [...calls.values()]
  if (failed) out.end = 'error'
  return out
}

function count(out: Json, usage: Json | undefined): void {
  if (usage === undefined || usage === null) return
  // Mistral's audio is beside the prompt.
  const audio = usage.prompt_tokens_details?.audio_tokens ?? 0
  const isBeside = usage.total_tokens === usage.prompt_tokens + usage.completion_tokens + audio
  out.usage = [
    usage.prompt_tokens + (isBeside ? audio : 0),
    usage.completion_tokens,
    usage.prompt_tokens_details?.cached_tokens ?? usage.prompt_cache_hit_tokens ?? 0,
    usage.completion_tokens_details?.reasoning_tokens ?? usage.reasoning_tokens ?? 0,
  ]
}
