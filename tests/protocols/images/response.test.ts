import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fold, type GenerationResponse } from '../../../src/generation/event.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import { writeResponse } from '../../../src/protocols/images/write-response.ts'
import { images } from '../../../src/protocols/images/index.ts'
import type { TranslationContext } from '../../../src/protocols/protocol.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { checkGrammar } from '../../grammar.ts'
import { eventsOf, streamedEventsOf } from '../../translating.ts'
import { JPEG, PNG } from './image-provider.ts'

/** Responses of the images API: read, written and passed through. */

type Json = Record<string, any>

const context = (body: Json = {}, imageUrls?: string[]): TranslationContext => {
  const rawRequest = {
    body: { model: 'a/b', prompt: 'A cat', ...body },
    text: JSON.stringify({ model: 'a/b', prompt: 'A cat', ...body }),
    headers: new Headers(),
  }
  return {
    rawRequest,
    request: images.serve.readRequest(rawRequest),
    responseIdentity: { id: 'img_1', model: 'a/b', createdAt: 7 },
    ...(imageUrls === undefined ? {} : { imageUrls }),
  } as TranslationContext
}
const USAGE = {
  input_tokens: 12,
  output_tokens: 300,
  total_tokens: 312,
  input_tokens_details: { text_tokens: 12, image_tokens: 0 },
  output_tokens_details: { text_tokens: 20, image_tokens: 280 },
}

describe('reading a response', () => {
  test('is finishing once it has an image, and ends once', () => {
    const reader = images.call!.reader(undefined as never)
    reader.read({ data: '{"type":"image_generation.partial_image","b64_json":"eA=="}' })
    expect(reader.finishing).toBe(false)
    reader.read({ data: JSON.stringify({ type: 'image_generation.completed', b64_json: PNG }) })
    expect(reader.finishing).toBe(true)
    expect(reader.end()).toEqual([{ type: 'finish', reason: 'stop', raw: 'stop' }])
    expect(reader.end()).toEqual([])
  })

  test('finds its images, with the media types of their bytes, and its usage', () => {
    const events = eventsOf('images', {
      created: 1,
      data: [{ b64_json: PNG }, { b64_json: JPEG, revised_prompt: 'x' }, { url: 'https://h/never-fetched' }, null],
      usage: USAGE,
    })
    checkGrammar(events)
    const answer = fold(events)
    expect(answer.parts).toEqual(
      [
        ['image/png', PNG],
        ['image/jpeg', JPEG],
      ].map(([mediaType, data]) => ({ type: 'image', source: { type: 'data', mediaType: mediaType!, data: data! } })),
    )
    expect(answer.usage).toEqual({ ...noUsage(), inputTokens: 12, outputTokens: 20, outputImageTokens: 280 })
  })

  test.each<[string, unknown, object | undefined]>([
    [
      'output without details is image tokens',
      { input_tokens: 1, output_tokens: 5 },
      { inputTokens: 1, inputImageTokens: 0, outputTokens: 0, outputImageTokens: 5 },
    ],
    [
      'a detail is at most its sum',
      { input_tokens: 1, output_tokens: 5, output_tokens_details: { text_tokens: 9 } },
      { inputTokens: 1, inputImageTokens: 0, outputTokens: 5, outputImageTokens: 0 },
    ],
    ['input alone is usage', { input_tokens: 4 }, { inputTokens: 4, inputImageTokens: 0 }],
    [
      'images of the prompt are apart from its text',
      { input_tokens: 400, input_tokens_details: { text_tokens: 10, image_tokens: 390 } },
      { inputTokens: 10, inputImageTokens: 390 },
    ],
    ['incredible numbers are not reported', { input_tokens: -5, output_tokens: 1e300 }, undefined],
    ['costs of the provider are ignored', { cost_in_usd_ticks: 700000000 }, undefined],
    ['null is not reported', null, undefined],
    ['a text is not reported', 'many', undefined],
  ])('converts usage: %s', (_, usage, buckets) => {
    const reported = eventsOf('images', { data: [{ b64_json: PNG }], usage }).find((event) => event.type === 'usage')
    expect(reported?.usage).toEqual(buckets as never)
  })

  test.each<[unknown, RegExp]>([
    [{ data: [] }, /without an image/],
    [{}, /without an image/],
    [null, /without an image/],
    ['x', /without an image/],
    [{ data: [{ url: 'https://h/x.png' }] }, /without an image/],
    [{ data: [{ b64_json: '' }] }, /without an image/],
    [{ error: { message: 'Bad prompt', type: 'invalid_request_error', code: 'moderation_blocked' } }, /Bad prompt/],
    [{ error: 'broke' }, /broke/],
  ])('throws for a body that is not a response with images: %j', (body, message) =>
    expect(() => eventsOf('images', body)).toThrow(message),
  )
})

