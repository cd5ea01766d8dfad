import { describe, expect, test } from 'bun:test'
import type { Part, Turn } from '../../../src/generation/request.ts'
import { path } from '../../../src/protocols/gemini/write-request.ts'
import {
  asked,
  assistant,
  callOf,
  contentsOf,
  resultOf,
  results,
  targetOf,
  textOf,
  user,
  write,
  type Json,
} from './building.ts'

/** Conversations that are sent to providers of generateContent. */

test('the path has the model and the method', () => {
  expect(path(targetOf(), { stream: false })).toBe('/models/m:generateContent')
  expect(path({ ...targetOf(), model: 'a/b?c' }, { stream: true })).toBe(
    '/models/a/b%3Fc:streamGenerateContent?alt=sse',
  )
})

describe('instructions and text', () => {
  test('instructions are first, turns of one role are merged, and empty text is left out', () => {
    expect(
      write({
        system: [textOf('Be kind.')],
        turns: [user(textOf('a')), user(textOf('')), user(textOf('b')), assistant(textOf('c'))],
      }).body,
    ).toEqual({
      systemInstruction: { parts: [{ text: 'Be kind.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'a' }, { text: 'b' }] },
        { role: 'model', parts: [{ text: 'c' }] },
      ],
    })
  })

  test('instructions without a conversation are sent as a user message', () => {
    expect(write({ system: [textOf('Go.')], turns: [] })).toMatchObject({
      body: { contents: [{ role: 'user', parts: [{ text: 'Go.' }] }] },
      lost: [{ code: 'instructions_moved', path: 'messages' }],
    })
    expect(write({ turns: [] })).toMatchObject({
      body: { contents: [{ role: 'user', parts: [{ text: '' }] }] },
      lost: [],
    })
    expect(write({ system: [textOf('Go.')], turns: [], protocol: 'messages' }).lost).toEqual([
      { code: 'instructions_moved', path: 'system' },
    ])
  })

  test('instructions for a model without a system instruction are tagged text of the user', () => {
    const { body, lost } = write({ system: [textOf('a'), textOf(''), textOf('b')] }, { system: false })
    expect(body).toEqual({
      contents: [
        {
          role: 'user',
          parts: [{ text: '<system>\n' }, { text: 'a' }, { text: 'b' }, { text: '\n</system>' }, { text: 'Hello' }],
        },
      ],
    })
    expect(lost).toEqual([
      { code: 'instructions_moved', path: 'system[0]' },
      { code: 'instructions_moved', path: 'system[2]' },
    ])
  })

  test('an image in the instructions is left out', () => {
    const image: Part = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
    expect(write({ system: [textOf('a'), image] })).toMatchObject({
      body: { systemInstruction: { parts: [{ text: 'a' }] } },
      lost: [{ code: 'content_dropped', path: 'system[1]' }],
    })
  })

  test('later instructions are tagged text of the user', () => {
    expect(write({ turns: [user(textOf('a')), { role: 'system', parts: [textOf('b')] }] })).toMatchObject({
      body: { contents: [{ parts: [{ text: 'a' }, { text: '<system>\n' }, { text: 'b' }, { text: '\n</system>' }] }] },
      lost: [{ code: 'instructions_moved', path: 'messages[1]' }],
    })
  })

  test('later instructions without content that can be sent are left out', () => {
    const native: Part = { type: 'native', protocol: 'messages', kind: 'k', value: {}, optional: true }
    const { body, lost } = write({ turns: [user(textOf('a')), { role: 'system', parts: [native] }] })
    expect(body.contents).toEqual([{ role: 'user', parts: [{ text: 'a' }] }])
    expect(lost).toEqual([{ code: 'content_native', path: 'messages[1].content[0]' }])
  })

  test('names of speakers, refusals and content of another protocol are reported with their paths', () => {
    const native: Part = { type: 'native', protocol: 'messages', kind: 'k', value: {}, optional: true }
    const { lost } = write({
      turns: [{ ...user(textOf('a'), native), name: 'ada' }, assistant({ type: 'refusal', text: 'no' })],
    })
    expect(lost).toEqual([
      { code: 'unsupported_field', path: 'messages[0]' },
      { code: 'content_native', path: 'messages[0].content[1]' },
      { code: 'content_as_text', path: 'messages[1].content[0]' },
    ])
  })

  test('a loss has the exact field of the body that the client sent', () => {
    const { lost } = write({ turns: [{ ...user(textOf('a')), name: 'ada' }] }, {}, { messages: [{ name: 'ada' }] })
    expect(lost).toEqual([{ code: 'unsupported_field', path: 'messages[0].name' }])
  })
})

describe('calls and results', () => {
  test('results follow their calls in the order of the calls, and each call has a result', () => {
    const { body, lost } = write({
      turns: [
        user(textOf('a')),
        assistant(callOf('1'), callOf('2'), callOf('3')),
        user(textOf('wait')),
        results(resultOf('2', 'two'), resultOf('1', '{"n":1}')),
      ],
    })
    expect(body.contents.slice(2)).toEqual([
      {
        role: 'user',
        parts: [
          { functionResponse: { id: '1', name: 'f_1', response: { n: 1 } } },
          { functionResponse: { id: '2', name: 'f_2', response: { output: 'two' } } },
          { functionResponse: { id: '3', name: 'f_3', response: { error: 'No result was given for this call.' } } },
          { text: 'wait' },
        ],
      },
    ])
    expect(lost).toEqual([
      { code: 'turn_reordered', path: 'messages[3].content[0]' },
      { code: 'turn_reordered', path: 'messages[3].content[1]' },
      { code: 'result_added', path: 'messages[1].content[2]' },
    ])
  })

  test('a user is put before a conversation that begins with a call, not before one that begins with text', () => {
    const begun = { role: 'user', parts: [{ text: '(The conversation begins with the assistant.)' }] }
    const called = write({ turns: [assistant(textOf('a'), callOf('1')), results(resultOf('1', 'x'))] })
    expect(called.body.contents.map(({ role }: Json) => role)).toEqual(['user', 'model', 'user'])
    expect(called.body.contents[0]).toEqual(begun)
    expect(called.lost).toEqual([{ code: 'turn_added', path: 'messages[0]' }])
    expect(write({ turns: [assistant(textOf('a')), user(textOf('b'))] }).lost).toEqual([])
    const instructed = write(
      { system: [textOf('a')], turns: [assistant(callOf('1')), results(resultOf('1', 'x'))] },
      { system: false },
    )
    expect(instructed.body.contents.map(({ role }: Json) => role)).toEqual(['user', 'model', 'user'])
    expect(instructed.body.contents).not.toContainEqual(begun)
  })

  test('a call without a result gets an error, except in the last turn', () => {
    expect(contentsOf([asked, assistant(callOf('1')), user(textOf('a'))])[2]!.parts).toMatchObject([
      { functionResponse: { id: '1', response: { error: expect.any(String) } } },
      { text: 'a' },
    ])
    expect(contentsOf([user(textOf('a')), assistant(callOf('1'))])).toHaveLength(2)
  })

  test('a result without its call is text', () => {
    expect(write({ turns: [user(textOf('a')), results(resultOf('9', 'nine'))] })).toMatchObject({
      body: { contents: [{ role: 'user', parts: [{ text: 'a' }, { text: 'Result of 9:' }, { text: 'nine' }] }] },
      lost: [{ code: 'content_as_text', path: 'messages[1].content[0]' }],
    })
  })

  test('the result of a failed call is an error', () => {
    const contents = contentsOf([asked, assistant(callOf('1')), results(resultOf('1', '{"a":1}', { isError: true }))])
    expect(contents[2]!.parts[0].functionResponse.response).toEqual({ error: '{"a":1}' })
  })

  test('an id that is used again in a later turn has its own result', () => {
    const responses = contentsOf([
      assistant(callOf('1')),
      results(resultOf('1', 'first')),
      assistant(callOf('1')),
      results(resultOf('1', 'second')),
    ]).flatMap(({ parts }) => parts.flatMap((part: Json) => part.functionResponse?.response ?? []))
    expect(responses).toEqual([{ output: 'first' }, { output: 'second' }])
  })

  test('arguments keep key order and big integers', () => {
    expect(write({ turns: [assistant(callOf('1', '{"z":12345678901234567890,"a":1}'))] }).text).toContain(
      '"args":{"z":12345678901234567890,"a":1}',
    )
  })

  test('arguments that are cut are left out', () => {
    expect(write({ turns: [asked, assistant(callOf('1', '{"a":'))] })).toMatchObject({
      body: { contents: [{}, { parts: [{ functionCall: { args: {} } }] }] },
      lost: [{ code: 'arguments_dropped', path: 'messages[1].content[0]' }],
    })
  })

  test.each(['1.0', '12345678901234567890', '-0'])('the number %s is not an object', (number) => {
    const [, called, answered] = contentsOf([asked, assistant(callOf('1', number)), results(resultOf('1', number))])
    expect([called!.parts[0].functionCall.args, answered!.parts[0].functionResponse.response]).toEqual([
      {},
      { output: number },
    ])
  })

  test('media of a result are inside it where the model accepts that, else after it', () => {
    const image: Part = { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }
    const turns = [
      asked,
      assistant(callOf('1')),
      results({ ...resultOf('1', 'x'), content: [{ type: 'text', text: 'x' }, image] } as Part),
    ]
    const inline = { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
    const inside = write({ turns }, { reasoning: 'level' })
    expect(inside.body.contents[2].parts).toEqual([
      { functionResponse: { id: '1', name: 'f_1', response: { output: 'x' }, parts: [inline] } },
    ])
    expect(inside.lost).toEqual([{ code: 'signature_replaced', path: 'messages[1].content[0]' }])
    const detailed = write(
      {
        turns: [asked, turns[1]!, results({ ...resultOf('1', 'x'), content: [{ ...image, detail: 'high' }] } as Part)],
      },
      { reasoning: 'level' },
    )
    expect(detailed.body.contents[2].parts[0].functionResponse.parts).toEqual([inline])
    expect(detailed.lost).toContainEqual({ code: 'unsupported_field', path: 'messages[2].content[0].content[0]' })
    const after = write({ turns })
    expect(after.body.contents[2].parts).toEqual([
      { functionResponse: { id: '1', name: 'f_1', response: { output: 'x' } } },
      inline,
    ])
    expect(after.lost).toEqual([{ code: 'media_moved', path: 'messages[2].content[0].content[1]' }])
  })
})

describe('media', () => {
  const image: Part = { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }

  test('URLs and text are sent with their media types', () => {
    expect(
      contentsOf([
        user(
          { type: 'image', source: { type: 'url', url: 'https://example.com/a.JPG?x=1' } },
          { type: 'file', source: { type: 'url', url: 'https://example.com/doc', mediaType: 'application/pdf' } },
          { type: 'file', source: { type: 'text', text: 'é', mediaType: 'text/plain' } },
        ),
      ])[0]!.parts,
    ).toEqual([
      { fileData: { mimeType: 'image/jpeg', fileUri: 'https://example.com/a.JPG?x=1' } },
      { fileData: { mimeType: 'application/pdf', fileUri: 'https://example.com/doc' } },
      { inlineData: { mimeType: 'text/plain', data: 'w6k=' } },
    ])
  })

  test('an image of the type image/jpg is sent as image/jpeg', () => {
    const image: Part = { type: 'image', source: { type: 'data', mediaType: 'image/jpg', data: 'AAAA' } }
    expect(contentsOf([user(image)])[0]!.parts).toEqual([{ inlineData: { mimeType: 'image/jpeg', data: 'AAAA' } }])
  })

  test('a file that is stored elsewhere is refused with its path', () => {
    expect(() => contentsOf([user({ type: 'file', source: { type: 'file', id: 'file-1' } })])).toThrow(
      'messages[0].content[0]: a file that is stored elsewhere',
    )
  })

  test('detail is a resolution where the model accepts one', () => {
    const detailed = { ...image, detail: 'high' } as Part
    const level = write({ turns: [user(detailed)] }, { reasoning: 'level' })
    expect(level.body.contents[0].parts[0].mediaResolution).toEqual({ level: 'MEDIA_RESOLUTION_HIGH' })
    expect(level.lost).toEqual([{ code: 'detail_adjusted', path: 'messages[0].content[0]' }])
    expect(write({ turns: [user(detailed)] }).lost).toEqual([
      { code: 'unsupported_by_model', path: 'messages[0].content[0]' },
    ])
    expect(write({ turns: [user({ ...image, detail: 'auto' } as Part)] }).lost).toEqual([])
  })

  test('a file name is left out', () => {
    expect(write({ turns: [user({ ...image, filename: 'a.png' } as Part)] }).lost).toEqual([
      { code: 'unsupported_field', path: 'messages[0].content[0]' },
    ])
  })
})

describe('signatures', () => {
  const own = { signature: { data: 'sig', issuer: { provider: 'p', model: 'm' } } }
  const other = { signature: { data: 'sig', issuer: { provider: 'x', model: 'm' } } }

  test('of the model are sent with their parts', () => {
    expect(
      contentsOf([
        asked,
        assistant(
          { type: 'reasoning', text: 'hm', ...own },
          { type: 'text', text: 'a', ...own },
          callOf('1', '{}', own),
        ),
      ])[1]!.parts,
    ).toMatchObject([
      { text: 'hm', thought: true, thoughtSignature: 'sig' },
      { text: 'a', thoughtSignature: 'sig' },
      { functionCall: { id: '1' }, thoughtSignature: 'sig' },
    ])
  })

  test('of another model are left out, and so is reasoning without one', () => {
    const { text, lost } = write({
      turns: [
        asked,
        assistant(
          { type: 'reasoning', text: 'hm', ...other },
          { type: 'reasoning', text: 'hm' },
          textOf('a'),
          callOf('1', '{}', other),
        ),
      ],
    })
    expect(text).not.toMatch(/hm|thoughtSignature/)
    expect(lost).toEqual([
      { code: 'reasoning_dropped', path: 'messages[1].content[0]' },
      { code: 'reasoning_dropped', path: 'messages[1].content[1]' },
      { code: 'signature_dropped', path: 'messages[1].content[3]' },
    ])
  })

  test('of the model make reasoning beside them its own', () => {
    const { body, lost } = write({
      turns: [
        user(textOf('a')),
        assistant({ type: 'reasoning', text: 'hm' }, callOf('1', '{}', own)),
        results(resultOf('1', 'x')),
      ],
    })
    expect(body.contents[1].parts).toMatchObject([
      { text: 'hm', thought: true },
      { functionCall: { id: '1' }, thoughtSignature: 'sig' },
    ])
    expect(lost).toEqual([])
  })

  test('of the first unsigned call of a turn are a placeholder for models that reason by levels', () => {
    const signaturesOf = (turns: Turn[]) =>
      contentsOf(turns, { reasoning: 'level' }).flatMap(({ parts }) =>
        parts.flatMap((part: Json) => ('functionCall' in part ? [part.thoughtSignature] : [])),
      )
    expect(
      signaturesOf([
        assistant(callOf('1'), callOf('2')),
        results(resultOf('1', 'x'), resultOf('2', 'x')),
        assistant(callOf('3')),
      ]),
    ).toEqual(['skip_thought_signature_validator', undefined, 'skip_thought_signature_validator'])
    expect(signaturesOf([assistant(callOf('1', '{}', own), callOf('2'))])).toEqual(['sig', undefined])
  })
})
