import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fold, type Answer, type GenerationEvent } from '../../../src/generation/event.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import { images } from '../../../src/protocols/images/index.ts'
import type { TranslationContext } from '../../../src/protocols/protocol.ts'
import { checkGrammar } from '../../grammar.ts'
import { JPEG, PNG } from './painter.ts'

/** Answers of the images API, read, written and relabelled. */

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
const read = (body: unknown): GenerationEvent[] => images.call.readAnswer(body, {})
const USAGE = {
  input_tokens: 12,
  output_tokens: 300,
  total_tokens: 312,
  input_tokens_details: { text_tokens: 12, image_tokens: 0 },
  output_tokens_details: { text_tokens: 20, image_tokens: 280 },
}

describe('an answer', () => {
  test('is its images, each by what its bytes are, and what they took', () => {
    const events = read({
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
      'output without details is of images',
      { input_tokens: 1, output_tokens: 5 },
      { inputTokens: 1, outputTokens: 0, outputImageTokens: 5 },
    ],
    [
      'a detail is never more than its whole',
      { input_tokens: 1, output_tokens: 5, output_tokens_details: { text_tokens: 9 } },
      { inputTokens: 1, outputTokens: 5, outputImageTokens: 0 },
    ],
    ['input alone', { input_tokens: 4 }, { inputTokens: 4 }],
    ['numbers that nobody can have counted', { input_tokens: -5, output_tokens: 1e300 }, undefined],
    ['another provider’s own money', { cost_in_usd_ticks: 700000000 }, undefined],
    ['none', null, undefined],
    ['a text', 'many', undefined],
  ])('tells usage: %s', (_, usage, buckets) => {
    const told = read({ data: [{ b64_json: PNG }], usage }).find((event) => event.type === 'usage')
    expect(told?.usage).toEqual(buckets as never)
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
  ])('that is none: %j', (body, message) => expect(() => read(body)).toThrow(message))
})

describe('a relabelled answer', () => {
  test('keeps every byte of the provider’s but for our names', () => {
    const theirs = `{"created": 5,  "model":"inner","data":[{"b64_json":"${PNG}","revised_prompt":"A \\u0063at"}],"usage":${JSON.stringify(USAGE)},"big":12345678901234567890}`
    expect(images.passthrough(context()).answer(theirs)).toBe(
      `{"id":"img_1",${theirs.slice(1).replace('"inner"', '"a/b"')}`,
    )
  })

  test('says when it was made, and what was counted, where its provider did not', () => {
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

  test('has addresses of ours in the place of base64', () => {
    const answer = JSON.parse(
      images
        .passthrough(context({ response_format: 'url' }, ['https://s/1', 'https://s/2']))
        .answer(JSON.stringify({ created: 1, data: [{ b64_json: PNG, revised_prompt: 'r' }, { b64_json: JPEG }] })),
    )
    expect(answer.data).toEqual([{ revised_prompt: 'r', url: 'https://s/1' }, { url: 'https://s/2' }])
  })
})

describe('a forwarded body', () => {
  const target = (base64Only?: boolean) => ({
    provider: 'p',
    model: 'inner',
    quirks: {},
    capabilities: { ...(base64Only === undefined ? {} : { base64Only }) },
  })
  const asked = (text: string): TranslationContext => ({
    ...context(),
    rawRequest: { body: JSON.parse(text), text, headers: new Headers() },
  })

  test('asks for the images themselves, and leaves all else as it is', () => {
    expect(
      images.call.forward(asked('{"model":"a/b", "prompt":"x","seed":1.0,"response_format":"url"}'), target()),
    ).toBe('{"model":"inner", "prompt":"x","seed":1.0,"response_format":"b64_json"}')
    expect(images.call.forward(asked('{"model":"a/b","prompt":"x","n":2}'), target())).toBe(
      '{"response_format":"b64_json","model":"inner","prompt":"x","n":2}',
    )
  })

  test('does not ask a model that refuses to be asked', () => {
    expect(images.call.forward(asked('{"model":"a/b","response_format":"url","prompt":"x"}'), target(true))).toBe(
      '{"model":"inner","prompt":"x"}',
    )
  })
})

describe('a written answer', () => {
  const made: Answer = {
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

  test('says what its images are, and what the model said beside them', () => {
    expect(images.serve.writeAnswer(made, context({ quality: 'high' }))).toEqual({
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

  test.each<[Partial<Answer>, number, string]>([
    [
      { parts: [{ type: 'text', text: 'I may not draw this.' }] },
      400,
      'The model made no image of this prompt. It said: I may not draw this.',
    ],
    [{ parts: [{ type: 'refusal', text: 'No.' }] }, 400, 'The model made no image of this prompt. It said: No.'],
    [
      { parts: [], finish: { reason: 'content-filter', raw: 'IMAGE_SAFETY' } },
      400,
      'The provider refused to make an image of this prompt (IMAGE_SAFETY).',
    ],
    [
      { parts: [], finish: { reason: 'other', raw: 'NO_IMAGE' } },
      502,
      'The provider answered without an image (NO_IMAGE).',
    ],
  ])('without an image is an error: %j', (more, status, message) => {
    let thrown: any
    try {
      images.serve.writeAnswer({ ...made, ...more }, context())
    } catch (error) {
      thrown = error
    }
    expect([thrown?.status, thrown?.message]).toEqual([status, message])
  })
})

describe('a stream', () => {
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
  const PIECE = {
    data: JSON.stringify({ type: 'image_generation.partial_image', b64_json: JPEG, partial_image_index: 0 }),
  }

  test('is read: pieces are no images, and the usage of several adds up', () => {
    const reader = images.call.reader({})
    const events = [...reader.read(PIECE), ...reader.read(completed()), ...reader.read(completed()), ...reader.end()]
    checkGrammar(events)
    const { parts, usage } = fold(events)
    expect([parts.length, usage]).toEqual([
      2,
      { ...noUsage(), inputTokens: 24, outputTokens: 40, outputImageTokens: 560 },
    ])
  })

  test.each<[string, { data: string }[], RegExp]>([
    ['that breaks off', [PIECE], /ended before its answer was complete/],
    [
      'that fails',
      [PIECE, { data: '{"type":"error","error":{"message":"Overloaded","type":"server_error"}}' }],
      /Overloaded/,
    ],
    ['of something else', [{ data: '<html>' }], /ended before/],
  ])('%s is an error', (_, frames, message) => {
    const reader = images.call.reader({})
    const events = [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
    checkGrammar(events)
    expect(() => fold(events)).toThrow(message)
  })

  test('is written with each image whole, the usage with the last', () => {
    const writer = images.serve.writer(context({ stream: true }))
    const events = read({ data: [{ b64_json: PNG }, { b64_json: PNG }], usage: USAGE })
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

  test('says in its own words that there is no image', () => {
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

describe.skipIf(!existsSync(RECORDINGS))('recorded', () => {
  const recorded = (name: string): { request: Json; response: string } => ({
    request: JSON.parse(readFileSync(join(RECORDINGS, `${name}.request.json`), 'utf8')) as Json,
    response: readFileSync(join(RECORDINGS, `${name}.response.json`), 'utf8'),
  })
  const asked = ({ model, ...more }: Json): TranslationContext => context({ ...more, model: `a/${model as string}` })

  test('an answer in base64 without a time and with costs of its own', () => {
    const { request, response } = recorded('rig__xai-image-generation-image-generation-smoke')
    expect(asked(request).request.extras).toEqual({ aspect_ratio: '4:3', resolution: '2k' })
    expect(fold(read(JSON.parse(response))).parts).toEqual([
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'aGVsbG8=' } },
    ])
    expect(JSON.parse(images.passthrough(asked(request)).answer(response))).toMatchObject({
      created: 7,
      data: [{ b64_json: 'aGVsbG8=', mime_type: 'image/png' }],
    })
  })

  test.each([
    ['openllmetry__openai-metrics-image-gen-metrics.t2', 'quality', "Unknown parameter: 'quality'."],
    ['rig__openai-image-params-matrix-additional-params-override-prompt', 'prompt', "Invalid 'prompt': empty string."],
  ])('the refusal %s keeps its meaning', (name, param, message) => {
    const error = images.call.readError(400, recorded(name).response)
    expect([error.code, error.status, error.param, error.message.slice(0, message.length)]).toEqual([
      'invalid_request',
      400,
      param,
      message,
    ])
  })
})
