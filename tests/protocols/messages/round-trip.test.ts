import { afterAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import { type GenerationResponse, fold, type GenerationEvent, unfold } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { readResponse } from '../../../src/protocols/messages/read-response.ts'
import { writeResponse } from '../../../src/protocols/messages/write-response.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { sentences } from '../../grammar.ts'
import { withoutPaths } from '../../translating.ts'
import { type Any, context, datas, events, frames, read, whole } from './kit.ts'

/** Responses to clients of the Messages API as this protocol's own reader and Anthropic's SDK read them. */

/** A response without citations after a tool call: the block of their text is closed then. */
const withoutLateCitations = (sentence: GenerationEvent[]): GenerationEvent[] => {
  const late = new Set<number>()
  let citable = false
  for (const event of sentence) {
    if (event.type !== 'part-start') continue
    if (event.head.type !== 'citation') citable = event.head.type === 'text'
    else if (!citable) late.add(event.part)
  }
  const shift = (number: number): number => number - [...late].filter((part) => part < number).length
  return sentence
    .filter((event) => !('part' in event && late.has(event.part)))
    .map((event) => ('part' in event ? { ...event, part: shift(event.part) } : event))
}

/** The response without what this protocol cannot represent. */
const representable = (answer: GenerationResponse): Any => ({
  parts: answer.parts
    .filter(
      (part) =>
        !(part.type === 'text' && part.text === '' && part.signature === undefined) &&
        !(part.type === 'reasoning' && part.text === '' && part.signature === undefined),
    )
    .map((part) => {
      if (part.type === 'refusal') return part.text === '' ? undefined : { type: 'text', text: part.text }
      if (part.type === 'image' || part.type === 'audio') {
        const { mediaType } = part.source as { mediaType: string }
        return { type: 'text', text: `[${part.type}: ${mediaType}, which an answer of the messages API cannot carry]` }
      }
      if (part.type !== 'text') return part
      const { signature: _signature, citations, ...rest } = part
      return part.text === ''
        ? undefined
        : { ...rest, ...(citations === undefined ? {} : { urls: citations.map(({ url }) => url) }) }
    })
    .filter((part) => part !== undefined)
    .map((part) => ('signature' in part && part.type === 'tool-call' ? { ...part, signature: undefined } : part)),
})

describe('a response that is written and read again', () => {
  /** The reader of a provider's responses reads signature blocks as redacted reasoning. */
  const isSignatureBlock = (part: Part): boolean =>
    part.type === 'reasoning' && part.redacted === true && (part.signature?.data.startsWith('of-') ?? false)
  const comparable = (answer: GenerationResponse): Any =>
    representable({ ...answer, parts: answer.parts.filter((part) => !isSignatureBlock(part)) })

  test('is the same response, streamed or not', () => {
    fc.assert(
      fc.property(sentences({ errors: false }).map(withoutLateCitations), (sentence) => {
        const before = fold(sentence)
        const streamed = fold(events(datas(frames(sentence))))
        const unstreamed = fold(readResponse(JSON.parse(JSON.stringify(writeResponse(before, context())))))
        expect(comparable(streamed)).toEqual(representable(before))
        expect(comparable(unstreamed)).toEqual(representable(before))
        expect(streamed.usage.inputTokens).toBe(before.usage.inputTokens)
        expect(streamed.usage.outputTokens + streamed.usage.reasoningTokens).toBe(
          before.usage.outputTokens + before.usage.reasoningTokens,
        )
        expect(unstreamed.usage).toEqual(streamed.usage)
      }),
      { numRuns: 300 },
    )
  })

  test('comes back in the next request with every signature, except for that of a text at its end', () => {
    const issuer = { provider: 'g', model: 'm' }
    fc.assert(
      fc.property(sentences({ errors: false, kinds: ['text', 'reasoning', 'tool-call'] }), (sentence) => {
        const whole = fold(sentence)
        const { content } = writeResponse(whole, context(issuer)) as { content: unknown[] }
        fc.pre(content.length > 0)
        // Parts without a text or a signature have no block.
        const isLast = (index: number): boolean =>
          whole.parts
            .slice(index + 1)
            .every((part) =>
              part.type === 'text'
                ? part.text === ''
                : part.type === 'reasoning' && part.text === '' && part.signature === undefined,
            )
        const before = {
          parts: whole.parts.map((part, i) =>
            part.type === 'text' && isLast(i) ? { type: 'text' as const, text: part.text } : part,
          ),
        }
        const [turn] = read({ messages: [{ role: 'assistant', content: JSON.parse(JSON.stringify(content)) }] }).turns
        const signed = before.parts
          .filter(
            (part) =>
              !(
                (part.type === 'text' || part.type === 'reasoning') &&
                part.text === '' &&
                part.signature === undefined
              ),
          )
          .map((part) =>
            'signature' in part && part.signature !== undefined
              ? { ...part, signature: { ...part.signature, issuer } }
              : part,
          )
        expect(withoutPaths(turn!.parts)).toEqual(signed)
      }),
      { numRuns: 200 },
    )
  })

  test('has the same events as the response that was written', () => {
    const answer = whole({
      parts: [
        { type: 'text', text: 'a' },
        { type: 'tool-call', id: 'x', name: 'f', arguments: '{"a":1}', form: 'function' },
      ],
      finish: { reason: 'tool-calls', raw: 'tool_use' },
    })
    const [first, ...rest] = [...unfold({ ...answer, id: 'msg_1', model: 'p/m' })]
    // The output tokens are unknown until the end.
    const { outputTokens: _, ...early } = answer.usage
    const expected: GenerationEvent[] = [first!, { type: 'usage', usage: early }, ...rest]
    expect(events(datas(frames([...unfold(answer)])))).toEqual(expected)
  })
})

describe('the official SDK', () => {
  let body: { text: string; type: string } = { text: '', type: '' }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(body.text, { headers: { 'content-type': body.type } }),
  })
  const client = new Anthropic({ apiKey: 'key', baseURL: `http://127.0.0.1:${server.port}`, maxRetries: 0 })
  afterAll(() => server.stop(true))
  const request = { model: 'p/m', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] }

  test('accepts every stream, and collects the message of a response without streaming', async () => {
    await fc.assert(
      fc.asyncProperty(
        sentences({ kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'citation', 'image'] }).map(
          withoutLateCitations,
        ),
        async (sentence) => {
          const last = sentence.at(-1)!
          body = {
            type: 'text/event-stream',
            text: frames(sentence)
              .map(({ event, data }) => `event: ${event}\ndata: ${data}\n\n`)
              .join(''),
          }
          const message = client.messages.stream(request).finalMessage()
          if (last.type === 'error') return void (await expect(message).rejects.toThrow(last.error.message))
          const expected = JSON.parse(JSON.stringify(writeResponse(fold(sentence), context()))) as Any
          const got = JSON.parse(JSON.stringify(await message)) as Any
          expect(got.content.map(withoutEmptyCitations)).toEqual(expected.content.map(withoutEmptyCitations))
          expect(got).toMatchObject({
            id: 'msg_1',
            model: 'p/m',
            stop_reason: expected.stop_reason,
            usage: { input_tokens: expected.usage.input_tokens, output_tokens: expected.usage.output_tokens },
          })
        },
      ),
      { numRuns: 60 },
    )
  }, 30_000)

  test.each([
    ['length', 'max_tokens', []],
    ['tool-calls', 'tool_use', [{ type: 'tool_use', id: 'x', name: 'f', input: {} }]],
  ] as const)('accepts a message that ends with %s, without a call that was cut', async (reason, stopReason, last) => {
    const answer = whole({
      parts: [
        { type: 'reasoning', text: 'hm', signature: { data: 's' } },
        { type: 'text', text: 'a' },
        { type: 'tool-call', id: 'w', name: 'f', arguments: '{"a":1}', form: 'function' },
        { type: 'tool-call', id: 'x', name: 'f', arguments: '{"cut', form: 'function' },
      ],
      finish: { reason, raw: reason },
    })
    const losses = new LossReport()
    body = { type: 'application/json', text: JSON.stringify(writeResponse(answer, { ...context(), losses })) }
    const { content, stop_reason } = await client.messages.create(request)
    expect([content, stop_reason, losses.losses.map(({ path }) => path)]).toMatchObject([
      [
        { type: 'thinking', thinking: 'hm', signature: 's' },
        { type: 'text', text: 'a' },
        { type: 'tool_use', id: 'w', name: 'f', input: { a: 1 } },
        ...last,
      ],
      stopReason,
      ['response.tool_calls.arguments'],
    ])
  })
})

/** A block without members that the SDK adds or leaves out. */
const withoutEmptyCitations = ({ citations, ...block }: Any): Any => ({
  ...block,
  ...(citations == null || citations.length === 0 ? {} : { citations }),
})
