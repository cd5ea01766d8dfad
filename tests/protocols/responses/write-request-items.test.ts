import { describe, expect, test } from 'bun:test'
import type { Part } from '../../../src/generation/request.ts'
import type { Any } from './fixtures.ts'
import { call, input, lossesOf, result, say, text, write } from './requests.ts'

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

test('reasoning that nothing follows is reported, as are the name and the reasoning of a turn of the user', () => {
  const signed = { type: 'reasoning', text: '', signature: { data: 's', issuer: { provider: 'p', model: 'upstream' } } }
  const turns = [say('assistant', text('a'), signed as Part), { ...say('user', text('q'), signed as Part), name: 'n' }]
  expect(write({ turns }).losses.map(({ code, reason }) => [code, reason])).toEqual([
    ['reasoning_dropped', 'no content follows it'],
    ['unsupported_field', expect.any(String)],
    ['content_dropped', expect.any(String)],
  ])
})
