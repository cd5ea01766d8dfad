import { describe, expect, test } from 'bun:test'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { readRequest } from '../../../src/protocols/gemini/read-request.ts'
import { withoutPaths } from '../../translating.ts'
import { read, type Json } from './building.ts'

/** Conversations of clients of generateContent. */

const model = (...parts: unknown[]) => ({ role: 'model', parts })
const user = (...parts: unknown[]) => ({ role: 'user', parts })
const call = (name: string, id?: string) => ({
  functionCall: { name, args: { b: 1, a: 2 }, ...(id === undefined ? {} : { id }) },
})
const result = (name: string, output: unknown, id?: string) => ({
  functionResponse: { name, response: { output }, ...(id === undefined ? {} : { id }) },
})

describe('calls and results', () => {
  /** The index of the call and the text of each result. */
  const pairsOf = (contents: unknown[]) => {
    const { turns } = read({ contents })
    const calls = turns.flatMap((turn) => turn.parts.filter((part) => part.type === 'tool-call'))
    const results = turns.flatMap((turn) => turn.parts.filter((part) => part.type === 'tool-result'))
    return results.map((one) => [
      calls.findIndex((known) => known.id === one.callId),
      one.content[0]?.type === 'text' ? one.content[0].text : undefined,
    ])
  }

  test('results without ids answer the calls of their name in order', () => {
    expect(
      pairsOf([
        user({ text: 'a' }),
        model(call('f'), call('g'), call('f')),
        user(result('f', '1'), result('f', '3'), result('g', '2')),
      ]),
    ).toEqual([
      [0, '1'],
      [2, '3'],
      [1, '2'],
    ])
  })

  test('results may have the role of earlier versions of the API', () => {
    const contents = (role: string) => [user({ text: 'a' }), model(call('f')), { ...user(result('f', '1')), role }]
    expect(withoutPaths(read({ contents: contents('function') }).turns)).toEqual(
      withoutPaths(read({ contents: contents('user') }).turns),
    )
  })

  test('results with ids answer the calls with these ids in any order', () => {
    expect(
      pairsOf([
        user({ text: 'a' }),
        model(call('f', 'x'), call('f', 'y')),
        user(result('f', '2', 'y'), result('f', '1', 'x')),
      ]),
    ).toEqual([
      [1, '2'],
      [0, '1'],
    ])
    const contents = [
      user({ text: 'a' }),
      model(call('f', 'x'), call('f')),
      user(result('f', '1', 'x'), result('f', '2')),
    ]
    expect(pairsOf(contents)).toEqual([
      [0, '1'],
      [1, '2'],
    ])
  })

  test('a result with an unknown id answers only a call without an id', () => {
    const { turns } = read({ contents: [user({ text: 'a' }), model(call('f', 'x')), user(result('f', '1', 'z'))] })
    expect(turns.at(-1)!.parts).toMatchObject([{ callId: 'z', name: 'f' }])
    expect(pairsOf([user({ text: 'a' }), model(call('f')), user(result('f', '1', 'z'))])).toEqual([[0, '1']])
  })

  test('generated ids stay the same when the conversation continues', () => {
    const first = [user({ text: 'a' }), model(call('f')), user(result('f', '1'))]
    const ids = (contents: unknown[]) =>
      read({ contents }).turns.flatMap((turn) =>
        turn.parts.flatMap((part) => (part.type === 'tool-call' ? [part.id] : [])),
      )
    expect(ids([...first, model(call('f')), user(result('f', '2'))]).slice(0, 1)).toEqual(ids(first))
    expect(new Set(ids([...first, model(call('f'), call('f'))])).size).toBe(3)
  })

  test('results of several contents are one tool turn before the text beside them', () => {
    const { turns } = read({
      contents: [
        user({ text: 'a' }),
        model(call('f'), call('g')),
        user(result('f', '1')),
        user({ text: 'b' }, result('g', '2'), { text: 'c' }),
      ],
    })
    expect(turns.map((turn) => `${turn.role} ${turn.parts.length}`)).toEqual([
      'user 1',
      'assistant 2',
      'tool 2',
      'user 2',
    ])
  })

  test('the envelopes output and error are removed, and any other object is the result', () => {
    const content = (response: unknown) =>
      read({ contents: [user({ functionResponse: { name: 'f', response } })] }).turns[0]!.parts[0]
    expect(content({ output: 'x' })).toMatchObject({ content: [{ text: 'x' }] })
    expect(content({ error: 'no' })).toMatchObject({ content: [{ text: 'no' }], isError: true })
    expect(content({ output: { a: 1 } })).toMatchObject({ content: [{ text: '{"a":1}' }] })
    expect(content({ result: 'x', output: 1 })).toMatchObject({ content: [{ text: '{"result":"x","output":1}' }] })
  })

  test('arguments keep key order and big integers', () => {
    const text =
      '{"contents":[{"role":"model","parts":[{"function_call":' +
      '{"name":"f","args":{"z":12345678901234567890,"a":1.0}}}]}]}'
    const request = readRequest({ body: JSON.parse(text), text, model: 'm', headers: new Headers() })
    expect(request.turns[0]!.parts[0]).toMatchObject({ arguments: '{"z":12345678901234567890,"a":1.0}' })
  })
})

