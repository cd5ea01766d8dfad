import { prepared } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { requestContent } from '../recorded/request-content.ts'
import { schemaValidator } from '../recorded/vendor-schemas.ts'
import type { Any } from '../recorded/response-content.ts'

/**
 * Images, sound, films and files of each client on their way to each provider: carried as they are, told, or refused
 * with the path of what cannot go.
 */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const judges = new Map(NAMES.map((name) => [name, schemaValidator(name)]))

/** Every sign of base64 and its end. */
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
/**
 * What becomes of it at each provider in the order of NAMES, where that is not simply to be carried: a refused path, or
 * words of losses.
 */
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
    'an image by its address',
    [
      image(ADDRESS),
      inputImage(ADDRESS),
      block('image', { type: 'url', url: ADDRESS }),
      { fileData: { mimeType: 'image/png', fileUri: ADDRESS } },
    ],
    [],
  ],
  [
    'an image at whatever detail',
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
    'a PDF by its address',
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
    'a table',
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
    'a film',
    [{ type: 'video_url', video_url: { url: dataUrl('video/mp4') } }, undefined, undefined, inline('video/mp4')],
    [/^400 .*data: video/, /^400 .*(data|url): video/, /^400 .*(data|url): video/],
  ],
  [
    'a film by its address',
    [
      { type: 'video_url', video_url: { url: ADDRESS } },
      undefined,
      undefined,
      { fileData: { mimeType: 'video/mp4', fileUri: ADDRESS } },
    ],
    [/^400 .*fileUri: video/, /^400 .*(fileUri|url): video/, /^400 .*(fileUri|url): video/],
  ],
]

/** OpenAI's document has no sound in a response's input; compatible servers take it. */
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

/** What is sent, and what is told of it. */
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
        test(`${what} to ${provider}`, () => {
          const body = bodyWith(client, part)
          const context = exchangeOf(client, body)
          const fate = fates[at]
          if (fate?.source.startsWith('^400')) return expect(failureOf(() => sentTo(provider, context))).toMatch(fate)
          const { body: sent, told } = sentTo(provider, context)
          // Text of a file that goes as text stands there as it is.
          const data = [DATA, ADDRESS, CSV, 'a,b\\n1,2'].find((one) => JSON.stringify(sent).includes(one))
          expect(data).toBeDefined()
          if (fate === undefined) expect(told).toEqual([])
          else
            expect(
              told.some((one) => fate.test(one)),
              told.join(),
            ).toBe(true)
          if (data === DATA) expect(requestContent(provider, sent).media).toBe(requestContent(client, body).media)
          if (!UNDOCUMENTED.has(`${what} ${provider}`)) expect(judges.get(provider)!('request', sent)).toBe('')
        })
      }
  })

describe('what is no medium is refused where it stands', () => {
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
      'base64 in the escapes of addresses',
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
      'a file that is neither data nor named',
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

  test('parameters of a data URL are no part of the type', () => {
    const { request } = exchangeOf(
      'chat.completions',
      bodyWith('chat.completions', image(`DATA:Image/PNG;name=a.png;base64,${DATA}`)),
    )
    expect(request.turns[0]!.parts[1]).toEqual({
      type: 'image',
      source: { type: 'data', mediaType: 'image/png', data: DATA },
    })
  })

  test.each(['chat.completions', 'messages'] as const)('no medium stands in instructions of %s', (client) => {
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
  })
})

/** An image that the model made, in the turn after which the user wants another. */
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

describe('an image that the model made', () => {
  for (const client of NAMES)
    for (const provider of NAMES)
      if (client !== provider)
        test(`${client} to ${provider}`, () => {
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
