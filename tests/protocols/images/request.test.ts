import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { type ImageConfig, imageConfigOf } from '../../../src/protocols/image-config.ts'
import { images } from '../../../src/protocols/images/index.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import type { Loss } from '../../../src/protocols/translation.ts'
import { readToTranslate, translationOf, written } from '../../translating.ts'

/** Requests of the images API, and their translation to and from conversations. */

type Json = Record<string, unknown>

const read = (body: Json): GenerationRequest =>
  readToTranslate('images', {
    body: { model: 'a/b', prompt: 'A lighthouse', ...body },
    text: '',
    headers: new Headers(),
  })
const TARGET: Target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }

/** The image options of this request for a conversation model, with their losses. */
function imageOptions(body: Json): { image: ImageConfig | undefined; losses: Loss[] } {
  const request = read(body)
  const translation = translationOf(request, TARGET, { model: 'a/b', prompt: 'A lighthouse', ...body })
  return { image: imageConfigOf(request, translation), losses: translation.report.losses }
}

const refusal = (body: Json): { param: string | undefined; message: string } => {
  try {
    read(body)
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) return { param: error.param, message: error.message }
    throw error
  }
  throw new Error(`${JSON.stringify(body)} was accepted`)
}

describe('a request of the images API', () => {
  test('becomes one turn with the prompt, and image options', () => {
    const all = {
      n: 3,
      size: '1536x1024',
      quality: 'high',
      background: 'transparent',
      output_format: 'webp',
      output_compression: 80,
      user: 'u',
      style: 'vivid',
      moderation: 'low',
      partial_images: 2,
      response_format: 'b64_json',
      brand_new: [1],
    }
    expect(JSON.parse(JSON.stringify(read(all)))).toEqual({
      model: 'a/b',
      system: [],
      turns: [{ role: 'user', path: 'prompt', parts: [{ type: 'text', text: 'A lighthouse', path: 'prompt' }] }],
      tools: [],
      sampling: {},
      outputModalities: ['text', 'image'],
      imageOutput: {
        count: 3,
        size: { width: 1536, height: 1024 },
        quality: 'high',
        background: 'transparent',
        format: 'webp',
        compression: 80,
      },
      user: 'u',
      stream: false,
      protocol: 'images',
      extras: { style: 'vivid', moderation: 'low', partial_images: 2, brand_new: [1] },
    })
  })

  test('has only the default count if fields are absent or null', () => {
    const nulls = {
      n: null,
      size: null,
      quality: null,
      response_format: null,
      background: null,
      output_format: null,
      stream: null,
      user: null,
      style: null,
    }
    for (const body of [{}, nulls, { size: 'auto' }])
      expect([read(body).imageOutput, read(body).extras]).toEqual([{ count: 1 }, {}] as never)
  })

  const SIZE = /^size: must be 'auto' or <width>x<height> in pixels with no side above 8192, such as 1024x1024, not '/
  test.each<[string, Json, string, RegExp]>([
    ['no model', { model: null }, 'model', /required/],
    ['a model that is not a string', { model: 5 }, 'model', /must be a string, not a number/],
    ['no prompt', { prompt: null }, 'prompt', /required: a description of the image/],
    ['an empty prompt', { prompt: ' \n' }, 'prompt', /must not be empty/],
    ['a list of prompts', { prompt: ['a'] }, 'prompt', /must be a string, not an array/],
    ['n = 0', { n: 0 }, 'n', /must be at least 1, not 0/],
    ['n = 11', { n: 11 }, 'n', /must be 1 to 10, not 11/],
    ['n = 1.5', { n: 1.5 }, 'n', /whole number/],
    ['n as a string', { n: '2' }, 'n', /must be a number, not a string/],
    ...[
      '1024',
      '1024x',
      'x1024',
      '1024X1024',
      '0x0',
      '-1x5',
      '1024x1024x3',
      '1024 x 1024',
      '01x5',
      '8193x1',
      '1x99999',
      '1e3x1e3',
      '１x１',
      'large',
      '',
    ].map((size): [string, Json, string, RegExp] => [`the size '${size}'`, { size }, 'size', SIZE]),
    ['a size as a number', { size: 1024 }, 'size', /must be a string/],
    [
      'another response_format',
      { response_format: 'png' },
      'response_format',
      /must be one of 'url', 'b64_json', not 'png'/,
    ],
    ['response_format as an object', { response_format: { type: 'url' } }, 'response_format', /must be a string/],
    ['another background', { background: 'red' }, 'background', /one of/],
    ['another format', { output_format: 'gif' }, 'output_format', /must be one of 'png', 'jpeg', 'webp'/],
    ['too much compression', { output_compression: 101 }, 'output_compression', /0 to 100/],
    ['a quality as a number', { quality: 1 }, 'quality', /string/],
    ['a style as a list', { style: [] }, 'style', /string/],
    ['moderation as an object', { moderation: {} }, 'moderation', /string/],
    ['too many partial images', { partial_images: 4 }, 'partial_images', /0 to 3/],
    ['stream as a string', { stream: 'yes' }, 'stream', /true or false/],
    [
      'URLs in a stream',
      { stream: true, response_format: 'url' },
      'response_format',
      /must be 'b64_json' or absent in a stream/,
    ],
  ])('is refused with %s', (_, body, param, message) => {
    const { message: actual, param: path } = refusal(body)
    expect([path, actual]).toEqual([param, expect.stringMatching(message)])
  })

  test('with any values is accepted or refused with a GatewayError', () => {
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.string(),
      fc.integer(),
      fc.constantFrom('1024x1024', 'url', 'png', 'auto'),
    )
    const body = fc.dictionary(
      fc.constantFrom(
        'model',
        'prompt',
        'n',
        'size',
        'quality',
        'response_format',
        'background',
        'output_format',
        'output_compression',
        'stream',
        'user',
        'style',
        'partial_images',
        'x',
      ),
      value,
    )
    fc.assert(
      fc.property(body, (json) => {
        try {
          const { imageOutput } = read(json as Json)
          expect(imageOutput!.count).toBeWithin(1, 11)
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('is refused for a model without image output', () => {
    const check = (...output: ('text' | 'image')[][]): void =>
      images.serve.checkModel!(
        read({}),
        output.map((kinds) => ({ output: kinds })),
      )
    expect(() => check(['text'])).toThrow(/^model: must be a model that makes images; a\/b outputs text/)
    check(['text'], ['text', 'image'])
    check(['image'])
    images.serve.checkModel!(read({}), [{}])
  })
})

describe('a size as image options of a conversation', () => {
  test('may be a ratio or a class', () => {
    expect(imageOptions({ size: '16:9' })).toEqual({ image: { aspectRatio: '16:9' }, losses: [] })
    expect(imageOptions({ size: '4K' })).toEqual({ image: { imageSize: '4K' }, losses: [] })
  })

  const config = (width: number, height: number): [string | undefined, string | undefined, string | undefined] => {
    const { image, losses } = imageOptions({ size: `${width}x${height}` })
    const [loss] = losses
    if (loss !== undefined) expect(loss).toMatchObject({ code: 'value_adjusted', path: 'size', effect: 'approximated' })
    return [image?.aspectRatio, image?.imageSize, loss?.reason]
  }
  test.each([
    [1024, 1024, '1:1', undefined, undefined],
    [2048, 2048, '1:1', '2K', undefined],
    [4096, 4096, '1:1', '4K', undefined],
    [1536, 1024, '3:2', undefined, 'the provider accepts aspect ratios: sent as 3:2 in 1K'],
    [1024, 1536, '2:3', undefined, 'the provider accepts aspect ratios: sent as 2:3 in 1K'],
    [1920, 1080, '16:9', undefined, 'the provider accepts aspect ratios: sent as 16:9 in 1K'],
    [3840, 2160, '16:9', '2K', 'the provider accepts aspect ratios: sent as 16:9 in 2K'],
    [256, 256, '1:1', undefined, 'the provider accepts aspect ratios: sent as 1:1 in 1K'],
    [8192, 1, '21:9', undefined, 'the provider accepts aspect ratios: sent as 21:9 in 1K'],
  ])('%dx%d becomes %s', (width, height, ratio, size, reason) =>
    expect(config(width, height)).toEqual([ratio, size, reason] as never),
  )

  test('has the nearest ratio, also for the other orientation', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8192 }), fc.integer({ min: 1, max: 8192 }), (width, height) => {
        const turned = config(height, width)[0]!.split(':').reverse().join(':')
        // 21:9 has no counterpart.
        if (!turned.includes('21') && !config(width, height)[0]!.includes('21'))
          expect(config(width, height)[0]).toBe(turned)
      }),
    )
  })

  test('other options are losses, and several images in a stream are refused', () => {
    const options = { quality: 'high', background: 'opaque', output_format: 'jpeg', output_compression: 3, n: 2 }
    expect(imageOptions(options).losses).toEqual(
      ['quality', 'background', 'output_format', 'output_compression'].map((path) => ({
        code: 'unsupported_field',
        path,
        effect: 'dropped',
        reason: 'the target protocol has no such field',
      })),
    )
    expect(() => imageOptions({ stream: true, n: 2 })).toThrow(/^n: must be 1 in a stream/)
    expect(imageOptions({ stream: true })).toEqual({ image: undefined, losses: [] })
  })
})

