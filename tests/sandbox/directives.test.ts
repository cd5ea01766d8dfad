import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { keyValuePairs, milliseconds } from '../../src/providers/sandbox/directive-arguments.ts'
import { findDirectives } from '../../src/providers/sandbox/directives.ts'
import { DIRECTIVE_NAMES, readDirectives, scriptOf } from '../../src/providers/sandbox/read-script.ts'

const read = (text: string) => findDirectives(text, (name) => ['reply', 'call', 'think', 'empty'].includes(name))

describe('directives in a text', () => {
  test.each([
    ['[[reply: hello]]', [{ name: 'reply', argument: 'hello' }], ''],
    ['[[reply hello]]', [{ name: 'reply', argument: 'hello' }], ''],
    ['[[ Reply :hello ]]', [{ name: 'reply', argument: 'hello' }], ''],
    ['a [[empty]] b', [{ name: 'empty', argument: '' }], 'a  b'],
    ['[[reply: two\nlines]]', [{ name: 'reply', argument: 'two\nlines' }], ''],
    ['[[wiki link]] stays', [], '[[wiki link]] stays'],
    ['[[reply: never closed', [], '[[reply: never closed'],
    ['[[reply: [x]]]', [{ name: 'reply', argument: '[x]' }], ''],
    ['[[call: f {"a":[[1,2],[3]]}]] go', [{ name: 'call', argument: 'f {"a":[[1,2],[3]]}' }], 'go'],
    ['[[call: f {"a":"]]"}]]', [{ name: 'call', argument: 'f {"a":"]]"}' }], ''],
    ['[[reply: [[1]]]]', [{ name: 'reply', argument: '[[1]]' }], ''],
    ['[[call: f {"a":]] cut', [{ name: 'call', argument: 'f {"a":' }], 'cut'],
    [
      '[[call: f]][[call: g]]',
      [
        { name: 'call', argument: 'f' },
        { name: 'call', argument: 'g' },
      ],
      '',
    ],
  ])('%j is split into directives and the rest', (text, directives, rest) => {
    expect(read(text)).toEqual({ directives, rest })
  })

  test('the arguments of a call may be any JSON', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom('', ' tail', ' [[empty]]'),
        (value, tail) => {
          const json = JSON.stringify(value)
          fc.pre(json.split(']]').length < 50)
          expect(read(`[[call: f ${json}]]${tail}`).directives[0]).toEqual({ name: 'call', argument: `f ${json}` })
        },
      ),
    )
  })

  test('no text makes the reader throw, and text without directives is returned as it is', () => {
    const piece = fc.constantFrom(
      '[[',
      ']]',
      '[',
      ']',
      'reply',
      'call',
      ':',
      ' ',
      '{',
      '}',
      '"',
      '\\',
      'x',
      '\n',
      '[[call: f {',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const text = pieces.join('')
        const found = read(text)
        if (found.directives.length === 0) expect(found.rest).toBe(text.trim())
        expect(found.rest.length).toBeLessThanOrEqual(text.length)
      }),
    )
  })

  test('a megabyte of unclosed directives is read and gives none', () => {
    expect(read('[[call: f {'.repeat(100_000)).directives).toEqual([])
  })
})

test('times and key=value pairs are parsed from arguments', () => {
  expect([
    milliseconds('20ms'),
    milliseconds('1.5s'),
    milliseconds('20'),
    milliseconds('soon'),
    milliseconds('3000s'),
  ]).toEqual([20, 1500, 20, undefined, undefined])
  const { pairs, rest } = keyValuePairs('429 retry-after=2 a=b slow down', ['retry-after'])
  expect([Object.fromEntries(pairs), rest]).toEqual([{ 'retry-after': '2' }, '429 a=b slow down'])
})

const script = (text: string) => scriptOf(readDirectives(text).directives)

describe('scripts', () => {
  test('steps keep their order, and [[then]] starts the next response', () => {
    expect(
      script('[[think: hm]] [[reply: a]] [[call: f {"x":1}]] [[call: g]] [[then]] [[reply: b]]').responses,
    ).toEqual([
      {
        steps: [
          { kind: 'think', signing: 'signed', text: 'hm' },
          { kind: 'reply', text: 'a' },
          { kind: 'call', name: 'f', input: '{"x":1}' },
          { kind: 'call', name: 'g' },
        ],
      },
      { steps: [{ kind: 'reply', text: 'b' }] },
    ])
  })

  test('[[error]] sets status, code, message and retry-after', () => {
    expect(script('[[error: 429 retry-after=2 slow down]]').responses[0]!.error).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      retryAfterSeconds: 2,
      message: 'slow down',
    })
    expect(script('[[error: 400 code=context_length_exceeded too long]]').responses[0]!.error).toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      message: 'too long',
    })
    expect(script('[[error]]').responses[0]!.error).toMatchObject({ status: 500 })
    expect(script('[[error-after: 3 529 busy]]').responses[0]!.fault).toMatchObject({
      kind: 'error',
      afterDeltas: 3,
      error: { status: 529, message: 'busy' },
    })
  })

  test('[[usage]] sets only the named buckets', () => {
    expect(script('[[usage: in=10 cached=5 reasoning=3]]').responses[0]!.usage).toEqual({
      inputTokens: 10,
      cacheReadTokens: 5,
      reasoningTokens: 3,
    })
  })

  test('[[pace]], [[chunk]] and [[no-usage]] apply to all responses, and strict ones change none', () => {
    expect(script('[[pace: 20ms]] [[chunk: 2]] [[strict-signatures]] [[no-usage]]')).toEqual({
      responses: [{ steps: [] }],
      paceMs: 20,
      wordsPerDelta: 2,
      noUsage: true,
    })
  })

  test.each([
    '[[delay: banana]]',
    '[[length: many]]',
    '[[call]]',
    '[[finish: soon]]',
    '[[usage: of=3]]',
    '[[usage]]',
    '[[error: 200]]',
    '[[cut-after]]',
    '[[chunk: 0]]',
    '[[cite]]',
    '[[echo: soul]]',
    '[[html: 42]]',
  ])('%s is refused with a 400 that names the directive', (text) => {
    expect(() => script(text)).toThrow(
      expect.objectContaining({ status: 400, param: text.replace(/[\s:].*/, '').replace(/\]*$/, '') + ']]' }),
    )
  })
})

test('docs/sandbox.md shows every directive', async () => {
  const page = await Bun.file(new URL('../../docs/sandbox.md', import.meta.url)).text()
  expect([...DIRECTIVE_NAMES].filter((name) => !page.includes(`[[${name}`))).toEqual([])
})
