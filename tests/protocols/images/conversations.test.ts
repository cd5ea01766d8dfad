import { describe, expect, test } from 'bun:test'
import { fold, unfold, type Answer, type GenerationEvent } from '../../../src/generation/event.ts'
import type { ConversationName, GenerationRequest } from '../../../src/generation/request.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { protocols } from '../../../src/protocols/index.ts'
import type { TranslationContext, Target } from '../../../src/protocols/protocol.ts'
import { JPEG, PNG } from './painter.ts'

/** Images that a conversation makes: in answers of every protocol, and in requests for them. */

type Json = Record<string, any>

const BODIES: Record<ConversationName, Json> = {
  'chat.completions': { model: 'a/b', messages: [{ role: 'user', content: 'Draw' }], modalities: ['text', 'image'] },
  responses: { model: 'a/b', input: 'Draw', tools: [{ type: 'image_generation', size: '1536x1024', quality: 'high' }] },
  messages: { model: 'a/b', max_tokens: 9, messages: [{ role: 'user', content: 'Draw' }] },
  generateContent: {
    contents: [{ role: 'user', parts: [{ text: 'Draw' }] }],
    generationConfig: { responseModalities: ['TEXT', 'IMAGE'] },
  },
}
const NAMES = Object.keys(BODIES) as ConversationName[]

const exchangeOf = (name: ConversationName): TranslationContext => {
  const rawRequest = { body: BODIES[name], text: JSON.stringify(BODIES[name]), headers: new Headers(), model: 'a/b' }
  return {
    rawRequest,
    request: protocols[name].serve.readRequest(rawRequest),
    responseIdentity: { id: 'x_1', model: 'a/b', createdAt: 7, issuer: { provider: 'p', model: 'm' } },
  }
}
const image = (mediaType: string, data: string): Answer['parts'][number] => ({
  type: 'image',
  source: { type: 'data', mediaType, data },
})
const ANSWER: Answer = {
  id: 'up',
  model: 'm',
  metered: true,
  usage: { ...noUsage(), inputTokens: 3, outputTokens: 2, outputImageTokens: 9 },
  finish: { reason: 'stop', raw: 'stop' },
  parts: [{ type: 'text', text: 'Here.' }, image('image/png', PNG), image('image/jpeg', JPEG)],
}

const whole = (name: ConversationName): Answer =>
  fold(
    protocols[name].call.readAnswer(
      JSON.parse(JSON.stringify(protocols[name].serve.writeAnswer(ANSWER, exchangeOf(name)))),
      {},
    ),
  )

function streamed(name: ConversationName): Answer {
  const writer = protocols[name].serve.writer(exchangeOf(name))
  const reader = protocols[name].call.reader({})
  const frames: Frame[] = [...unfold(ANSWER)].flatMap((event: GenerationEvent) => writer.write(event))
  return fold([...frames.flatMap((frame) => reader.read(frame)), ...reader.end()])
}

describe('an image of an answer', () => {
  test.each(
    NAMES.filter((name) => name !== 'messages').flatMap(
      (name) =>
        [
          [name, 'whole', whole],
          [name, 'streamed', streamed],
        ] as const,
    ),
  )('is carried over %s, %s', (name, _, told) => {
    expect(told(name).parts.filter(({ type }) => type === 'image')).toEqual(ANSWER.parts.slice(1))
  })

  test.each([
    ['whole', whole],
    ['streamed', streamed],
  ] as const)('is told where messages have no place for it, %s', (_, told) => {
    const tells = ['png', 'jpeg'].map((format) => ({
      type: 'text',
      text: `[image: image/${format}, which an answer of the messages API cannot carry]`,
    }))
    expect(
      told('messages').parts.map(({ type, ...part }): Json => ({ type, text: 'text' in part ? part.text : '' })),
    ).toEqual([{ type: 'text', text: 'Here.' }, ...tells])
  })
})