describe('passing a response through', () => {
  test('changes nothing but the id and the model name', () => {
    const theirs =
      `{"created": 5,  "model":"inner","data":[{"b64_json":"${PNG}","revised_prompt":"A \\u0063at"}],` +
      `"usage":${JSON.stringify(USAGE)},"big":12345678901234567890}`
    expect(images.passthrough(context()).answer(theirs)).toBe(
      `{"id":"img_1",${theirs.slice(1).replace('"inner"', '"a/b"')}`,
    )
  })

  test('adds the time and the counted usage that the provider did not report', () => {
    const counted = { ...noUsage(), inputTokens: 3 }
    expect(
      JSON.parse(
        images
          .passthrough(context())
          .answer(`{"data":[{"b64_json":"${PNG}"}],"usage":{"cost_in_usd_ticks":7}}`, counted),
      ),
    ).toEqual({
      id: 'img_1',
      model: 'a/b',
      created: 7,
      data: [{ b64_json: PNG }],
      usage: {
        input_tokens: 3,
        output_tokens: 0,
        total_tokens: 3,
        input_tokens_details: { text_tokens: 3, image_tokens: 0 },
        output_tokens_details: { text_tokens: 0, image_tokens: 0 },
      },
    })
  })

  test('replaces base64 with URLs of Sluice', () => {
    const answer = JSON.parse(
      images
        .passthrough(context({ response_format: 'url' }, ['https://s/1', 'https://s/2']))
        .answer(JSON.stringify({ created: 1, data: [{ b64_json: PNG, revised_prompt: 'r' }, { b64_json: JPEG }] })),
    )
    expect(answer.data).toEqual([{ revised_prompt: 'r', url: 'https://s/1' }, { url: 'https://s/2' }])
  })
})

describe('passing a request through', () => {
  const target = (base64Only?: boolean) => ({
    provider: 'p',
    model: 'inner',
    quirks: {},
    capabilities: { ...(base64Only === undefined ? {} : { base64Only }) },
  })
  const contextOf = (text: string): TranslationContext => ({
    ...context(),
    rawRequest: { body: JSON.parse(text), text, headers: new Headers() },
  })

  const forwarded = (context: TranslationContext, to: ReturnType<typeof target>): string =>
    images.call.forward(context, to, new LossReport())

  test('requests base64 and changes nothing else but the model', () => {
    expect(forwarded(contextOf('{"model":"a/b", "prompt":"x","seed":1.0,"response_format":"url"}'), target())).toBe(
      '{"model":"inner", "prompt":"x","seed":1.0,"response_format":"b64_json"}',
    )
    expect(forwarded(contextOf('{"model":"a/b","prompt":"x","n":2}'), target())).toBe(
      '{"response_format":"b64_json","model":"inner","prompt":"x","n":2}',
    )
  })

  test('omits response_format for a model that refuses it', () => {
    expect(forwarded(contextOf('{"model":"a/b","response_format":"url","prompt":"x"}'), target(true))).toBe(
      '{"model":"inner","prompt":"x"}',
    )
  })
})

describe('writing a response', () => {
  const answer: GenerationResponse = {
    id: 'x',
    model: 'y',
    parts: [
      { type: 'text', text: 'Here.' },
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: PNG } },
    ],
    usage: { ...noUsage(), inputTokens: 2, outputTokens: 1, reasoningTokens: 4, outputImageTokens: 9 },
    metered: true,
    finish: { reason: 'stop', raw: 'STOP' },
  }

  test('includes the properties of its images and the text beside them', () => {
    expect(writeResponse(answer, context({ quality: 'high' }))).toEqual({
      created: 7,
      id: 'img_1',
      model: 'a/b',
      data: [{ b64_json: PNG }],
      size: '3x2',
      output_format: 'png',
      quality: 'high',
      text: 'Here.',
      usage: {
        input_tokens: 2,
        output_tokens: 14,
        total_tokens: 16,
        input_tokens_details: { text_tokens: 2, image_tokens: 0 },
        output_tokens_details: { text_tokens: 5, image_tokens: 9 },
      },
    })
  })

  test.each<[Partial<GenerationResponse>, number, string]>([
    [
      { parts: [{ type: 'text', text: 'I may not draw this.' }] },
      400,
      'The model made no image of this prompt. It answered: I may not draw this.',
    ],
    [{ parts: [{ type: 'refusal', text: 'No.' }] }, 400, 'The model made no image of this prompt. It answered: No.'],
    [
      { parts: [], finish: { reason: 'content-filter', raw: 'IMAGE_SAFETY' } },
      400,
      'The provider refused to make an image of this prompt (IMAGE_SAFETY).',
    ],
    [
      { parts: [], finish: { reason: 'other', raw: 'NO_IMAGE' } },
      502,
      'The provider responded without an image (NO_IMAGE).',
    ],
  ])('throws if there is no image: %j', (more, status, message) => {
    let thrown: any
    try {
      writeResponse({ ...answer, ...more }, context())
    } catch (error) {
      thrown = error
    }
    expect([thrown?.status, thrown?.message]).toEqual([status, message])
  })
})

