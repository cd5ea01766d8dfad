import { describe, expect, test } from 'bun:test'
import { fold, unfold, type GenerationResponse, type GenerationEvent } from '../../../src/generation/event.ts'
import type { ConversationName, GenerationRequest, ProtocolName } from '../../../src/generation/request.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { protocols } from '../../../src/protocols/index.ts'
import type { TranslationContext, Target } from '../../../src/protocols/protocol.ts'
import { JPEG, PNG } from './image-provider.ts'
import { eventsOf, streamedEventsOf, type Written, written } from '../../translating.ts'

/** Images in conversations: in the responses of every protocol, and in requests for them. */

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

const requestOf = (name: ConversationName, more: Json): GenerationRequest => {
  const body = { ...BODIES[name], ...more }
  return protocols[name].serve.readRequest({ body, text: JSON.stringify(body), headers: new Headers(), model: 'a/b' })
}
const contextOf = (name: ConversationName): TranslationContext => {
  const rawRequest = { body: BODIES[name], text: JSON.stringify(BODIES[name]), headers: new Headers(), model: 'a/b' }
  return {
    rawRequest,
    request: protocols[name].serve.readRequest(rawRequest),
    responseIdentity: { id: 'x_1', model: 'a/b', createdAt: 7, issuer: { provider: 'p', model: 'm' } },
  }
}
const imagePart = (mediaType: string, data: string): GenerationResponse['parts'][number] => ({
  type: 'image',
  source: { type: 'data', mediaType, data },
})
const ANSWER: GenerationResponse = {
  id: 'up',
  model: 'm',
  metered: true,
  usage: { ...noUsage(), inputTokens: 3, outputTokens: 2, outputImageTokens: 9 },
  finish: { reason: 'stop', raw: 'stop' },
  parts: [{ type: 'text', text: 'Here.' }, imagePart('image/png', PNG), imagePart('image/jpeg', JPEG)],
}

const whole = (name: ConversationName): GenerationResponse =>
  fold(eventsOf(name, JSON.parse(JSON.stringify(protocols[name].serve.writeResponse(ANSWER, contextOf(name))))))

function streamed(name: ConversationName): GenerationResponse {
  const writer = protocols[name].serve.writer(contextOf(name))
  const frames: Frame[] = [...unfold(ANSWER)].flatMap((event: GenerationEvent) => writer.write(event))
  return fold(streamedEventsOf(name, frames))
}

describe('an image in a response', () => {
  test.each(
    NAMES.filter((name) => name !== 'messages').flatMap(
      (name) =>
        [
          [name, 'whole', whole],
          [name, 'streamed', streamed],
        ] as const,
    ),
  )('is carried in %s, %s', (name, _, read) => {
    expect(read(name).parts.filter(({ type }) => type === 'image')).toEqual(ANSWER.parts.slice(1))
  })

  test.each([
    ['whole', whole],
    ['streamed', streamed],
  ] as const)('is described as text in messages, which cannot carry images, %s', (_, read) => {
    const placeholders = ['png', 'jpeg'].map((format) => ({
      type: 'text',
      text: `[image: image/${format}, which an answer of the messages API cannot carry]`,
    }))
    expect(
      read('messages').parts.map(({ type, ...part }): Json => ({ type, text: 'text' in part ? part.text : '' })),
    ).toEqual([{ type: 'text', text: 'Here.' }, ...placeholders])
  })
})

