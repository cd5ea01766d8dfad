import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { fold, type GenerationResponse, type GenerationEvent } from '../../src/generation/event.ts'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import type { Frame } from '../../src/http/frames.ts'
import type { TranslationContext, RawRequest } from '../../src/protocols/protocol.ts'
import { responses } from '../../src/protocols/responses/index.ts'
import { checkGrammar } from '../grammar.ts'
import {
  framesOf,
  haveRecordings,
  INCONSISTENT,
  MALFORMED,
  ROTATING,
  rowsOf,
  SEVERAL,
  textOf,
  type Row,
} from './recordings.ts'

const describeRecordings = describe.skipIf(!haveRecordings)

type Any = Record<string, any>
const entries = rowsOf('openai-responses')
const rows = (list: Row[]) => list.map((entry) => [entry.id, entry] as const)

const rawRequestOf = (text: string): RawRequest => ({ text, body: JSON.parse(text), headers: new Headers() })
const responseIdentity = { id: 'resp_ours', model: 'provider/model', createdAt: 1 }
const target = { provider: 'p', model: 'upstream', quirks: {}, capabilities: {} }
const contextOf = (text = '{"model":"provider/model","input":"hi"}'): TranslationContext => {
  const rawRequest = rawRequestOf(text)
  return { rawRequest, request: responses.serve.readRequest(rawRequest), responseIdentity }
}

const eventsOf = (frames: Frame[]): GenerationEvent[] => {
  const reader = responses.call.reader({})
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}

const odd = [...SEVERAL, MALFORMED]
const consistent = (list: Row[]): Row[] => list.filter(({ id }) => !odd.includes(id) && id !== INCONSISTENT)

const good = entries.filter(({ status }) => status < 300)
const streams = good.filter(({ files }) => files.response.endsWith('.sse'))
const wholes = good.filter(({ files }) => files.response.endsWith('.json'))
const parsed = (frames: Frame[]): Any[] =>
  frames.filter(({ data }) => data.startsWith('{')).map(({ data }) => JSON.parse(data))
const terminalOf = (frames: Frame[]): Any | undefined =>
  parsed(frames).find(({ type }) => ['response.completed', 'response.incomplete', 'response.failed'].includes(type))

/** The content of recorded items, read without the gateway's code. */
const recordedContent = (items: Any[]) => {
  const of = (type: string): Any[] => items.filter((item) => item.type === type)
  const content = of('message').flatMap((item) => item.content ?? [])
  return {
    text: content
      .filter((part) => typeof part.text === 'string')
      .map((part) => part.text)
      .join(''),
    citations: content.flatMap((part) => part.annotations ?? []).length,
    calls: items
      .filter((item) => ['function_call', 'custom_tool_call'].includes(item.type))
      .map((item) => [item.call_id, item.name, item.arguments ?? item.input]),
    signatures: of('reasoning')
      .map((item) => item.encrypted_content)
      .filter((content) => typeof content === 'string' && content !== ''),
    reasoning: of('reasoning')
      .flatMap((item) => [...(item.summary ?? []), ...(item.content ?? [])])
      .map((part) => part.text)
      .filter((text) => text !== '')
      .join('\n\n'),
  }
}

const contentOf = ({ parts }: GenerationResponse) => ({
  text: parts
    .filter((part) => part.type === 'text')
    .map((part) => part.text)
    .join(''),
  citations: parts.flatMap((part) => (part.type === 'text' ? (part.citations ?? []) : [])).length,
  calls: parts.filter((part) => part.type === 'tool-call').map((part) => [part.id, part.name, part.arguments]),
  signatures: parts.flatMap((part) =>
    part.type === 'reasoning' && part.signature !== undefined ? [part.signature.data] : [],
  ),
  reasoning: parts
    .filter((part) => part.type === 'reasoning' && part.text !== '')
    .map((part) => (part as { text: string }).text)
    .join('\n\n'),
})

