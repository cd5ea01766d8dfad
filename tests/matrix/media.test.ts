import { prepared } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { asked } from '../recorded/asked.ts'
import { judge } from '../recorded/judge.ts'
import type { Any } from '../recorded/said.ts'

/** Images, audio, video and files of each client at each provider: carried, reported, or refused with their path. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const judges = new Map(NAMES.map((name) => [name, judge(name)]))

/** Every character of base64, and its padding. */
const DATA = Buffer.from(Array.from({ length: 61 }, (_, i) => (i * 61 + 251) % 256)).toString('base64')
const CSV = Buffer.from('a,b\n1,2\n').toString('base64')
const ADDRESS = 'https://media.example/a-thing_1'
const dataUrl = (type: string, data = DATA): string => `data:${type};base64,${data}`

const image = (url: string, detail?: string) => ({
  type: 'image_url',
  image_url: { url, ...(detail === undefined ? {} : { detail }) },
})
const inputImage = (image_url: string, detail?: string) => ({
  type: 'input_image',
  image_url,
  ...(detail === undefined ? {} : { detail }),
})
const block = (type: string, source: object, more: object = {}) => ({ type, source, ...more })
const base64 = (media_type: string, data = DATA) => ({ type: 'base64', media_type, data })
const inline = (mimeType: string, more: object = {}, data = DATA) => ({ inlineData: { mimeType, data, ...more } })

type Parts = (object | undefined)[]
/** For each provider in the order of NAMES, unless the medium is carried: the refused path, or the text of a loss. */
type Fates = (RegExp | undefined)[]

const MEDIA: [what: string, parts: Parts, fates: Fates][] = [
  [
    'an image',
    [
      image(dataUrl('image/png')),
      inputImage(dataUrl('image/png')),
      block('image', base64('image/png')),
      inline('image/png'),
    ],
    [],
  ],
  [
    'an image by URL',
    [
      image(ADDRESS),
      inputImage(ADDRESS),
      block('image', { type: 'url', url: ADDRESS }),
      { fileData: { mimeType: 'image/png', fileUri: ADDRESS } },
    ],
    [],
  ],
  [
    'an image with automatic detail',
    [image(dataUrl('image/png'), 'auto'), inputImage(dataUrl('image/png'), 'auto'), undefined, undefined],
    [],
  ],
  [
    'an image at high detail',
    [
      image(dataUrl('image/png'), 'high'),
      inputImage(dataUrl('image/png'), 'high'),
      undefined,
      { ...inline('image/png'), mediaResolution: { level: 'MEDIA_RESOLUTION_HIGH' } },
    ],
    [undefined, undefined, /detail|mediaResolution/, /detail/],
  ],
  [
    'an image with a name',
    [undefined, undefined, undefined, inline('image/png', { displayName: 'a.png' })],
    [/displayName/, /displayName/, /displayName/],
  ],
  [
    'an image of a type that Anthropic does not read',
    [image(dataUrl('image/heic')), inputImage(dataUrl('image/heic')), undefined, undefined],
    [undefined, undefined, /^400 .*(image_url\.url|image_url): an image of the type image\/heic/],
  ],
  [
    'a PDF',
    [
      { type: 'file', file: { filename: 'a.pdf', file_data: dataUrl('application/pdf') } },
      { type: 'input_file', filename: 'a.pdf', file_data: dataUrl('application/pdf') },
      block('document', base64('application/pdf'), { title: 'a.pdf' }),
      inline('application/pdf', { displayName: 'a.pdf' }),
    ],
    [undefined, undefined, undefined, /filename|title/],
  ],
  [
    'a PDF by URL',
    [
      undefined,
      { type: 'input_file', file_url: ADDRESS },
      block('document', { type: 'url', url: ADDRESS }),
      { fileData: { mimeType: 'application/pdf', fileUri: ADDRESS } },
    ],
    [],
  ],
  [
    'a PDF without its type',
    [
      { type: 'file', file: { filename: 'a.pdf', file_data: DATA } },
      { type: 'input_file', filename: 'a.pdf', file_data: DATA },
      undefined,
      undefined,
    ],
    [undefined, undefined, undefined, /filename/],
  ],
  [
    'a CSV file',
    [
      { type: 'file', file: { filename: 'a.csv', file_data: `data:text/csv;charset=utf-8;base64,${CSV}` } },
      { type: 'input_file', filename: 'a.csv', file_data: dataUrl('text/csv', CSV) },
      undefined,
      undefined,
    ],
    [/content|input/, undefined, undefined, /filename/],
  ],
  [
    'a file of an unknown type',
    [
      { type: 'file', file: { filename: 'a.xyz', file_data: dataUrl('application/x-xyz') } },
      { type: 'input_file', filename: 'a.xyz', file_data: dataUrl('application/x-xyz') },
      undefined,
      undefined,
    ],
    [undefined, undefined, /^400 .*file_data: a file of the type application\/x-xyz/, /filename/],
  ],
  [
    'sound',
    [{ type: 'input_audio', input_audio: { data: DATA, format: 'wav' } }, undefined, undefined, inline('audio/wav')],
    [
      undefined,
      undefined,
      /^400 (messages\[0\]\.content\[1\]\.input_audio\.data|contents\[0\]\.parts\[1\]\.inlineData\.data): audio/,
    ],
  ],
  [
    'a video',
    [{ type: 'video_url', video_url: { url: dataUrl('video/mp4') } }, undefined, undefined, inline('video/mp4')],
    [/^400 .*data: video/, /^400 .*(data|url): video/, /^400 .*(data|url): video/],
  ],
  [
    'a video by URL',
    [
      { type: 'video_url', video_url: { url: ADDRESS } },
      undefined,
      undefined,
      { fileData: { mimeType: 'video/mp4', fileUri: ADDRESS } },
    ],
    [/^400 .*fileUri: video/, /^400 .*(fileUri|url): video/, /^400 .*(fileUri|url): video/],
  ],
]

