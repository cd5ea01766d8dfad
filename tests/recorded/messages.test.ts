import { readToTranslate } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import { promptTokens, completionTokens } from '../../src/generation/usage.ts'
import type { Frame } from '../../src/http/frames.ts'
import { messages } from '../../src/protocols/messages/index.ts'
import type { TranslationContext, RawRequest } from '../../src/protocols/protocol.ts'
import { checkGrammar } from '../grammar.ts'
import { framesOf, haveRecordings, rowsOf, textOf } from './recordings.ts'

/** White space alone is written as the beginning of the text behind it: Anthropic would not take it back. */
function withoutBlank(blocks: Any[]): Any[] {
  const kept: Any[] = []
  let blank = ''
  for (const block of blocks) {
    if (block.type !== 'text') kept.push(block)
    else if (block.text.trim() === '') blank += block.text
    else {
      kept.push({ ...block, text: blank + block.text })
      blank = ''
    }
  }
  return kept
}

const describeRecordings = describe.skipIf(!haveRecordings)

const entries = rowsOf('anthropic-messages')

const rawRequestOf = (text: string): RawRequest => ({ text, body: JSON.parse(text), headers: new Headers() })

/** One recording has several responses in a row: each ends with `message_stop`. Broken ones have none. */
const answersIn = (frames: Frame[]): Frame[][] => {
  const ends = frames.flatMap((frame, index) => (/"type": ?"message_stop"/.test(frame.data) ? [index + 1] : []))
  return ends.map((end, index) => frames.slice(ends[index - 1] ?? 0, end))
}

const eventsOf = (frames: Frame[]): GenerationEvent[] => {
  const reader = messages.call.reader({})
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}

const context = (request: string | undefined): TranslationContext => {
  const rawRequest = rawRequestOf(
    request ?? '{"model":"a/b","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}',
  )
  return {
    rawRequest,
    request: messages.serve.readRequest(rawRequest),
    responseIdentity: { id: 'msg_ours', model: 'provider/model', createdAt: 1 },
  }
}

/**
 * Put together from several responses: it ends with `end_turn` although it has calls. The calls decide, so Sluice
 * writes `tool_use`.
 */
const JOINED = new Set(['vercel-ai__anthropic-anthropic-programmatic-tool-calling.1~2'])

const CUT = 'composite__connection-cut-test-prompt-with-prefill-and-s'

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

type Any = Record<string, any>

/** The recorded usage: the last value of each count, plus that of compactions. */
const recordedUsage = (usages: Any[]): { prompt: number; completion: number; thinking: number; searches: number } => {
  const last = (read: (usage: Any) => unknown): number =>
    usages
      .map(read)
      .filter((value): value is number => typeof value === 'number')
      .at(-1) ?? 0
  const compactions = (usages.findLast((usage) => Array.isArray(usage.iterations))?.iterations ?? []).filter(
    (iteration: Any) => iteration.type === 'compaction',
  )
  const sum = (name: string): number =>
    compactions.reduce((total: number, iteration: Any) => total + (iteration[name] ?? 0), 0)
  return {
    prompt:
      last((u) => u.input_tokens) +
      last((u) => u.cache_read_input_tokens) +
      last((u) => u.cache_creation_input_tokens) +
      sum('input_tokens'),
    completion: last((u) => u.output_tokens) + sum('output_tokens'),
    thinking: last((u) => u.output_tokens_details?.thinking_tokens),
    searches: last((u) => u.server_tool_use?.web_search_requests),
  }
}