describe('a stream of images', () => {
  const completed = (more: Json = {}): { data: string } => ({
    data: JSON.stringify({
      type: 'image_generation.completed',
      b64_json: PNG,
      created_at: 1,
      size: '3x2',
      quality: 'low',
      background: 'auto',
      output_format: 'png',
      usage: USAGE,
      ...more,
    }),
  })
  const PARTIAL = {
    data: JSON.stringify({ type: 'image_generation.partial_image', b64_json: JPEG, partial_image_index: 0 }),
  }

  test('is read without partial images, and the usage of all images is added up', () => {
    const events = streamedEventsOf('images', [PARTIAL, completed(), completed()])
    checkGrammar(events)
    const { parts, usage } = fold(events)
    expect([parts.length, usage]).toEqual([
      2,
      { ...noUsage(), inputTokens: 24, outputTokens: 40, outputImageTokens: 560 },
    ])
  })

  test.each<[string, { data: string }[], RegExp]>([
    ['that ends early', [PARTIAL], /ended before its answer was complete/],
    [
      'that fails',
      [PARTIAL, { data: '{"type":"error","error":{"message":"Overloaded","type":"server_error"}}' }],
      /Overloaded/,
    ],
    ['of something other than events', [{ data: '<html>' }], /ended before/],
  ])('%s ends with an error', (_, frames, message) => {
    const events = streamedEventsOf('images', frames)
    checkGrammar(events)
    expect(() => fold(events)).toThrow(message)
  })

  test('is written with one event per image and the usage in the last', () => {
    const writer = images.serve.writer(context({ stream: true }))
    const events = eventsOf('images', { data: [{ b64_json: PNG }, { b64_json: PNG }], usage: USAGE })
    const frames = events.flatMap((event) => writer.write(event)).map(({ event, data }) => [event, JSON.parse(data)])
    const frame = {
      type: 'image_generation.completed',
      id: 'img_1',
      created_at: 7,
      b64_json: PNG,
      size: '3x2',
      quality: 'auto',
      background: 'auto',
      output_format: 'png',
    }
    expect(frames).toEqual([
      ['image_generation.completed', frame],
      ['image_generation.completed', { ...frame, usage: USAGE }],
    ])
  })

  test('has an error event if there is no image', () => {
    const writer = images.serve.writer(context({ stream: true }))
    const frames = [
      ...writer.write({ type: 'start', id: '', model: '' }),
      ...writer.write({ type: 'finish', reason: 'content-filter', raw: 'SAFETY' }),
      ...writer.write({ type: 'finish', reason: 'stop', raw: '' }),
    ]
    expect(frames.map(({ event, data }) => [event, JSON.parse(data).error.code])).toEqual([
      ['error', 'invalid_request'],
    ])
  })
})

const RECORDINGS = join(import.meta.dir, '../../../../shared/recordings/openai-images')

describe.skipIf(!existsSync(RECORDINGS))('a recorded response', () => {
  const recorded = (name: string): { request: Json; response: string } => ({
    request: JSON.parse(readFileSync(join(RECORDINGS, `${name}.request.json`), 'utf8')) as Json,
    response: readFileSync(join(RECORDINGS, `${name}.response.json`), 'utf8'),
  })
  const contextOf = ({ model, ...more }: Json): TranslationContext =>
    context({ ...more, model: `a/${model as string}` })

  test('in base64 without a time and with costs of the provider is read', () => {
    const { request, response } = recorded('rig__xai-image-generation-image-generation-smoke')
    expect(contextOf(request).request.extras).toEqual({ aspect_ratio: '4:3', resolution: '2k' })
    expect(fold(eventsOf('images', JSON.parse(response))).parts).toEqual([
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'aGVsbG8=' } },
    ])
    expect(JSON.parse(images.passthrough(contextOf(request)).answer(response))).toMatchObject({
      created: 7,
      data: [{ b64_json: 'aGVsbG8=', mime_type: 'image/png' }],
    })
  })

  test.each([
    ['openllmetry__openai-metrics-image-gen-metrics.t2', 'quality', "Unknown parameter: 'quality'."],
    ['rig__openai-image-params-matrix-additional-params-override-prompt', 'prompt', "Invalid 'prompt': empty string."],
  ])('with the refusal %s keeps its code, status and parameter', (name, param, message) => {
    const error = images.call.readError(400, recorded(name).response)
    expect([error.code, error.status, error.param, error.message.slice(0, message.length)]).toEqual([
      'invalid_request',
      400,
      param,
      message,
    ])
  })
})