function checkUsage(answer: GenerationResponse, usage: Any | null | undefined): void {
  expect(answer.metered).toBe(usage !== null && usage !== undefined)
  if (!usage) return
  expect(promptTokens(answer.usage)).toBe(usage.input_tokens)
  expect(completionTokens(answer.usage)).toBe(usage.output_tokens)
  expect(answer.usage.cacheReadTokens).toBe(usage.input_tokens_details?.cached_tokens ?? 0)
  expect(answer.usage.reasoningTokens).toBe(usage.output_tokens_details?.reasoning_tokens ?? 0)
}

describeRecordings('recorded responses', () => {
  test('there are recordings of each kind', () => {
    expect(streams.length).toBeGreaterThan(40)
    expect(wholes.length).toBeGreaterThan(50)
  })

  test.each(rows(good.filter(({ files }) => files.request !== undefined)))(
    'reads and forwards the request of %s',
    (_id, { files }) => {
      // A request of a stored prompt has no model.
      const context = contextOf(JSON.stringify({ model: 'a/b', ...JSON.parse(textOf(files.request!)) }))
      const { body } = context.rawRequest
      expect(context.request.model).toBe(body.model as string)
      const { previous_response_id: _gone, ...rest } = body
      const { include, input, ...sent } = JSON.parse(responses.call.forward(context, target, new LossReport()))
      const { include: _include, input: requested, ...others } = rest
      expect(sent).toEqual({ ...others, model: 'upstream', ...(body.background === true ? {} : { store: false }) })
      // Only reasoning without content that the provider could restore is left out.
      const dropped = Array.isArray(requested)
        ? requested.filter(
            (item: Any) =>
              item.type === 'reasoning' && typeof item.encrypted_content !== 'string' && !(item.content?.length > 0),
          )
        : []
      expect(input).toEqual(Array.isArray(requested) ? requested.filter((item) => !dropped.includes(item)) : requested)
      for (const option of (body.include as string[] | undefined) ?? []) expect(include).toContain(option)
    },
  )

  test.each(rows(consistent(streams)))('reads the stream of %s', (_id, { files }) => {
    const frames = framesOf(textOf(files.response))
    const events = eventsOf(frames)
    checkGrammar(events)
    const terminal = terminalOf(frames)
    if (terminal === undefined || terminal.type === 'response.failed') {
      expect(events.at(-1)!.type).toBe('error')
      return
    }
    const answer = fold(events)
    const done = parsed(frames)
      .filter(({ type }) => type === 'response.output_item.done')
      .map(({ item }) => item)
    // Providers encrypt the reasoning of a finished item again for the last frame; the content that came with the item
    // is the one to send back.
    expect(contentOf(answer)).toEqual(recordedContent(done.length > 0 ? done : terminal.response.output))
    checkUsage(answer, terminal.response.usage)
    expect(answer.finish.reason === 'length').toBe(terminal.response.incomplete_details?.reason === 'max_output_tokens')
  })

  test.each(rows(streams))('a cut stream of %s ends with an error', (_id, { files }) => {
    const frames = framesOf(textOf(files.response))
    const last = frames.findIndex(({ data }) => /"type":\s*"response\.(completed|incomplete|failed)"/.test(data))
    for (let cut = 0; cut < last; cut += Math.ceil(last / 7)) {
      const events = eventsOf(frames.slice(0, cut))
      checkGrammar(events)
      expect(events.at(-1)!.type).toBe('error')
    }
  })

  test.each(rows(consistent(streams)))(
    'reads the stream of %s the same without its deltas or without its done frames',
    (_id, { files }) => {
      const frames = framesOf(textOf(files.response))
      if (terminalOf(frames)?.type === 'response.failed' || terminalOf(frames) === undefined) return
      const whole = contentOf(fold(eventsOf(frames)))
      const without = (pattern: RegExp) =>
        frames.filter(
          ({ data }) =>
            !pattern.test(
              /"type":\s*"(response[^"]*|error)"/.exec(data.replace(/"(item|response|part)":\s*\{.*/s, ''))?.[1] ?? '',
            ),
        )
      expect(contentOf(fold(eventsOf(without(/\.delta$/))))).toEqual(whole)
      expect(
        contentOf(
          fold(
            eventsOf(
              frames.filter(
                ({ event, data }) =>
                  data === '[DONE]' ||
                  !/(text|arguments|input|refusal)\.done$/.test(event ?? JSON.parse(data).type ?? ''),
              ),
            ),
          ),
        ),
      ).toEqual(whole)
    },
  )

  test.each(rows(wholes))('reads the response of %s', (_id, { files }) => {
    const body = JSON.parse(textOf(files.response))
    const events = responses.call.readResponse(body, {})
    checkGrammar(events)
    const answer = fold(events)
    expect(contentOf(answer)).toEqual(recordedContent(body.output))
    checkUsage(answer, body.usage)
    expect(answer.id).toBe(body.id)
  })

  test.each(rows(streams.filter(({ id }) => !odd.includes(id))))(
    'replaces id, model and storage in the stream of %s and nothing else',
    (id, { files }) => {
      const frames = framesOf(textOf(files.response))
      const kept: Any[] = []
      const passthrough = responses.passthrough({ ...contextOf(), keep: (response) => kept.push(response) })
      const rotates = ROTATING.includes(id)
      const ids = new Map<number, string>()
      for (const frame of frames) {
        const out = passthrough.frame(frame)
        if (!frame.data.startsWith('{')) {
          expect(out).toBeUndefined()
          continue
        }
        const before = JSON.parse(frame.data),
          after = JSON.parse(out!.data)
        expect(out!.event).toBe(frame.event)
        if (before.response !== undefined) {
          expect(after.response.id).toBe('resp_ours')
          expect(after.response.model).toBe('provider/model')
          const { id: _1, model: _2, store: _3, previous_response_id: _4, output: was, ...rest } = before.response
          const { id: _5, model: _6, store, previous_response_id: _7, output: is, ...same } = after.response
          expect(same).toEqual(rest)
          if (before.response.store !== undefined) expect(store).toBe(true)
          if (!rotates) expect(is).toEqual(was)
          else for (const [index, item] of (is ?? []).entries()) expect(item.id).toBe(ids.get(index))
        } else if (!rotates) {
          expect(out === frame || JSON.stringify(after) === JSON.stringify(before)).toBe(true)
        } else if (typeof after.output_index === 'number') {
          const id = after.item_id ?? after.item.id
          expect(ids.get(after.output_index) ?? id).toBe(id)
          ids.set(after.output_index, id)
        }
      }
      const terminal = terminalOf(frames)?.type
      expect(kept.length).toBe(terminal === 'response.completed' || terminal === 'response.incomplete' ? 1 : 0)
      if (kept.length === 0) return
      const done = parsed(frames).filter(({ type }) => type === 'response.output_item.done')
      expect(kept[0]!.output.length).toBeGreaterThanOrEqual(Math.min(1, done.length))
    },
  )

  test.each(rows(wholes))('replaces id, model and storage in the response of %s and nothing else', (_id, { files }) => {
    const text = textOf(files.response)
    const before = JSON.parse(text),
      after = JSON.parse(responses.passthrough(contextOf()).answer(text))
    expect(after).toEqual({
      ...before,
      id: 'resp_ours',
      model: 'provider/model',
      ...('store' in before ? { store: true } : {}),
      ...('previous_response_id' in before ? { previous_response_id: null } : {}),
    })
  })

  test.each(rows(entries.filter(({ status }) => status >= 400)))('reads the error of %s', (_id, { status, files }) => {
    const error = responses.call.readError(status, textOf(files.response))
    expect(error).toBeInstanceOf(GatewayError)
    // xAI refuses an invalid key with 400.
    if (status === 401 || /API key/.test(textOf(files.response)))
      expect([error.code, error.status]).toEqual(['upstream_error', 502])
    else expect(error.status).toBe(status)
    expect(error.metadata!.status).toBe(status)
  })
})
