import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { LossCode } from '../../src/protocols/loss-codes.ts'
import { requestContent } from '../recorded/request-content.ts'
import { schemaValidator } from '../recorded/vendor-schemas.ts'
import type { Any } from '../recorded/response-content.ts'
import {
  MEDIA_URL,
  base64,
  block,
  bodyWith,
  CSV,
  DATA,
  dataUrl,
  refusalOf,
  image,
  inline,
  inputImage,
  sentTo,
  type ReportedLoss,
} from './media-requests.ts'
import { NAMES, others } from './routes.ts'

/**
 * Images, audio, video and files of each client, sent to each provider: carried as they are, carried with a loss, or
 * refused with their path.
 */

const validators = new Map(NAMES.map((name) => [name, schemaValidator(name)]))

/** In the order of NAMES: the part of each client, absent if its protocol has none. */
type Parts = (object | undefined)[]

/** `field`: of the part, at which each client's loss is reported. `refused`: the text of the error. */
type Outcome = { code: LossCode; field: Partial<Record<ConversationName, string>> } | { refused: string }

/** Outcomes other than being carried as it is, by provider. */
type Outcomes = Partial<Record<ConversationName, Outcome>>

const filename: Outcome = {
  code: 'unsupported_field',
  field: { 'chat.completions': '.file.filename', responses: '.filename', messages: '.title' },
}
const detail = (code: LossCode): Outcome => ({
  code,
  field: { 'chat.completions': '.image_url.detail', responses: '.detail', generateContent: '.mediaResolution' },
})
const displayName: Outcome = { code: 'unsupported_field', field: { generateContent: '.inlineData.displayName' } }
const refused = (what: string): Outcome => ({ refused: `${what} cannot be sent to the provider of this model` })

const MEDIA: [what: string, parts: Parts, outcomes: Outcomes][] = [
  [
    'an image',
    [
      image(dataUrl('image/png')),
      inputImage(dataUrl('image/png')),
      block('image', base64('image/png')),
      inline('image/png'),
    ],
    {},
  ],
  [
    'an image by its URL',
    [
      image(MEDIA_URL),
      inputImage(MEDIA_URL),
      block('image', { type: 'url', url: MEDIA_URL }),
      { fileData: { mimeType: 'image/png', fileUri: MEDIA_URL } },
    ],
    {},
  ],
  [
    'an image of automatic detail',
    [image(dataUrl('image/png'), 'auto'), inputImage(dataUrl('image/png'), 'auto'), undefined, undefined],
    {},
  ],
  [
    'an image of high detail',
    [
      image(dataUrl('image/png'), 'high'),
      inputImage(dataUrl('image/png'), 'high'),
      undefined,
      { ...inline('image/png'), mediaResolution: { level: 'MEDIA_RESOLUTION_HIGH' } },
    ],
    { messages: detail('unsupported_field'), generateContent: detail('unsupported_by_model') },
  ],
  [
    'an image with a name',
    [undefined, undefined, undefined, inline('image/png', { displayName: 'a.png' })],
    { 'chat.completions': displayName, responses: displayName, messages: displayName },
  ],
  [
    'an image of a type that Anthropic does not accept',
    [image(dataUrl('image/heic')), inputImage(dataUrl('image/heic')), undefined, undefined],
    { messages: refused('an image of the type image/heic') },
  ],
  [
    'a PDF',
    [
      { type: 'file', file: { filename: 'a.pdf', file_data: dataUrl('application/pdf') } },
      { type: 'input_file', filename: 'a.pdf', file_data: dataUrl('application/pdf') },
      block('document', base64('application/pdf'), { title: 'a.pdf' }),
      inline('application/pdf', { displayName: 'a.pdf' }),
    ],
    { generateContent: filename },
  ],
  [
    'a PDF by its URL',
    [
      undefined,
      { type: 'input_file', file_url: MEDIA_URL },
      block('document', { type: 'url', url: MEDIA_URL }),
      { fileData: { mimeType: 'application/pdf', fileUri: MEDIA_URL } },
    ],
    {},
  ],
  [
    'a PDF without its media type',
    [
      { type: 'file', file: { filename: 'a.pdf', file_data: DATA } },
      { type: 'input_file', filename: 'a.pdf', file_data: DATA },
      undefined,
      undefined,
    ],
    { generateContent: filename },
  ],
  [
    'a CSV file',
    [
      { type: 'file', file: { filename: 'a.csv', file_data: `data:text/csv;charset=utf-8;base64,${CSV}` } },
      { type: 'input_file', filename: 'a.csv', file_data: dataUrl('text/csv', CSV) },
      undefined,
      undefined,
    ],
    { 'chat.completions': { code: 'content_as_text', field: { responses: '' } }, generateContent: filename },
  ],
  [
    'a file of an unknown type',
    [
      { type: 'file', file: { filename: 'a.xyz', file_data: dataUrl('application/x-xyz') } },
      { type: 'input_file', filename: 'a.xyz', file_data: dataUrl('application/x-xyz') },
      undefined,
      undefined,
    ],
    { messages: refused('a file of the type application/x-xyz'), generateContent: filename },
  ],
  [
    'audio',
    [{ type: 'input_audio', input_audio: { data: DATA, format: 'wav' } }, undefined, undefined, inline('audio/wav')],
    { messages: refused('audio input') },
  ],
  [
    'a video',
    [
      { type: 'video_url', video_url: { url: dataUrl('video/mp4') } },
      { type: 'input_video', video_url: dataUrl('video/mp4') },
      undefined,
      inline('video/mp4'),
    ],
    {
      'chat.completions': refused('video input given as data'),
      responses: refused('video input'),
      messages: refused('video input'),
    },
  ],
  [
    'a video by its URL',
    [
      { type: 'video_url', video_url: { url: MEDIA_URL } },
      { type: 'input_video', video_url: MEDIA_URL },
      undefined,
      { fileData: { mimeType: 'video/mp4', fileUri: MEDIA_URL } },
    ],
    {
      'chat.completions': refused('video input given as a URL'),
      responses: refused('video input'),
      messages: refused('video input'),
    },
  ],
]

