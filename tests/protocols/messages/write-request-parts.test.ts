import { describe, expect, test } from 'bun:test'
import type { Part } from '../../../src/generation/request.ts'
import { type Any, assistant, call, result, text, tool, user, write } from './kit.ts'

/** Parts of requests to providers of the Messages API. */

describe('parts', () => {
  const parts = (...list: Part[]): Any[] => write({ turns: [{ role: 'user', parts: list }] }).body.messages[0].content

  test('a result has the last cache breakpoint of its content', () => {
    const texts = (['5m', '1h'] as const).map((ttl): Part => ({ type: 'text', text: ttl, cache: { ttl } }))
    const answered = { ...result('a'), content: texts } as Part
    const { messages } = write({ turns: [user('q'), assistant(call('a')), tool(answered)] }).body
    expect(messages[2].content[0].cache_control).toEqual({ type: 'ephemeral', ttl: '1h' })
  })

  test('media become images and documents', () => {
    expect(
      parts(
        { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AA==' }, cache: { ttl: '1h' } },
        { type: 'image', source: { type: 'url', url: 'https://x' } },
        { type: 'file', filename: 'a.pdf', source: { type: 'data', mediaType: 'application/pdf', data: 'AA==' } },
        { type: 'file', source: { type: 'data', mediaType: 'text/csv; charset=utf-8', data: btoa('a,b') } },
        { type: 'file', source: { type: 'url', url: 'https://y' } },
      ),
    ).toEqual([
      {
        type: 'image',
        source: { type: 'base64', media_type: 'image/png', data: 'AA==' },
        cache_control: { type: 'ephemeral', ttl: '1h' },
      },
      { type: 'image', source: { type: 'url', url: 'https://x' } },
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AA==' }, title: 'a.pdf' },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,b' } },
      { type: 'document', source: { type: 'url', url: 'https://y' } },
    ])
  })

  test.each<Part>([
    { type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: 'AA==' } },
    { type: 'video', source: { type: 'url', url: 'https://x' } },
    { type: 'file', source: { type: 'data', mediaType: 'application/zip', data: 'AA==' } },
    { type: 'file', source: { type: 'file', id: 'file-1' } },
    { type: 'image', source: { type: 'file', id: 'file-1' } },
    { type: 'image', source: { type: 'data', mediaType: 'image/tiff', data: 'AA==' } },
  ])('media without a block type are refused: %j', (part) => {
    expect(() => parts(part)).toThrow(expect.objectContaining({ code: 'unsupported_parameter', status: 400 }))
  })

  test('reasoning goes back only to the model that issued it', () => {
    const mine = { provider: 'there', model: 'upstream-model' }
    const { body, lost } = write({
      turns: [
        user('a'),
        assistant(
          { type: 'reasoning', text: 'hm', signature: { data: 'sig', issuer: mine } },
          { type: 'reasoning', text: '', redacted: true, signature: { data: 'dark', issuer: mine } },
          {
            type: 'reasoning',
            text: 'other',
            signature: { data: 'sig', issuer: { provider: 'there', model: 'older-model' } },
          },
          { type: 'reasoning', text: 'plain', signature: { data: 'sig' } },
          { type: 'reasoning', text: 'unsigned' },
          text('b'),
        ),
        user('c'),
      ],
    })
    expect(body.messages[1].content).toEqual([
      { type: 'thinking', thinking: 'hm', signature: 'sig' },
      { type: 'redacted_thinking', data: 'dark' },
      { type: 'text', text: 'b' },
    ])
    expect(lost).toEqual([
      'reasoning_dropped messages[1].content[2]',
      'reasoning_dropped messages[1].content[3]',
      'reasoning_dropped messages[1].content[4]',
    ])
  })

  test('arguments keep their order and numbers, and incomplete ones become an empty object', () => {
    const { body, lost } = write({
      turns: [
        user('a'),
        assistant(
          call('x', '{"z":12345678901234567890,"a":1.0}'),
          call('y', '{"cut":'),
          call('e', ''),
          call('n', '1.0'),
        ),
        tool(result('x'), result('y'), result('e'), result('n')),
      ],
    })
    const written = JSON.stringify(body.messages[1].content)
    expect(written).toContain('"input":{"z":12345678901234567890,"a":1.0}')
    expect(body.messages[1].content.slice(1).map(({ input }: Any) => input)).toEqual([{}, {}, {}])
    expect(lost).toEqual(['arguments_dropped messages[1].content[1]', 'arguments_dropped messages[1].content[3]'])
  })

  test('a tool result keeps images and its error flag', () => {
    const { body } = write({
      turns: [
        user('a'),
        assistant(call('x')),
        tool({
          type: 'tool-result',
          callId: 'x',
          isError: true,
          form: 'function',
          content: [
            { type: 'text', text: '' },
            { type: 'image', source: { type: 'url', url: 'u' } },
          ],
        }),
      ],
    })
    expect(body.messages[2].content).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'x',
        content: [{ type: 'image', source: { type: 'url', url: 'u' } }],
        is_error: true,
      },
    ])
  })

  test('an image of the type image/jpg is sent as image/jpeg', () => {
    expect(
      parts({ type: 'image', source: { type: 'data', mediaType: 'image/jpg', data: 'AA==' } })[0]!.source.media_type,
    ).toBe('image/jpeg')
  })

  test('at most four cache breakpoints are sent, the last ones', () => {
    const { body, lost } = write({
      turns: [
        { role: 'user', parts: Array.from({ length: 6 }, (_, n): Part => ({ type: 'text', text: `${n}`, cache: {} })) },
      ],
    })
    expect(body.messages[0].content.map((block: Any) => block.cache_control !== undefined)).toEqual([
      false,
      false,
      true,
      true,
      true,
      true,
    ])
    expect(lost).toEqual([
      'cache_breakpoint_adjusted messages[0].content[0]',
      'cache_breakpoint_adjusted messages[0].content[1]',
    ])
  })

  test('native content of another protocol is left out', () => {
    const { lost } = write({
      turns: [user('a'), assistant({ type: 'native', protocol: 'responses', kind: 'computer_call', value: {} })],
    })
    expect(lost).toEqual(['content_native messages[1].content[0]'])
  })

  test('an earlier refusal is sent as text', () => {
    const { body, lost } = write({ turns: [user('a'), assistant({ type: 'refusal', text: 'No.' }), user('b')] })
    expect(body.messages[1].content).toEqual([{ type: 'text', text: 'No.' }])
    expect(lost).toEqual(['content_as_text messages[1].content[0]'])
  })

  test('fields that no block has are left out', () => {
    const image: Part = { type: 'image', source: { type: 'url', url: 'https://x' } }
    const images: Part[] = [image, { ...image, detail: 'low' }, { ...image, detail: 'auto', filename: 'a.png' }]
    const cited: Part = { type: 'text', text: 'a', citations: [{ url: 'https://x' }], signature: { data: 's' } }
    expect(write({ turns: [{ role: 'user', parts: images }, assistant(cited), user('b')] }).losses).toMatchObject([
      { code: 'unsupported_field', path: 'messages[0].content[1]' },
      { code: 'unsupported_field', path: 'messages[0].content[2]' },
      { code: 'citations_dropped', path: 'messages[1].content[0]' },
      { code: 'signature_dropped', path: 'messages[1].content[0]' },
    ])
  })

  test('media of the assistant are left out', () => {
    const image: Part = { type: 'image', source: { type: 'url', url: 'https://x' } }
    expect(write({ turns: [user('a'), assistant(text('b'), image), user('c')] }).lost).toEqual([
      'content_dropped messages[1].content[1]',
    ])
  })
})
