import { describe, expect, test } from 'bun:test'
import type { Part } from '../../../src/generation/request.ts'
import { written } from '../../translating.ts'
import { target, type Any } from './fixtures.ts'
import { call, input, lossesOf, request, result, say, text, write } from './requests.ts'

/** Parts that have no item of their own in requests to providers of the Responses API, and what is reported of them. */

const image: Part = { type: 'image', source: { type: 'url', url: 'https://x.y' } }
const native = (protocol: 'messages' | 'responses', kind = 'k'): Part => ({
  ...{ type: 'native', protocol, kind },
  value: { type: kind },
})
const ofUser = (...content: object[]): object => ({ type: 'message', role: 'user', content })
const shown = { type: 'input_image', image_url: 'https://x.y' }
const said = (words: string): object => ({ type: 'input_text', text: words })

test('an image of the assistant is a message of the user at its position, which is reported', () => {
  const turns = [say('user', text('q')), say('assistant', text('a'), image, text('b')), say('user', text('more'))]
  expect(input(turns)).toEqual([
    ofUser(said('q')),
    { type: 'message', role: 'assistant', content: 'a' },
    ofUser(shown),
    { type: 'message', role: 'assistant', content: 'b' },
    ofUser(said('more')),
  ])
  expect(lossesOf({ turns })).toEqual(['media_moved messages'])
})

test('a result of a tool inside a turn of the user or the assistant is that of its call', () => {
  const output = { type: 'function_call_output', call_id: 'c1', output: 'r' }
  for (const turns of [
    [say('assistant', call('c1'), result('c1', text('r'))), say('user', text('q'))],
    [say('assistant', call('c1')), say('tool', result('c1', text('r')), text('q'))],
  ])
    expect([input(turns).slice(1), lossesOf({ turns })]).toEqual([[output, ofUser(said('q'))], []])
})

test('content around an item of its own is a message before it and one behind it', () => {
  const late = result('c9', text('late'))
  const turns = [say('user', text('a'), image, native('responses'), text('b'), late, text('c'))]
  expect(input(turns)).toEqual([
    ofUser(said('a'), shown),
    { type: 'k' },
    ofUser(said('b')),
    ofUser(said('Result of the tool call c9:'), said('late')),
    ofUser(said('c')),
  ])
})

test('a result without its call names the tool, where it is known', () => {
  const late = { ...result('c9', text('late'), image as Any), name: 'f' } as Part
  expect(input([say('user', late)])).toEqual([ofUser(said('Result of the tool call c9 (f):'), said('late'), shown)])
})

describe('the result of a tool', () => {
  const output = (content: Any[], more: object = {}, capabilities = {}): unknown => {
    const turns = [say('assistant', call('c1')), say('tool', { ...result('c1', ...content), ...more } as Part)]
    return (write({ turns }, capabilities).body.input as Any[])[1]!.output
  }
  const marks = { cacheBreakpoints: 'prompt_cache_breakpoint' }

  test('has native parts of this protocol, and loses others', () => {
    expect(output([text('a'), native('responses'), native('messages')])).toEqual([said('a'), { type: 'k' }])
    const turns = [say('assistant', call('c1')), say('tool', result('c1', native('messages'), text('a')))]
    expect(lossesOf({ turns })).toEqual(['content_native messages'])
  })

  test('is one string, or parts where each may have a breakpoint', () => {
    expect([output([]), output([text('')]), output([text('a')])]).toEqual(['', '', 'a'])
    expect(output([text('a')], {}, marks)).toEqual([said('a')])
    expect(output([text('')], {}, marks)).toBe('')
    expect(output([text('a')], {}, { cacheBreakpoints: 'cache_control' })).toBe('a')
  })

  test('has its breakpoint on its last part', () => {
    const marked = { ...said('b'), prompt_cache_breakpoint: { mode: 'explicit' } }
    expect(output([text('a'), text('b')], { cache: {} }, marks)).toEqual([said('a'), marked])
    expect(output([text('b'), native('responses')], { cache: {} }, marks)).toEqual([said('b'), { type: 'k' }])
    expect(output([text('a'), text('b')], { cache: {} })).toEqual([said('a'), said('b')])
  })
})