describe('a conversation as a request of the images API', () => {
  const target: Target = { provider: 'p', model: 'painter', quirks: {}, capabilities: { api: 'images' } }
  const requestOf = (more: Partial<GenerationRequest>): GenerationRequest => ({
    model: 'a/b',
    system: [],
    turns: [],
    tools: [],
    sampling: {},
    stream: false,
    protocol: 'chat.completions',
    extras: {},
    ...more,
  })

  test('has the text of the last user turn; everything else is lost', () => {
    const request = requestOf({
      system: [{ type: 'text', text: 'Be kind', path: 'messages[0].content' }],
      sampling: { temperature: 1 },
      maxOutputTokens: 5,
      reasoning: { effort: 'low' },
      tools: [{ type: 'function', name: 'f', path: 'tools[0]' }],
      user: 'u',
      turns: [
        { role: 'user', parts: [{ type: 'text', text: 'A cat', path: 'messages[1].content' }] },
        { role: 'assistant', parts: [{ type: 'text', text: 'Which?', path: 'messages[2].content' }] },
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'A red one', path: 'messages[3].content[0]' },
            { type: 'image', source: { type: 'url', url: 'https://h/x.png' }, path: 'messages[3].content[1]' },
            { type: 'text', text: 'in the rain', path: 'messages[3].content[2]' },
          ],
        },
      ],
    })
    const json = { temperature: 1, max_tokens: 5, reasoning_effort: 'low' }
    const { body, losses } = written('images', request, target, json)
    expect(body).toEqual({ model: 'painter', prompt: 'A red one\nin the rain', response_format: 'b64_json', user: 'u' })
    expect(losses.map(({ code, path }) => `${code} ${path}`)).toEqual([
      'content_dropped messages[0].content',
      'content_dropped messages[1].content',
      'content_dropped messages[2].content',
      'content_dropped messages[3].content[1]',
      'tool_native tools[0]',
      'unsupported_field temperature',
      'unsupported_field max_tokens',
      'unsupported_field reasoning_effort',
    ])
  })

  test('has the image options, and response_format unless the model refuses it', () => {
    const turns: GenerationRequest['turns'] = [{ role: 'user', parts: [{ type: 'text', text: 'A cat' }] }]
    const imageOutput = {
      count: 2,
      size: { width: 1, height: 2 },
      quality: 'low',
      background: 'auto',
      format: 'jpeg',
      compression: 0,
    } as const
    // The image tool of the responses API is carried, not lost.
    const tools: GenerationRequest['tools'] = [
      { type: 'native', protocol: 'responses', kind: 'image_generation', value: { type: 'image_generation' } },
    ]
    const { body, losses } = written('images', requestOf({ turns, imageOutput, tools, stream: true }), {
      ...target,
      capabilities: { base64Only: true },
    })
    expect(losses).toEqual([])
    expect(body).toEqual({
      model: 'painter',
      prompt: 'A cat',
      n: 2,
      size: '1x2',
      quality: 'low',
      background: 'auto',
      output_format: 'jpeg',
      output_compression: 0,
      stream: true,
    })
  })

  test('without text is refused with the path in the client request', () => {
    expect(() => written('images', requestOf({ protocol: 'responses' }), target)).toThrow(
      /^input: must have at least one message with content/,
    )
  })
})