/** OpenAI's documentation has no audio in the input of responses; compatible servers accept it. */
const UNDOCUMENTED = new Set(['sound responses'])

const bodyWith = (client: ConversationName, part: object): Any =>
  ({
    'chat.completions': { model: 'a/b', messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, part] }] },
    responses: { model: 'a/b', input: [{ role: 'user', content: [{ type: 'input_text', text: 'hi' }, part] }] },
    messages: {
      model: 'a/b',
      max_tokens: 9,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, part] }],
    },
    generateContent: { contents: [{ role: 'user', parts: [{ text: 'hi' }, part] }] },
  })[client]

function exchangeOf(client: ConversationName, body: Any): TranslationContext {
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000 },
  }
}

/** The sent body and its losses. */
function sentTo(provider: ConversationName, context: TranslationContext): { body: Any; told: string[] } {
  const endpoint = {
    protocol: provider,
    baseUrl: '',
    target: { provider: 'p', model: 'm', quirks: {}, capabilities: { maxOutputTokens: 9 } },
    provider: {},
    credentials: {},
  } as unknown as Endpoint
  const { body, losses } = prepared(endpoint, context)
  return {
    body: JSON.parse(body) as Any,
    told: losses
      .filter(({ path }) => !/max_?(completion_|output_)?tokens/i.test(path))
      .map(({ path, effect, reason }) => `${effect} ${path}: ${reason}`),
  }
}

const failureOf = (run: () => unknown): string => {
  try {
    run()
    return ''
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const { status, param, message } = error as GatewayError
    expect(message.startsWith(`${param}: `)).toBe(true)
    return `${status} ${message}`
  }
}

for (const [index, client] of NAMES.entries())
  describe(client, () => {
    for (const [what, parts, fates] of MEDIA)
      for (const [at, provider] of NAMES.entries()) {
        const part = parts[index]
        if (part === undefined || client === provider) continue
        test(`carries, reports or refuses ${what} to ${provider}`, () => {
          const body = bodyWith(client, part)
          const context = exchangeOf(client, body)
          const fate = fates[at]
          if (fate?.source.startsWith('^400')) return expect(failureOf(() => sentTo(provider, context))).toMatch(fate)
          const { body: sent, told } = sentTo(provider, context)
          // The text of a file that is sent as text is unchanged.
          const dataIn = (json: unknown): string | undefined =>
            [DATA, ADDRESS, CSV, 'a,b\\n1,2'].find((one) => JSON.stringify(json).includes(one))
          const data = dataIn(sent)
          const original = dataIn(body)!
          expect(original === CSV ? [CSV, 'a,b\\n1,2'] : [original]).toContain(data!)
          if (fate === undefined) expect(told).toEqual([])
          else
            expect(
              told.some((one) => fate.test(one)),
              told.join(),
            ).toBe(true)
          if (data === DATA) expect(asked(provider, sent).media).toBe(asked(client, body).media)
          if (!UNDOCUMENTED.has(`${what} ${provider}`)) expect(judges.get(provider)!('request', sent)).toBe('')
        })
      }
  })

