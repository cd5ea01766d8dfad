import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { withoutPaths } from '../translating.ts'
import {
  base64,
  block,
  bodyWith,
  DATA,
  dataUrl,
  refusalOf,
  image,
  inline,
  inputImage,
  sentTo,
} from './media-requests.ts'
import { contextOf, send } from './routes.ts'

/** Media that only a client's protocol might accept: translations refuse each with its path, or report a loss. */

describe('invalid media', () => {
  const BAD: [what: string, client: ConversationName, part: object, path: string][] = [
    ['empty data', 'chat.completions', image('data:image/png;base64,'), 'messages[0].content[1].image_url.url'],
    ['empty data', 'responses', inputImage('data:image/png;base64,'), 'input[0].content[1].image_url'],
    ['empty data', 'messages', block('image', base64('image/png', '')), 'messages[0].content[1].source.data'],
    ['empty data', 'generateContent', inline('image/png', {}, ''), 'contents[0].parts[1].inlineData.data'],
    [
      'data that is not base64',
      'chat.completions',
      image('data:image/svg+xml,%3Csvg%3E'),
      'messages[0].content[1].image_url.url',
    ],
    [
      'data that is not base64',
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
    [
      'data without a media type',
      'chat.completions',
      image(`data:;base64,${DATA}`),
      'messages[0].content[1].image_url.url',
    ],
    [
      'a file without data and without an id',
      'chat.completions',
      { type: 'file', file: { filename: 'a' } },
      'messages[0].content[1].file',
    ],
  ]
  test.each(BAD)('%s of a %s client is refused with its path', (_, client, part, path) => {
    const provider = client === 'messages' ? 'responses' : 'messages'
    expect(refusalOf(() => send(client, provider, bodyWith(client, part)))).toMatch(
      new RegExp(`^400 ${path.replaceAll(/[[\].]/g, '\\$&')}: `),
    )
  })

  test('the parameters of a data URL are not part of the media type', () => {
    const { request } = contextOf(
      'chat.completions',
      bodyWith('chat.completions', image(`DATA:Image/PNG;name=a.png;base64,${DATA}`)),
    )
    expect(withoutPaths(request.turns[0]!.parts[1])).toEqual({
      type: 'image',
      source: { type: 'data', mediaType: 'image/png', data: DATA },
    })
  })

  test('an image in a system message of a chat.completions client is refused', () => {
    const body = {
      model: 'a/b',
      messages: [
        { role: 'system', content: [image(dataUrl('image/png'))] },
        { role: 'user', content: 'hi' },
      ],
    }
    expect(refusalOf(() => send('chat.completions', 'messages', body))).toMatch(
      /^400 messages\[0\]\.content\[0\]\.type: /,
    )
  })

  test('an image in the system blocks of a messages client is dropped with a loss', () => {
    const system = [{ type: 'text', text: 'be kind' }, block('image', base64('image/png'))]
    const body = { ...bodyWith('messages', { type: 'text', text: 'hi' }), system }
    const { body: sent, losses } = sentTo('generateContent', 'messages', body)
    expect(JSON.stringify(sent)).not.toContain(DATA)
    expect(losses).toEqual([{ code: 'content_dropped', path: 'system[1]' }])
  })
})
