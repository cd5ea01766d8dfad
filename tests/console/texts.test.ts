import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { FrameReader } from '../../console/parts/frames.ts'
import { jsonLines, tokensOf } from '../../console/parts/json-lines.ts'
import { oneLine, visible } from '../../console/parts/visible.ts'

describe('JSON as lines', () => {
  test('they are those of JSON.stringify with an indent of two', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const compact = JSON.stringify(value)
        expect(jsonLines(compact)).toEqual(JSON.stringify(value, null, 2).split('\n'))
        expect(jsonLines(JSON.stringify(value, null, '\t')).join('\n')).toBe(jsonLines(compact).join('\n'))
      }),
    )
  })

  test('no digit and no escape is changed', () => {
    expect(jsonLines(String.raw`{"a":12345678901234567890.100,"b":"\u0041\"{,"}`)).toEqual([
      '{',
      '  "a": 12345678901234567890.100,',
      String.raw`  "b": "\u0041\"{,"`,
      '}',
    ])
  })

  test.each(['{"a":', '[1}', 'plain\ntext', '{"a'])('%j is no JSON, and keeps its own lines', (text) => {
    expect(jsonLines(text)).toEqual(text.split('\n'))
  })

  test('the pieces of a line are the line', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        for (const line of jsonLines(JSON.stringify(value)))
          expect(
            tokensOf(line)
              .map(({ text }) => text)
              .join(''),
          ).toBe(line)
      }),
    )
    expect(tokensOf('  "a": -1.5e3,').map(({ kind, text }) => `${kind} ${text}`)).toEqual([
      'mark   ',
      'name "a"',
      'mark :',
      'mark  ',
      'number -1.5e3',
      'mark ,',
    ])
  })
})

describe('frames of a stream', () => {
  test('they do not depend on where the network cut them', () => {
    const whole = 'event: a\ndata: {"x":1}\n\n: comment\n\ndata: one\r\ndata: two\r\n\r\ndata: [DONE]\n\n'
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(whole.length), { maxLength: 8 }), (cuts) => {
        const reader = new FrameReader()
        const places = [0, ...cuts.sort((a, b) => a - b), whole.length]
        const frames = places.slice(1).flatMap((end, index) => reader.push(whole.slice(places[index], end), index))
        expect([...frames, ...reader.end(0)].map(({ event, data }) => [event, data])).toEqual([
          ['a', '{"x":1}'],
          [undefined, ''],
          [undefined, 'one\ntwo'],
          [undefined, '[DONE]'],
        ])
      }),
    )
  })

  test('a stream that broke off leaves its last piece', () => {
    const reader = new FrameReader()
    reader.push('data: half', 1)
    expect(reader.end(2)).toEqual([{ atMs: 2, event: undefined, data: 'half', raw: 'data: half' }])
  })
})

describe('texts from outside', () => {
  test('hidden characters and those that turn the direction are shown as marks', () => {
    expect(visible('a\u202eb\u0000c\u200b\ufeff')).toBe('a[U+202E]b[U+0000]c[U+200B][U+FEFF]')
    expect(visible('tab\tand\nline, ümlaut, 日本, 👍')).toBe('tab\tand\nline, ümlaut, 日本, 👍')
    expect(oneLine(' a\n  b ')).toBe('a b')
    expect(oneLine('x'.repeat(300)).length).toBe(200)
  })
})