describe('an invalid medium is refused with its path', () => {
  const BAD: [what: string, client: ConversationName, part: object, path: string][] = [
    ['empty data', 'chat.completions', image('data:image/png;base64,'), 'messages[0].content[1].image_url.url'],
    ['empty data', 'responses', inputImage('data:image/png;base64,'), 'input[0].content[1].image_url'],
    ['empty data', 'messages', block('image', base64('image/png', '')), 'messages[0].content[1].source.data'],
    ['empty data', 'generateContent', inline('image/png', {}, ''), 'contents[0].parts[1].inlineData.data'],
    [
      'data that is not in base64',
      'chat.completions',
      image('data:image/svg+xml,%3Csvg%3E'),
      'messages[0].content[1].image_url.url',
    ],
    [
      'data that is not in base64',
      'responses',
      inputImage('data:image/svg+xml;utf8,<svg>'),
      'input[0].content[1].image_url',
    ],
    [
      'percent-encoded base64',
      'chat.completions',
      image(`data:image/png;base64,${encodeURIComponent(DATA)}`),
      'messages[0].content[1].image_url.url',
    ],
    ['data without a type', 'chat.completions', image(`data:;base64,${DATA}`), 'messages[0].content[1].image_url.url'],
    [
      'a type that Google does not list',
      'generateContent',
      inline('application/x-xyz'),
      'contents[0].parts[1].inlineData.mimeType',
    ],
    [
      'a file without data and id',
      'chat.completions',
      { type: 'file', file: { filename: 'a' } },
      'messages[0].content[1].file',
    ],
  ]
  test.each(BAD)('%s of %s', (_, client, part, path) => {
    expect(failureOf(() => exchangeOf(client, bodyWith(client, part)))).toMatch(
      new RegExp(`^400 ${path.replaceAll(/[[\].]/g, '\\$&')}: `),
    )
  })

  test('parameters of a data URL are not part of the media type', () => {
    const { request } = exchangeOf(
      'chat.completions',
      bodyWith('chat.completions', image(`DATA:Image/PNG;name=a.png;base64,${DATA}`)),
    )
    expect(request.turns[0]!.parts[1]).toEqual({
      type: 'image',
      source: { type: 'data', mediaType: 'image/png', data: DATA },
    })
  })

  test.each(['chat.completions', 'messages'] as const)(
    'media in instructions are refused or reported for %s',
    (client) => {
      const part = client === 'messages' ? block('image', base64('image/png')) : image(dataUrl('image/png'))
      const body =
        client === 'messages'
          ? { ...bodyWith(client, { type: 'text', text: 'hi' }), system: [{ type: 'text', text: 'be kind' }, part] }
          : {
              model: 'a/b',
              messages: [
                { role: 'system', content: [part] },
                { role: 'user', content: 'hi' },
              ],
            }
      if (client === 'chat.completions')
        return expect(failureOf(() => exchangeOf(client, body))).toMatch(/^400 messages\[0\]\.content\[0\]\.type: /)
      const { body: sent, told } = sentTo('generateContent', exchangeOf(client, body))
      expect(JSON.stringify(sent)).not.toContain(DATA)
      expect(
        told.some((one) => /^left out system/.test(one)),
        told.join(),
      ).toBe(true)
    },
  )
})

/** A generated image in an earlier turn. */
const MADE: Record<ConversationName, Any> = {
  'chat.completions': {
    model: 'a/b',
    messages: [
      { role: 'user', content: 'draw' },
      { role: 'assistant', content: 'here', images: [image(dataUrl('image/png'))] },
      { role: 'user', content: 'more' },
    ],
  },
  responses: {
    model: 'a/b',
    input: [
      { role: 'user', content: 'draw' },
      { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: DATA },
      { role: 'user', content: 'more' },
    ],
  },
  messages: {
    model: 'a/b',
    max_tokens: 9,
    messages: [
      { role: 'user', content: 'draw' },
      { role: 'assistant', content: [{ type: 'text', text: 'here' }, block('image', base64('image/png'))] },
      { role: 'user', content: 'more' },
    ],
  },
  generateContent: {
    contents: [
      { role: 'user', parts: [{ text: 'draw' }] },
      { role: 'model', parts: [{ text: 'here' }, inline('image/png')] },
      { role: 'user', parts: [{ text: 'more' }] },
    ],
  },
}

describe('a generated image of an earlier turn', () => {
  for (const client of NAMES)
    for (const provider of NAMES)
      if (client !== provider)
        test(`is carried or reported, ${client} -> ${provider}`, () => {
          const { body, told } = sentTo(provider, exchangeOf(client, MADE[client]))
          expect(JSON.stringify(body).includes(DATA)).toBe(provider === 'responses' || provider === 'generateContent')
          expect(told.map((one) => one.split(' ')[0])).toEqual(
            { 'chat.completions': ['left'], responses: ['approximated'], messages: ['left'], generateContent: [] }[
              provider
            ],
          )
          expect(judges.get(provider)!('request', body)).toBe('')
        })
})
