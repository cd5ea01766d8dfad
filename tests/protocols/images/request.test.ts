import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { imageConfigOf } from '../../../src/protocols/image-config.ts'
import { images } from '../../../src/protocols/images/index.ts'
import type { Loss, Target } from '../../../src/protocols/protocol.ts'

/** Requests of the images API from clients, and what conversations are told of them. */

type Json = Record<string, unknown>

const read = (body: Json): GenerationRequest =>
  images.serve.readRequest({
    body: { model: 'a/b', prompt: 'A lighthouse', ...body },
    text: '',
    headers: new Headers(),
  })
const refusal = (body: Json): { param: string | undefined; message: string } => {
  try {
    read(body)
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) return { param: error.param, message: error.message }
    throw error
  }
  throw new Error(`${JSON.stringify(body)} was taken`)
}

describe('a request', () => {
  test('is one turn with the prompt, and wishes for its images', () => {
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
      turns: [{ role: 'user', parts: [{ type: 'text', text: 'A lighthouse' }] }],
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

  test('says little where its client does, and null is nothing', () => {
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

  const SIZE = /^size: must be 'auto' or <width>x<height> in pixels, like 1024x1024, with no side above 8192: not '/
  test.each<[string, Json, string, RegExp]>([
    ['no model', { model: null }, 'model', /required/],
    ['a model that is no text', { model: 5 }, 'model', /must be a string, not a number/],
    ['no prompt', { prompt: null }, 'prompt', /required: a text that describes the image/],
    ['an empty prompt', { prompt: ' \n' }, 'prompt', /must not be empty/],
    ['prompts', { prompt: ['a'] }, 'prompt', /must be a string, not an array/],
    ['n of 0', { n: 0 }, 'n', /must be 1 to 10, not 0/],
    ['n of 11', { n: 11 }, 'n', /must be 1 to 10, not 11/],
    ['n of a half', { n: 1.5 }, 'n', /whole number/],
    ['n as text', { n: '2' }, 'n', /must be a number, not a string/],
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
    ['a size in numbers', { size: 1024 }, 'size', /must be a string/],
    ['another form', { response_format: 'png' }, 'response_format', /must be one of 'url', 'b64_json', not 'png'/],
    ['a form as an object', { response_format: { type: 'url' } }, 'response_format', /must be a string/],
    ['another background', { background: 'red' }, 'background', /one of/],
    ['another format', { output_format: 'gif' }, 'output_format', /must be one of 'png', 'jpeg', 'webp'/],
    ['too much compression', { output_compression: 101 }, 'output_compression', /0 to 100/],
    ['a quality in numbers', { quality: 1 }, 'quality', /string/],
    ['a style of a list', { style: [] }, 'style', /string/],
    ['moderation of an object', { moderation: {} }, 'moderation', /string/],
    ['too many pieces', { partial_images: 4 }, 'partial_images', /0 to 3/],
    ['a stream as text', { stream: 'yes' }, 'stream', /true or false/],
    [
      'addresses in a stream',
      { stream: true, response_format: 'url' },
      'response_format',
      /must be 'b64_json' or absent in a stream/,
    ],
  ])('is refused with %s', (_, body, param, message) => {
    const { message: said, param: at } = refusal(body)
    expect([at, said]).toEqual([param, expect.stringMatching(message)])
  })

  test('of any kind is taken or refused, never worse', () => {
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
      fc.property(body, (any) => {
        try {
          const { imageOutput } = read(any as Json)
          expect(imageOutput!.count).toBeWithin(1, 11)
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('is refused for a model that is known to make no images', () => {
    const check = (...output: ('text' | 'image')[][]): void =>
      images.serve.checkModel!(
        read({}),
        output.map((kinds) => ({ output: kinds })),
      )
    expect(() => check(['text'])).toThrow(/^model: must be a model that makes images: a\/b makes text/)
    check(['text'], ['text', 'image'])
    check(['image'])
    images.serve.checkModel!(read({}), [{}])
  })
})

describe('a size in the words of a conversation', () => {
  const config = (width: number, height: number): [string | undefined, string | undefined, string | undefined] => {
    const losses: Loss[] = []
    const written = imageConfigOf(read({ size: `${width}x${height}` }), losses)
    return [written?.aspectRatio, written?.imageSize, losses[0]?.why]
  }
  test.each([
    [1024, 1024, '1:1', undefined, undefined],
    [2048, 2048, '1:1', '2K', undefined],
    [4096, 4096, '1:1', '4K', undefined],
    [1536, 1024, '3:2', undefined, 'as 3:2 in 1K: the provider takes ratios, not pixels'],
    [1024, 1536, '2:3', undefined, 'as 2:3 in 1K: the provider takes ratios, not pixels'],
    [1920, 1080, '16:9', undefined, 'as 16:9 in 1K: the provider takes ratios, not pixels'],
    [3840, 2160, '16:9', '2K', 'as 16:9 in 2K: the provider takes ratios, not pixels'],
    [256, 256, '1:1', undefined, 'as 1:1 in 1K: the provider takes ratios, not pixels'],
    [8192, 1, '21:9', undefined, 'as 21:9 in 1K: the provider takes ratios, not pixels'],
  ])('%dx%d', (width, height, ratio, size, why) => expect(config(width, height)).toEqual([ratio, size, why] as never))

  test('is the nearest ratio, turned where the size is turned', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8192 }), fc.integer({ min: 1, max: 8192 }), (width, height) => {
        const turned = config(height, width)[0]!.split(':').reverse().join(':')
        // 21:9 has no counterpart.
        if (!turned.includes('21') && !config(width, height)[0]!.includes('21'))
          expect(config(width, height)[0]).toBe(turned)
      }),
    )
  })

  test('other wishes are told as lost, and several images in a stream refused', () => {
    const losses: Loss[] = []
    imageConfigOf(
      read({ quality: 'high', background: 'opaque', output_format: 'jpeg', output_compression: 3, n: 2 }),
      losses,
    )
    expect(losses.map(({ field, what }) => `${field} ${what}`)).toEqual([
      'imageOutput.quality left out',
      'imageOutput.background left out',
      'imageOutput.format left out',
      'imageOutput.compression left out',
    ])
    expect(() => imageConfigOf(read({ stream: true, n: 2 }), [])).toThrow(/^n: must be 1 in a stream/)
    expect(imageConfigOf(read({ stream: true }), [])).toBeUndefined()
  })
})

describe('a conversation as a prompt', () => {
  const target: Target = { provider: 'p', model: 'painter', quirks: {}, capabilities: { api: 'images' } }
  const asked = (more: Partial<GenerationRequest>): GenerationRequest => ({
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

  test('is the text of the last user turn; what else was said is told as lost', () => {
    const request = asked({
      system: [{ type: 'text', text: 'Be kind' }],
      sampling: { temperature: 1 },
      maxOutputTokens: 5,
      reasoning: { effort: 'low' },
      tools: [{ type: 'function', name: 'f' }],
      user: 'u',
      turns: [
        { role: 'user', parts: [{ type: 'text', text: 'A cat' }] },
        { role: 'assistant', parts: [{ type: 'text', text: 'Which?' }] },
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'A red one' },
            { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
            { type: 'text', text: 'in the rain' },
          ],
        },
      ],
    })
    const { body, losses } = images.call.writeRequest(request, target)
    expect(body).toEqual({ model: 'painter', prompt: 'A red one\nin the rain', response_format: 'b64_json', user: 'u' })
    expect(losses.map(({ field }) => field)).toEqual([
      'system',
      'conversation',
      'part',
      'tool',
      'temperature',
      'maxOutputTokens',
      'reasoning',
    ])
  })

  test('carries the wishes for its image, and asks a model for base64 that lets itself be asked', () => {
    const turns: GenerationRequest['turns'] = [{ role: 'user', parts: [{ type: 'text', text: 'A cat' }] }]
    const imageOutput = {
      count: 2,
      size: { width: 1, height: 2 },
      quality: 'low',
      background: 'auto',
      format: 'jpeg',
      compression: 0,
    } as const
    // The tool that responses asks for images with is no tool that is lost.
    const tools: GenerationRequest['tools'] = [
      { type: 'native', protocol: 'responses', kind: 'image_generation', value: { type: 'image_generation' } },
    ]
    const { body, losses } = images.call.writeRequest(asked({ turns, imageOutput, tools, stream: true }), {
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

  test('without a text is refused under the name that the client knows', () => {
    expect(() => images.call.writeRequest(asked({ protocol: 'responses' }), target)).toThrow(
      /^input: must hold at least one message/,
    )
  })
})
