import { describe, expect, test } from 'bun:test'
import { chunkText, eventStream } from '../../src/pipeline/framing.ts'
import type { GenerationRequest, ConversationName } from '../../src/generation/request.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { PassthroughOutput, TranslatedOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'

/**
 * The frame that ends a response for its client must not leave before the generation is closed. Otherwise a response
 * could be complete without a record.
 */

type StreamPieces = { frames: object[]; last: RegExp; failing: object[]; failed: RegExp }

const chatChunk = (delta: object, finish: string | null): object => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
})
const response = (status: string): object => ({
  id: 'r',
  object: 'response',
  created_at: 1,
  model: 'm',
  status,
  output: [],
})

const STREAMS: Record<ConversationName, StreamPieces> = {
  'chat.completions': {
    frames: [
      chatChunk({ role: 'assistant', content: 'one' }, null),
      chatChunk({ content: ' two' }, null),
      chatChunk({}, 'stop'),
      { id: 'c', model: 'm', choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } },
    ],
    last: /\[DONE\]/,
    failing: [chatChunk({ role: 'assistant', content: 'one' }, null), { error: { message: 'broke' } }],
    failed: /"error"/,
  },
  responses: {
    frames: [
      { type: 'response.created', response: response('in_progress') },
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { id: 'i', type: 'message', role: 'assistant', status: 'in_progress', content: [] },
      },
      { type: 'response.output_text.delta', output_index: 0, content_index: 0, item_id: 'i', delta: 'one two' },
      {
        type: 'response.completed',
        response: { ...response('completed'), usage: { input_tokens: 1, output_tokens: 2 } },
      },
    ],
    last: /"response\.completed"/,
    failing: [
      { type: 'response.created', response: response('in_progress') },
      { type: 'error', message: 'broke' },
    ],
    failed: /"type":"error"|response\.failed/,
  },
  messages: {
    frames: [
      {
        type: 'message_start',
        message: {
          id: 'a',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          usage: { input_tokens: 1, output_tokens: 1 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'one two' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ],
    last: /message_stop/,
    failing: [{ type: 'error', error: { type: 'api_error', message: 'broke' } }],
    failed: /"error"/,
  },
  generateContent: {
    frames: [
      { responseId: 'g', modelVersion: 'm', candidates: [{ content: { role: 'model', parts: [{ text: 'one' }] } }] },
      // Observed in Google's streams: several chunks have a finish reason.
      {
        candidates: [{ content: { role: 'model', parts: [{ text: ' two' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 1 },
      },
      {
        candidates: [{ content: { parts: [{ text: '' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2 },
      },
    ],
    last: /"candidatesTokenCount":2/,
    failing: [{ error: { code: 500, message: 'broke', status: 'INTERNAL' } }],
    failed: /"error"/,
  },
}

/** The provider's frames, one per network chunk, then the end of its bytes. */
const source = (frames: object[], tail: string[] = []) => {
  const pieces = [...frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`), ...tail].map((text) =>
    Buffer.from(text),
  )
  return { read: async () => pieces.shift(), cancel() {} }
}

const contextOf = (protocol: ConversationName): TranslationContext => {
  const request: GenerationRequest = {
    model: 'p/m',
    system: [],
    turns: [],
    tools: [],
    sampling: {},
    stream: true,
    includeUsage: true,
    protocol,
    extras: {},
  }
  return {
    rawRequest: { body: {}, text: '{}', headers: new Headers() },
    request,
    responseIdentity: { id: 'ours', model: 'p/m', createdAt: 1 },
  }
}

/** The frames that leave before the generation is closed, and those that leave after it. */
async function sentBefore(
  provider: ConversationName,
  client: ConversationName,
  frames: object[],
  tail?: string[],
): Promise<{ before: string[]; after: string }> {
  const context = contextOf(client)
  const out =
    provider === client
      ? new PassthroughOutput(protocols[client].passthrough(context), false)
      : new TranslatedOutput(protocols[client].serve.writer(context))
  const kept = Promise.withResolvers<void>()
  const closing = Promise.withResolvers<'closing'>()
  const relay = new Relay(
    source(frames, tail),
    new MeteredStream(protocols[provider].call.reader({}), out, new Meter(async () => 7)),
    eventStream,
    async (_ending, last) => {
      closing.resolve('closing')
      await kept.promise
      return last
    },
  )
  const before: string[] = []
  let next = relay.pull()
  for (;;) {
    const text = await Promise.race([next, closing.promise])
    if (text === 'closing') break
    before.push(chunkText(text!))
    next = relay.pull()
  }
  expect(await Promise.race([next, Bun.sleep(20).then(() => 'held back')])).toBe('held back')
  kept.resolve()
  let after = ''
  for (let text = await next; text !== undefined; text = await relay.pull()) after += chunkText(text)
  return { before, after }
}

const names = Object.keys(STREAMS) as ConversationName[]
const pairs = names.flatMap((provider) => names.map((client) => [provider, client] as const))

describe('the last frame', () => {
  test.each(pairs)(
    'the last frame of %s to a client of %s leaves after the generation is closed',
    async (provider, client) => {
      const { before, after } = await sentBefore(provider, client, STREAMS[provider].frames)
      expect(before.join('')).toContain('one')
      expect(before.join('')).not.toMatch(STREAMS[client].last)
      expect(after).toMatch(STREAMS[client].last)
    },
  )

  test.each(pairs)(
    'the error frame of %s to a client of %s leaves after the generation is closed',
    async (provider, client) => {
      const { before, after } = await sentBefore(provider, client, STREAMS[provider].failing)
      expect(before.join('')).not.toMatch(STREAMS[client].failed)
      expect(after).toMatch(STREAMS[client].failed)
    },
  )
})

describe('all other frames', () => {
  test.each(names)('frames of %s are passed on at once', async (name) => {
    const { before } = await sentBefore(name, name, STREAMS[name].frames)
    // The last frame waits for the close. In a stream without a terminal frame the last but one leaves with the end.
    expect(before.length).toBe(name === 'generateContent' ? 2 : STREAMS[name].frames.length - 1)
  })

  test('a frame that is not for the client does not release the last frame', async () => {
    const { before, after } = await sentBefore('generateContent', 'generateContent', STREAMS.generateContent.frames, [
      'data: [DONE]\n\n',
    ])
    expect(before.join('')).not.toMatch(STREAMS.generateContent.last)
    expect(after).toMatch(STREAMS.generateContent.last)
  })
})
