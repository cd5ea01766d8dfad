import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import { readToTranslate } from '../translating.ts'
import { checkBase64, readDataUrl } from '../../src/protocols/media.ts'

/** Base64 and data URLs in requests. */

const problemOf = (work: () => unknown): string => {
  try {
    work()
    return 'accepted'
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) return error.message
    throw error
  }
}

describe('base64', () => {
  test('is accepted in both alphabets, with and without padding, and over several lines', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), (bytes) => {
        const text = Buffer.from(bytes).toString('base64')
        for (const form of [
          text,
          text.replaceAll('=', ''),
          Buffer.from(bytes).toString('base64url'),
          text.replace(/(.{4})/g, '$1\r\n'),
        ])
          expect(checkBase64(form, 'x')).toBe(form)
      }),
    )
  })

  test('is refused with its path if it is anything else', () => {
    for (const wrong of [
      '',
      'A',
      'AAAAA',
      'A===',
      'AA=A',
      'AAAA!',
      'data:image/png;base64,AAAA',
      '<html>',
      'AAA\u00a0A',
      'ÄÄÄÄ',
    ])
      expect(problemOf(() => checkBase64(wrong, 'the.path'))).toStartWith('the.path: must ')
  })

  test('is checked in linear time, whatever its end', () => {
    const before = performance.now()
    for (const filler of [' ', '=', 'A', '\n'])
      expect(problemOf(() => checkBase64(`AAAA${filler.repeat(4_000_000)}!`, 'x'))).toStartWith('x: must')
    // A pattern that backtracks at each character would take hours.
    expect(performance.now() - before).toBeLessThan(20_000)
  })
})

test('a data URL has a media type and base64', () => {
  expect(readDataUrl('DATA:Image/PNG;charset=x;BASE64,AAAA', 'x')).toEqual({ mediaType: 'image/png', data: 'AAAA' })
  for (const wrong of [
    'data:',
    'data:,',
    'data:image/png,AAAA',
    'data:;base64,AAAA',
    'data:png;base64,AAAA',
    'data:image/png;base64',
    'data:image/png;base64,',
    'data:data:image/png;base64,AAAA',
    'data:image/png;base64,data:image/png;base64,AAAA',
    'https://a/b,c',
  ]) {
    expect(problemOf(() => readDataUrl(wrong, 'p'))).toStartWith('p: must ')
  }
})

/** A body for each position of inline media. `isPlainBase64`: the field has base64 without `data:`. */
const POSITIONS: {
  protocol: ProtocolName
  path: string
  isPlainBase64?: true
  body: (data: string) => Record<string, unknown>
}[] = [
  {
    protocol: 'chat.completions',
    path: 'messages[0].content[0].image_url.url',
    body: (url) => ({
      model: 'm',
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    }),
  },
  {
    protocol: 'chat.completions',
    path: 'messages[0].content[0].file.file_data',
    body: (file_data) => ({
      model: 'm',
      messages: [{ role: 'user', content: [{ type: 'file', file: { file_data } }] }],
    }),
  },
  {
    protocol: 'responses',
    path: 'input[0].content[0].image_url',
    body: (image_url) => ({ model: 'm', input: [{ role: 'user', content: [{ type: 'input_image', image_url }] }] }),
  },
  {
    protocol: 'responses',
    path: 'input[0].content[0].file_data',
    body: (file_data) => ({ model: 'm', input: [{ role: 'user', content: [{ type: 'input_file', file_data }] }] }),
  },
  {
    protocol: 'messages',
    path: 'messages[0].content[0].source.data',
    isPlainBase64: true,
    body: (data) => ({
      model: 'm',
      max_tokens: 1,
      messages: [
        { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }] },
      ],
    }),
  },
  {
    protocol: 'generateContent',
    path: 'contents[0].parts[0].inlineData.data',
    isPlainBase64: true,
    body: (data) => ({ contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data } }] }] }),
  },
]

const HTML = Buffer.from('<html><script>alert(1)</script>').toString('base64')
const PNG = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1').toString('base64')

for (const { protocol, path, isPlainBase64, body } of POSITIONS) {
  const read = (data: string): unknown => {
    const sent = body(data)
    return readToTranslate(protocol, {
      body: sent,
      text: JSON.stringify(sent),
      headers: new Headers(),
      model: 'm',
      stream: false,
    })
  }
  const inline = (type: string, data: string): string => (isPlainBase64 === true ? data : `data:${type};base64,${data}`)

  describe(`the field ${path} of ${protocol}`, () => {
    test.each([
      ['nothing', inline('image/png', '')],
      ['invalid base64', inline('image/png', '*not base64*')],
      ['truncated base64', inline('image/png', 'AAAAA')],
      ['a data URL in a data URL', `data:${inline('image/png', PNG)}`],
      ['a data URL as data', inline('image/png', `data:image/png;base64,${PNG}`)],
    ])('refuses %s with its path', (_, data) => {
      expect(problemOf(() => read(data))).toContain(path)
    })

    test.each([
      ['svg', 'image/svg+xml', HTML],
      ['HTML with the type of an image', 'image/png', HTML],
      ['an image with the type of text', 'text/plain', PNG],
      ['30 MB', 'image/png', 'A'.repeat(40_000_000)],
    ])("accepts %s, since the content is the client's own", (_, type, data) => {
      expect(problemOf(() => read(inline(type, data)))).toBe('accepted')
    })
  })
}