describeRecordings('recorded messages', () => {
  const good = entries.filter(({ status }) => status < 300)
  const streams = good.filter(({ files }) => files.response.endsWith('.sse'))
  const wholes = good.filter(({ files }) => files.response.endsWith('.json'))

  test('there are recordings of each kind', () => {
    expect(streams.length).toBeGreaterThan(50)
    expect(wholes.length).toBeGreaterThan(30)
  })

  test.each(good.filter(({ files }) => files.request !== undefined).map((entry) => [entry.id, entry] as const))(
    'reads the request of %s',
    (_id, { files }) => {
      const text = textOf(files.request!)
      const rawRequest = rawRequestOf(text)
      const request = messages.serve.readRequest(rawRequest)
      expect(request.model).toBe(rawRequest.body.model as string)
      expect(request.maxOutputTokens).toBe(rawRequest.body.max_tokens as number)
      const target = { provider: 'p', model: 'upstream', quirks: {}, capabilities: {} }
      const forwarded = messages.call.forward(
        { rawRequest, request, responseIdentity: { id: '', model: '', createdAt: 0 } },
        target,
        new LossReport(),
      )
      expect(JSON.parse(forwarded)).toEqual({ ...rawRequest.body, model: 'upstream' })
    },
  )

  test('a damaged recorded request is read or refused with a GatewayError', () => {
    const texts = good
      .filter(({ files }) => files.request !== undefined)
      .map(({ files }) => textOf(files.request!))
      .filter((text) => text.length < 20_000)
    let refused = 0
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.nat(), fc.jsonValue({ maxDepth: 3 }), (text, salt, value) => {
        const body = JSON.parse(text) as Any
        damage(body, salt, value)
        try {
          readToTranslate('messages', rawRequestOf(JSON.stringify(body)))
        } catch (error) {
          refused++
          expect(error).toBeInstanceOf(GatewayError)
        }
      }),
      { numRuns: 500 },
    )
    expect(refused).toBeGreaterThan(50)
  })

  test.each(
    streams.flatMap((entry) =>
      answersIn(framesOf(textOf(entry.files.response))).map((frames, n) => [`${entry.id} ${n}`, frames] as const),
    ),
  )('reads the stream of %s', (_id, frames) => {
    const events = eventsOf(frames)
    checkGrammar(events)
    expect(events.at(-1)!.type).toBe('finish')
    const datas = frames.map(({ data }) => JSON.parse(data) as Any)
    const blocks = datas.flatMap((data) =>
      data.type === 'message_start'
        ? data.message.content
        : data.type === 'content_block_start'
          ? [data.content_block]
          : [],
    ) as Any[]
    const answer = fold(events)
    const deltas = (kind: string, member: string): string =>
      datas
        .filter((data) => data.delta?.type === kind)
        .map((data) => data.delta[member])
        .join('')
    const initial = (kind: string, member: string): string =>
      blocks
        .filter(({ type }) => type === kind)
        .map((block) => block[member] ?? '')
        .join('')
    expect(answer.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')).toBe(
      initial('text', 'text') + deltas('text_delta', 'text'),
    )
    expect(answer.parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('')).toBe(
      initial('thinking', 'thinking') + deltas('thinking_delta', 'thinking'),
    )
    expect(answer.parts.filter(({ type }) => type === 'tool-call')).toHaveLength(
      blocks.filter(({ type }) => type === 'tool_use').length,
    )
    // Without a value they are members that are lost.
    expect(answer.parts.filter((part) => part.type === 'native' && part.value !== undefined)).toHaveLength(
      blocks.filter(({ type }) => !['text', 'thinking', 'redacted_thinking', 'tool_use'].includes(type)).length,
    )
    expectUsage(
      answer.usage,
      datas.map((data) => data.message?.usage ?? data.usage).filter((usage) => usage !== undefined),
    )
    expect(answer.finish.raw).toBe(
      datas.findLast((data) => data.delta?.stop_reason !== undefined)?.delta.stop_reason ??
        datas[0]!.message.stop_reason ??
        '',
    )
    // A stream that is cut after any frame gives the same events up to there, and then an error.
    for (let cut = 0; cut < frames.length - 1; cut++) {
      const partial = eventsOf(frames.slice(0, cut))
      checkGrammar(partial)
      expect(partial.at(-1)!.type).toBe('error')
      expect(partial.slice(0, -1)).toEqual(events.slice(0, partial.length - 1))
    }
  })

  test.each(wholes.map((entry) => [entry.id, entry] as const))(
    'reads and writes the response of %s',
    (id, { files }) => {
      const body = JSON.parse(textOf(files.response)) as Any
      const events = messages.call.readResponse(body, {})
      checkGrammar(events)
      const answer = fold(events)
      expectUsage(answer.usage, [body.usage])
      const written = messages.serve.writeResponse(answer, context(undefined)) as Any
      expect(written.stop_reason).toBe(JOINED.has(id) ? 'tool_use' : body.stop_reason)
      expect(written.stop_sequence).toBe(body.stop_sequence)
      const essential = (block: Any): Any => {
        const { caller: _caller, citations, ...rest } = block
        return { ...rest, ...(citations == null || citations.length === 0 ? {} : { citations }) }
      }
      const own = (block: Any): Any => (block.type === 'tool_use' || block.type === 'text' ? essential(block) : block)
      expect(written.content).toEqual(withoutBlank(body.content).map(own))
    },
  )

  test.each(streams.map((entry) => [entry.id, entry] as const))(
    'replaces only id and model in the stream of %s',
    (id, { files }) => {
      const passthrough = messages.passthrough(context(undefined))
      for (const frame of framesOf(textOf(files.response))) {
        const out = passthrough.frame(frame)!
        // Another server ends with `[DONE]`, and one recording is cut within its last frame.
        if (frame.data === '[DONE]' || (id === CUT && out.data === frame.data && !isJson(frame.data))) continue
        const data = JSON.parse(frame.data) as Any
        if (data.type === 'error') expect(out).toEqual(frame)
        else if (data.type !== 'message_start')
          expect(frame.event === undefined ? out.data : out).toBe(frame.event === undefined ? frame.data : frame)
        else
          expect(JSON.parse(out.data)).toEqual({
            ...data,
            message: { ...data.message, id: 'msg_ours', model: 'provider/model' },
          })
      }
    },
  )

  test.each(wholes.map((entry) => [entry.id, entry] as const))(
    'replaces only id and model in the response of %s',
    (_id, { files }) => {
      const text = textOf(files.response)
      expect(JSON.parse(messages.passthrough(context(undefined)).answer(text))).toEqual({
        ...JSON.parse(text),
        id: 'msg_ours',
        model: 'provider/model',
      })
    },
  )

  test.each(entries.filter(({ status }) => status >= 400).map((entry) => [entry.id, entry] as const))(
    'reads the error of %s',
    (_id, { status, files }) => {
      const error = messages.call.readError(status, textOf(files.response))
      expect(error).toBeInstanceOf(GatewayError)
      const expected = status === 401 || status === 500 ? 502 : status === 529 ? 503 : status
      expect(error.status).toBe(expected)
      expect(error.metadata?.status).toBe(status)
    },
  )
})

/** Replaces a value somewhere in the body. */
function damage(body: Any, salt: number, value: unknown): void {
  const positions: [Any, string][] = []
  const walk = (inner: Any): void => {
    for (const key of Object.keys(inner)) {
      positions.push([inner, key])
      if (typeof inner[key] === 'object' && inner[key] !== null) walk(inner[key] as Any)
    }
  }
  walk(body)
  const [holder, key] = positions[salt % positions.length]!
  holder[key] = value
}

function expectUsage(usage: Parameters<typeof promptTokens>[0], usages: Any[]): void {
  const expected = recordedUsage(usages)
  expect({
    prompt: promptTokens(usage),
    completion: completionTokens(usage),
    thinking: usage.reasoningTokens,
    searches: usage.webSearches,
  }).toEqual(expected)
}