describe('the wish for an image', () => {
  const target = (output?: Target['capabilities']['output']): Target => ({
    provider: 'p',
    model: 'm',
    quirks: {},
    capabilities: output === undefined ? {} : { output },
  })
  const written = (client: ConversationName, provider: ConversationName, to = target(['text', 'image'])): Json =>
    protocols[provider].call.writeRequest(exchangeOf(client).request, to).body

  test.each(['chat.completions', 'responses', 'generateContent'] as const)(
    'of %s is carried to a model that draws',
    (client) => {
      const ratio = client === 'responses'
      const google = written(client, 'generateContent')
      expect([google.generationConfig, google.tools]).toEqual([
        { responseModalities: ['TEXT', 'IMAGE'], ...(ratio ? { imageConfig: { aspectRatio: '3:2' } } : {}) },
        undefined,
      ])
      const chat = written(client, 'chat.completions')
      expect([chat.modalities, chat.image_config, chat.tools]).toEqual([
        ['text', 'image'],
        ratio ? { aspect_ratio: '3:2' } : undefined,
        undefined,
      ])
    },
  )

  test('of a ratio and a size is carried between chat completions and generateContent, and told as lost elsewhere', () => {
    const read = (name: ConversationName, more: Json): GenerationRequest => {
      const body = { ...BODIES[name], ...more }
      return protocols[name].serve.readRequest({
        body,
        text: JSON.stringify(body),
        headers: new Headers(),
        model: 'a/b',
      })
    }
    const chat = read('chat.completions', {
      modalities: undefined,
      image_config: { aspect_ratio: '16:9', image_size: '4K', font: 'x' },
    })
    const { body, losses } = protocols.generateContent.call.writeRequest(chat, target())
    expect([body.generationConfig, losses, Object.keys(chat.extras)]).toEqual([
      { imageConfig: { aspectRatio: '16:9', imageSize: '4K' } },
      [],
      ['image_config.font'],
    ])
    const google = read('generateContent', {
      generationConfig: { responseModalities: ['TEXT', 'IMAGE'], image_config: { aspect_ratio: '2:3' } },
    })
    expect(protocols['chat.completions'].call.writeRequest(google, target()).body).toMatchObject({
      modalities: ['text', 'image'],
      image_config: { aspect_ratio: '2:3' },
    })
    for (const [provider, field] of [
      ['images', 'imageOutput'],
      ['responses', 'imageOutput'],
      ['messages', 'imageOutput'],
    ] as const) {
      expect([
        provider,
        protocols[provider].call.writeRequest(chat, target()).losses.map((loss) => loss.field),
      ]).toEqual([provider, expect.arrayContaining([field])])
    }
    // In another form it is for its own provider to judge.
    expect(read('chat.completions', { image_config: { aspect_ratio: 5 } })).toMatchObject({
      imageOutput: undefined,
      extras: { image_config: { aspect_ratio: 5 } },
    })
    expect(read('generateContent', { generationConfig: { imageConfig: 'wide' } })).toMatchObject({
      extras: { 'generationConfig.imageConfig': 'wide' },
    })
  })

  test('is for the image alone where a model makes no text', () => {
    expect(written('chat.completions', 'chat.completions', target(['image'])).modalities).toEqual(['image'])
  })

  test('of responses is refused where nobody knows that the model draws', () => {
    for (const provider of ['generateContent', 'chat.completions'] as const)
      expect(() => written('responses', provider, target())).toThrow(/image_generation/)
  })

  test('is read from the tool as far as it says something', () => {
    const read = (tool: Json): GenerationRequest['imageOutput'] => {
      const body = { model: 'a/b', input: 'x', tools: [{ type: 'image_generation', ...tool }] }
      return protocols.responses.serve.readRequest({ body, text: JSON.stringify(body), headers: new Headers() })
        .imageOutput
    }
    expect([read({}), read({ size: 'auto', quality: 5 }), read({ size: '16x9', background: 'opaque' })]).toEqual([
      {},
      {},
      { size: { width: 16, height: 9 }, background: 'opaque' },
    ])
  })
})