test('instructions of a model without any are tagged text of the user, and leave other roles as they are', () => {
  const turns = [
    say('system', text('a'), text('b')),
    say('user', text('q')),
    say('developer', text('c'), native('responses'), text('d')),
  ]
  const tagged = (...words: string[]): object => ofUser(said('<system>\n'), ...words.map(said), said('\n</system>'))
  expect(write({ turns }, { system: false }).body.input).toEqual([
    tagged('a', 'b'),
    ofUser(said('q')),
    tagged('c'),
    { type: 'k' },
    tagged('d'),
  ])
})

test('calls have a JSON object as arguments, and an id of any length from 1 to 64', () => {
  const ids = ['', 'x'.repeat(64), 'x'.repeat(65)]
  const items = input([say('assistant', ...ids.map((id) => call(id, 'function', ' '))), say('user', text('q'))])
  expect(items.slice(0, 3).map((item) => item.arguments)).toEqual(['{}', '{}', '{}'])
  expect(items.slice(0, 3).map(({ call_id }) => call_id)).toEqual([
    expect.stringMatching(/^call_[0-9a-f]{40}$/),
    ids[1]!,
    expect.stringMatching(/^call_[0-9a-f]{40}$/),
  ])
  expect(items.slice(3, 6).map(({ call_id }) => call_id)).toEqual(items.slice(0, 3).map(({ call_id }) => call_id))
  expect(items[3]!.output).toBe('Error: No result of this call was recorded.')
  expect(input([say('assistant', call('c', 'custom', ' ')), say('user', text('q'))])[0]!.input).toBe(' ')
})

test.each<[string, Part[], string[]]>([
  ['the signature of a text', [{ ...text('a'), signature: { data: 's' } } as Part], ['signature_dropped messages']],
  ['no signature where it is empty', [{ ...text('a'), signature: { data: '' } } as Part], []],
  [
    'the signature of a call',
    [{ ...call('c1'), signature: { data: 's' } } as Part, result('c1', text('r'))],
    ['signature_dropped messages'],
  ],
  ['native content of another protocol', [text('a'), native('messages')], ['content_native messages']],
])('of an earlier response %s is reported as lost', (_, parts, losses) => {
  expect(lossesOf({ turns: [say('assistant', ...parts), say('user', text('q'))] })).toEqual(losses)
})

test('a signature that is lost is named by its field', () => {
  const turns = [
    say('assistant', { ...text('a'), signature: { data: 's' }, path: 'a[0]' } as Part),
    say('user', text('q')),
  ]
  const body = { a: [{ text: 'a', thoughtSignature: 's' }] }
  const { losses } = written('responses', request({ protocol: 'generateContent', turns }), target, body)
  expect(losses.map(({ code, path }) => `${code} ${path}`)).toEqual(['signature_dropped a[0].thoughtSignature'])
})

test('reasoning comes once, before the first item that follows it', () => {
  const issuer = { provider: 'p', model: 'upstream' }
  const signed = (data: string): Part => ({ type: 'reasoning', text: '', signature: { data, issuer } }) as Part
  const parts = [signed('1'), signed('2'), text('a'), call('c1'), signed('3'), call('c2'), image]
  const items = input([say('assistant', ...parts), say('tool', result('c1', text('r')), result('c2', text('r')))])
  expect(items.map((item) => item.encrypted_content ?? item.call_id ?? item.role)).toEqual([
    ...['1', '2', 'assistant', 'c1', '3', 'c2', 'user', 'c1', 'c2'],
  ])
})