describe('a request for an image', () => {
  const target = (output?: Target['capabilities']['output']): Target => ({
    provider: 'p',
    model: 'm',
    quirks: {},
    capabilities: output === undefined ? {} : { output },
  })
  const bodyFor = (client: ConversationName, provider: ConversationName, to = target(['text', 'image'])): Json =>
    written(provider, contextOf(client).request, to, BODIES[client]).body

  test.each(['chat.completions', 'responses', 'generateContent'] as const)(
    'of %s is carried to a conversation model with image output',
    (client) => {
      const ratio = client === 'responses'
      const google = bodyFor(client, 'generateContent')
      expect([google.generationConfig, google.tools]).toEqual([
        { responseModalities: ['TEXT', 'IMAGE'], ...(ratio ? { imageConfig: { aspectRatio: '3:2' } } : {}) },
        undefined,
      ])
      const chat = bodyFor(client, 'chat.completions')
      expect([chat.modalities, chat.image_config, chat.tools]).toEqual([
        ['text', 'image'],
        ratio ? { aspect_ratio: '3:2' } : undefined,
        undefined,
      ])
    },
  )

  test('with a ratio and a size is carried between chat completions and generateContent, and lost elsewhere', () => {
    const chat = requestOf('chat.completions', {
      modalities: undefined,
      image_config: { aspect_ratio: '16:9', image_size: '4K', font: 'x' },
    })
    const lossesTo = (provider: ProtocolName): Written =>
      written(provider, chat, target(), { image_config: { aspect_ratio: '16:9', image_size: '4K' } })
    const { body, losses } = lossesTo('generateContent')
    expect([body.generationConfig, losses, Object.keys(chat.extras)]).toEqual([
      { imageConfig: { aspectRatio: '16:9', imageSize: '4K' } },
      [],
      ['image_config.font'],
    ])
    const google = requestOf('generateContent', {
      generationConfig: { responseModalities: ['TEXT', 'IMAGE'], image_config: { aspect_ratio: '2:3' } },
    })
    expect(written('chat.completions', google, target()).body).toMatchObject({
      modalities: ['text', 'image'],
      image_config: { aspect_ratio: '2:3' },
    })
    for (const provider of ['images', 'responses', 'messages'] as const)
      expect([provider, lossesTo(provider).losses]).toEqual([
        provider,
        expect.arrayContaining([
          expect.objectContaining({ code: 'unsupported_field', path: 'image_config', effect: 'dropped' }),
        ]),
      ])
    // An invalid value is passed on to a provider of the client's protocol.
    expect(requestOf('chat.completions', { image_config: { aspect_ratio: 5 } })).toMatchObject({
      imageOutput: undefined,
      extras: { image_config: { aspect_ratio: 5 } },
    })
    expect(requestOf('generateContent', { generationConfig: { imageConfig: 'wide' } })).toMatchObject({
      extras: { 'generationConfig.imageConfig': 'wide' },
    })
  })

  test('has the image modality only for a model without text output', () => {
    expect(bodyFor('chat.completions', 'chat.completions', target(['image'])).modalities).toEqual(['image'])
  })

  test('without text asks a provider of chat completions for text too, except a model without text output', () => {
    const generationConfig = { responseModalities: ['IMAGE'] }
    const request = requestOf('generateContent', { generationConfig })
    const sentTo = (to: Target): Written => written('chat.completions', request, to, { generationConfig })
    for (const output of [undefined, ['text', 'image']] as const) {
      const { body, losses } = sentTo(target(output?.slice()))
      expect([body.modalities, losses.map(({ code, path }) => [code, path])]).toEqual([
        ['text', 'image'],
        [['value_adjusted', 'generationConfig.responseModalities']],
      ])
    }
    expect(sentTo(target(['image']))).toMatchObject({ body: { modalities: ['image'] }, losses: [] })
  })

  test('of responses is refused for a model without known image output', () => {
    for (const provider of ['generateContent', 'chat.completions'] as const)
      expect(() => bodyFor('responses', provider, target())).toThrow(/image_generation/)
  })

  test('is read from the valid options of the image tool', () => {
    const optionsOf = (tool: Json): GenerationRequest['imageOutput'] => {
      const body = { model: 'a/b', input: 'x', tools: [{ type: 'image_generation', ...tool }] }
      return protocols.responses.serve.readRequest({ body, text: JSON.stringify(body), headers: new Headers() })
        .imageOutput
    }
    expect([
      optionsOf({}),
      optionsOf({ size: 'auto', quality: 5 }),
      optionsOf({ size: '16x9', background: 'opaque' }),
    ]).toEqual([{}, {}, { size: { width: 16, height: 9 }, background: 'opaque' }])
  })
})