describe('signatures', () => {
  test('wrapped signatures are unwrapped, and a signature without text belongs to the text before it', () => {
    const wrapped = wrapSignature('sig', { provider: 'p', model: 'm' })
    const { turns } = read({
      contents: [
        model(
          { text: 'think', thought: true },
          { text: 'ing', thought: true },
          { text: '', thought: true, thoughtSignature: wrapped },
          { text: 'hi' },
          { text: '', thoughtSignature: 'plain' },
          { ...call('f', 'x'), thoughtSignature: 'c2ln' },
        ),
      ],
    })
    expect(withoutPaths(turns[0]!.parts)).toEqual([
      { type: 'reasoning', text: 'thinking', signature: { data: 'sig', issuer: { provider: 'p', model: 'm' } } },
      { type: 'text', text: 'hi', signature: { data: 'plain' } },
      {
        type: 'tool-call',
        id: 'x',
        name: 'f',
        arguments: '{"b":1,"a":2}',
        form: 'function',
        signature: { data: 'c2ln' },
      },
    ])
  })

  test('pieces of a text of the model are one text, and parts of the user stay apart', () => {
    const pieces = [{ text: 'First.' }, { text: '\n\n' }, { text: 'Second.' }]
    const { turns } = read({ contents: [user(...pieces), model(...pieces, call('f'), { text: 'Third.' })] })
    expect(turns.map(({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : part.type)))).toEqual([
      ['First.', '\n\n', 'Second.'],
      ['First.\n\nSecond.', 'tool-call', 'Third.'],
    ])
  })

  test('a wrapped signature on the text behind unsigned reasoning is that of the reasoning', () => {
    const issuer = { provider: 'p', model: 'm' }
    const moved = { text: 'Let me see.', thoughtSignature: wrapSignature('sig', issuer) }
    const { turns } = read({ contents: [model({ text: 'a', thought: true }, moved)] })
    expect(withoutPaths(turns[0]!.parts)).toEqual([
      { type: 'reasoning', text: 'a', signature: { data: 'sig', issuer } },
      { type: 'text', text: 'Let me see.' },
    ])
  })

  test('redacted reasoning does not sign the reasoning before it', () => {
    const issuer = { provider: 'p', model: 'm' }
    const hidden = { text: '', thought: true, thoughtSignature: wrapSignature('e', issuer, 'hidden') }
    const { turns } = read({ contents: [model({ text: 'a', thought: true }, hidden, { text: 'b' })] })
    expect(withoutPaths(turns[0]!.parts)).toEqual([
      { type: 'reasoning', text: 'a' },
      { type: 'reasoning', text: '', redacted: true, signature: { data: 'e', issuer, note: 'hidden' } },
      { type: 'text', text: 'b' },
    ])
  })

  test('reasoning with only a signature is redacted', () => {
    const contents = [model({ text: '', thought: true, thoughtSignature: 'c2ln' }, { text: 'x' })]
    expect(withoutPaths(read({ contents }).turns[0]!.parts[0]!)).toEqual({
      type: 'reasoning',
      text: '',
      redacted: true,
      signature: { data: 'c2ln' },
    })
  })

  test('a part with only a signature signs the text before it, and is a part of its own where there is none', () => {
    const signed = { thoughtSignature: 'c2ln' }
    const partsOf = (...parts: unknown[]) => withoutPaths(read({ contents: [model(...parts)] }).turns[0]!.parts)
    const signature = { data: 'c2ln' }
    expect(partsOf({ text: 'a' }, signed)).toEqual([{ type: 'text', text: 'a', signature }])
    expect(partsOf(signed)).toEqual([{ type: 'text', text: '', signature }])
    expect(partsOf({ thought: true, ...signed })).toMatchObject([{ type: 'reasoning', text: '', signature }])
  })

  test("Google's own parts are kept as they are", () => {
    expect(
      read({ contents: [model({ executableCode: { code: 'x' }, thoughtSignature: 's' })] }).turns[0]!.parts,
    ).toEqual([
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'executableCode',
        value: { executableCode: { code: 'x' }, thoughtSignature: 's' },
        path: 'contents[0].parts[0].executableCode',
        steps: [{ type: 'code', id: '', code: 'x' }],
      },
    ])
  })
})

describe('the path', () => {
  /** The path of each turn and part, in order. */
  const pathsOf = (body: Json): unknown[] =>
    read(body).turns.map((turn) => [
      turn.role,
      turn.path,
      turn.parts.map((part) =>
        part.type === 'tool-result' ? [part.path, part.content.map(({ path }) => path)] : part.path,
      ),
    ])

  test('of each turn and part is the exact position in the body', () => {
    const media = { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
    const contents = [
      user({ text: 'a' }, media),
      model({ text: 'hm', thought: true }, { text: 'b' }, call('f', 'x'), { function_call: { name: 'g' } }),
      user({ functionResponse: { id: 'x', name: 'f', response: { a: 1 }, parts: [media] } }, { text: 'c' }),
      user({ function_response: { name: 'g', response: { output: 'o' } } }),
    ]
    expect(pathsOf({ contents })).toEqual([
      ['user', 'contents[0]', ['contents[0].parts[0]', 'contents[0].parts[1]']],
      [
        'assistant',
        'contents[1]',
        ['contents[1].parts[0]', 'contents[1].parts[1]', 'contents[1].parts[2]', 'contents[1].parts[3]'],
      ],
      [
        'tool',
        'contents[2]',
        [
          [
            'contents[2].parts[0]',
            ['contents[2].parts[0].functionResponse.response', 'contents[2].parts[0].functionResponse.parts[0]'],
          ],
        ],
      ],
      ['user', 'contents[2]', ['contents[2].parts[1]']],
      ['tool', 'contents[3]', [['contents[3].parts[0]', ['contents[3].parts[0].function_response.response.output']]]],
    ])
  })

  test('of text that continues in the next content is that of its first piece', () => {
    const contents = [model({ text: 'a' }), model({ text: 'b' }, call('f'))]
    expect(pathsOf({ contents })).toEqual([
      ['assistant', 'contents[0]', ['contents[0].parts[0]', 'contents[1].parts[1]']],
    ])
  })
})