/** OpenAI's specification has no audio in a response's input; compatible servers accept it. */
const UNDOCUMENTED = new Set(['audio responses'])

const PART_PATH: Record<ConversationName, string> = {
  'chat.completions': 'messages[0].content[1]',
  responses: 'input[0].content[1]',
  messages: 'messages[0].content[1]',
  generateContent: 'contents[0].parts[1]',
}

const lossesOf = (
  client: ConversationName,
  outcome: Exclude<Outcome, { refused: string }> | undefined,
): ReportedLoss[] => {
  const field = outcome?.field[client]
  return outcome === undefined || field === undefined
    ? []
    : [{ code: outcome.code, path: `${PART_PATH[client]}${field}` }]
}

for (const [index, client] of NAMES.entries())
  describe(`media of a ${client} client`, () => {
    for (const [what, parts, outcomes] of MEDIA)
      for (const provider of NAMES) {
        const part = parts[index]
        if (part === undefined || client === provider) continue
        const outcome = outcomes[provider]
        const body = bodyWith(client, part)

        if (outcome !== undefined && 'refused' in outcome) {
          test(`${what} is refused with its path for ${provider}`, () => {
            expect(refusalOf(() => sentTo(provider, client, body))).toBe(`400 ${PART_PATH[client]}: ${outcome.refused}`)
          })
          continue
        }
        test(`${what} is carried to ${provider}`, () => {
          const { body: sent, losses } = sentTo(provider, client, body)
          // Text files that are sent as text are not in base64.
          const data = [DATA, MEDIA_URL, CSV, 'a,b\\n1,2'].find((one) => JSON.stringify(sent).includes(one))
          expect(data).toBeDefined()
          expect(losses).toEqual(lossesOf(client, outcome))
          if (data === DATA) expect(requestContent(provider, sent).media).toBe(requestContent(client, body).media)
          if (!UNDOCUMENTED.has(`${what} ${provider}`)) expect(validators.get(provider)!('request', sent)).toBe('')
        })
      }
  })

/** A conversation with an image that the model generated. */
const GENERATED: Record<ConversationName, Any> = {
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

const GENERATED_PATH: Record<ConversationName, string> = {
  'chat.completions': 'messages[1].images[0]',
  responses: 'input[1]',
  messages: 'messages[1].content[1]',
  generateContent: 'contents[1].parts[1]',
}

/** The loss of a generated image at each provider. */
const GENERATED_LOSS: Record<ConversationName, LossCode[]> = {
  'chat.completions': ['content_dropped'],
  responses: ['media_moved'],
  messages: ['content_dropped'],
  generateContent: [],
}

describe('an image that the model generated', () => {
  for (const client of NAMES)
    for (const provider of others(client))
      test(`of a ${client} client is sent to ${provider} or reported`, () => {
        const { body, losses } = sentTo(provider, client, GENERATED[client])
        expect(JSON.stringify(body).includes(DATA)).toBe(provider === 'responses' || provider === 'generateContent')
        expect(losses).toEqual(GENERATED_LOSS[provider].map((code) => ({ code, path: GENERATED_PATH[client] })))
        expect(validators.get(provider)!('request', body)).toBe('')
      })
})