test('reasoning that nothing follows is reported, as are the name and the reasoning of a turn of the user', () => {
  const signed = { type: 'reasoning', text: '', signature: { data: 's', issuer: { provider: 'p', model: 'upstream' } } }
  const turns = [say('assistant', text('a'), signed as Part), { ...say('user', text('q'), signed as Part), name: 'n' }]
  expect(write({ turns }).losses.map(({ code, reason }) => [code, reason])).toEqual([
    ['reasoning_dropped', 'no content follows it'],
    ['unsupported_field', expect.any(String)],
    ['content_dropped', expect.any(String)],
  ])
})

describe('a medium of a message', () => {
  const file = (mediaType: string, more: object = {}): Part =>
    ({ type: 'file', source: { type: 'data', mediaType, data: 'aGk=' }, ...more }) as Part
  const sentAs = (part: Part): [Any, string[]] => {
    const turns = [say('user', { ...part, path: 'a[0]' } as Part)]
    const { body, losses } = written('responses', request({ protocol: 'responses', turns }), target, { a: [part] })
    return [(body.input as Any[])[0]!.content[0], losses.map(({ code, path }) => `${code} ${path}`)]
  }

  test.each<[string, Part, Any, string[]]>([
    [
      'text',
      { type: 'file', source: { type: 'text', text: 'x', mediaType: 'text/plain' } },
      said('x'),
      ['content_as_text a[0]'],
    ],
    [
      'text with a name',
      { type: 'file', filename: 'n', source: { type: 'text', text: 'x', mediaType: 'text/plain' } },
      said('n:\nx'),
      ['content_as_text a[0]'],
    ],
    [
      'an image in medium detail',
      { ...image, detail: 'medium' } as Part,
      { ...shown, detail: 'auto' },
      ['detail_adjusted a[0].detail'],
    ],
    [
      'an image in ultra detail',
      { ...image, detail: 'ultra' } as Part,
      { ...shown, detail: 'high' },
      ['detail_adjusted a[0].detail'],
    ],
    ['an image in automatic detail', { ...image, detail: 'auto' } as Part, { ...shown, detail: 'auto' }, []],
    ['an image in low detail', { ...image, detail: 'low' } as Part, { ...shown, detail: 'low' }, []],
    ['an image without detail', image, shown, []],
    ['an image with a name', { ...image, filename: 'n' } as Part, shown, ['unsupported_field a[0].filename']],
    [
      'an image with an id',
      { type: 'image', source: { type: 'file', id: 'f' } },
      { type: 'input_image', file_id: 'f' },
      [],
    ],
    [
      'audio',
      { type: 'audio', source: { type: 'data', mediaType: 'audio/mpeg', data: 'aGk=' } },
      { type: 'input_audio', input_audio: { data: 'aGk=', format: 'mp3' } },
      [],
    ],
    [
      'a file at a URL with a name',
      { type: 'file', filename: 'n', source: { type: 'url', url: 'https://x.y' } },
      { type: 'input_file', file_url: 'https://x.y' },
      ['unsupported_field a[0].filename'],
    ],
    [
      'a file with an id',
      { type: 'file', source: { type: 'file', id: 'f' } },
      { type: 'input_file', file_id: 'f' },
      [],
    ],
    [
      'a file of text',
      file('text/plain'),
      { type: 'input_file', filename: 'file.txt', file_data: 'data:text/plain;base64,aGk=' },
      [],
    ],
    [
      'a file with a long type',
      file('application/rss+xml', { filename: undefined }),
      { type: 'input_file', filename: 'file.xml', file_data: 'data:application/rss+xml;base64,aGk=' },
      [],
    ],
  ])('that is %s is sent with what it can have', (_, part, content, losses) => {
    expect(sentAs(part)).toEqual([content, losses])
  })

  test('is refused where it is audio that is not in the request', () => {
    const part: Part = { type: 'audio', source: { type: 'url', url: 'https://x.y' } }
    expect(() => sentAs(part)).toThrow('a[0]: audio')
  })
})
