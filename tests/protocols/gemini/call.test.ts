import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { GenerationRequest, Part, Turn } from '../../../src/generation/request.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { gemini } from '../../../src/protocols/gemini/index.ts'
import type { Loss, Target } from '../../../src/protocols/protocol.ts'
import { asked, exchangeOf, hello, read, targetOf, wireOf } from './kit.ts'

/** Requests to providers of generateContent. */

const write = (more: Partial<GenerationRequest> = {}, capabilities: Target['capabilities'] = {}) => {
  const { body, losses } = gemini.call.writeRequest(asked(more), targetOf(capabilities))
  return {
    body: JSON.parse(JSON.stringify(body)),
    text: JSON.stringify(body),
    losses: [...new Set(losses.map(({ field, of, what }) => `${field} ${of === undefined ? '' : `${of} `}${what}`))],
  }
}
const contents = (turns: Turn[], capabilities: Target['capabilities'] = {}) =>
  write({ turns }, capabilities).body.contents
const user = (...parts: Part[]): Turn => ({ role: 'user', parts })
const assistant = (...parts: Part[]): Turn => ({ role: 'assistant', parts })
const text = (words: string): Part => ({ type: 'text', text: words })
const call = (id: string, args = '{}', more = {}): Part => ({
  type: 'tool-call',
  id,
  name: `f_${id}`,
  arguments: args,
  form: 'function',
  ...more,
})
const result = (id: string, words: string, more = {}): Part => ({
  type: 'tool-result',
  callId: id,
  content: [{ type: 'text', text: words }],
  form: 'function',
  ...more,
})
const results = (...parts: Part[]): Turn => ({ role: 'tool', parts })
const own = { issuer: { provider: 'p', model: 'm' } }

test('paths', () => {
  expect(gemini.call.path(targetOf(), false)).toBe('/models/m:generateContent')
  expect(gemini.call.path({ ...targetOf(), model: 'a/b?c' }, true)).toBe(
    '/models/a/b%3Fc:streamGenerateContent?alt=sse',
  )
})

describe('conversation', () => {
  test('instructions lead, roles are merged, empty text is left out', () => {
    expect(
      write({
        system: [text('Be kind.')],
        turns: [user(text('a')), user(text('')), user(text('b')), assistant(text('c'))],
      }).body,
    ).toEqual({
      systemInstruction: { parts: [{ text: 'Be kind.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'a' }, { text: 'b' }] },
        { role: 'model', parts: [{ text: 'c' }] },
      ],
    })
  })

  test('instructions alone are sent as a user turn, later ones as marked text', () => {
    expect(write({ system: [text('Go.')], turns: [] })).toMatchObject({
      body: { contents: [{ role: 'user', parts: [{ text: 'Go.' }] }] },
      losses: ['system approximated'],
    })
    expect(write({ turns: [user(text('a')), { role: 'system', parts: [text('b')] }] })).toMatchObject({
      body: { contents: [{ parts: [{ text: 'a' }, { text: '<system>\n' }, { text: 'b' }, { text: '\n</system>' }] }] },
      losses: ['instruction system approximated'],
    })
  })

  test('results follow their calls, in the order of the calls, every call answered', () => {
    const turns = [
      user(text('a')),
      assistant(call('1'), call('2'), call('3')),
      user(text('wait')),
      results(result('2', 'two'), result('1', '{"n":1}')),
    ]
    expect(contents(turns).slice(2)).toEqual([
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
  })

  test('calls nobody answered get an error, but for the last turn', () => {
    expect(contents([assistant(call('1')), user(text('a'))])[1].parts).toMatchObject([
      { functionResponse: { id: '1', response: { error: expect.any(String) } } },
      { text: 'a' },
    ])
    expect(contents([user(text('a')), assistant(call('1'))])).toHaveLength(2)
  })

  test('a result without its call is text, a failed one an error', () => {
    expect(contents([user(text('a')), results(result('9', 'nine'))])).toEqual([
      { role: 'user', parts: [{ text: 'a' }, { text: 'Result of 9:' }, { text: 'nine' }] },
    ])
    expect(
      contents([assistant(call('1')), results(result('1', '{"a":1}', { isError: true }))])[1].parts[0].functionResponse
        .response,
    ).toEqual({ error: '{"a":1}' })
  })

  test('an id used again in a later turn pairs with its own result', () => {
    const answers = contents([
      assistant(call('1')),
      results(result('1', 'first')),
      assistant(call('1')),
      results(result('1', 'second')),
    ]).flatMap((one: any) => one.parts.flatMap((part: any) => part.functionResponse?.response ?? []))
    expect(answers).toEqual([{ output: 'first' }, { output: 'second' }])
  })

  test('arguments keep key order and big integers; cut ones are empty', () => {
    expect(write({ turns: [assistant(call('1', '{"z":12345678901234567890,"a":1}'))] }).text).toContain(
      '"args":{"z":12345678901234567890,"a":1}',
    )
    expect(contents([assistant(call('1', '{"a":'))])[0].parts[0].functionCall.args).toEqual({})
  })

  test.each(['1.0', '12345678901234567890', '-0'])('a number is no object, however it is spelled (%s)', (number) => {
    const [said, answered] = contents([assistant(call('1', number)), results(result('1', number))])
    expect([said.parts[0].functionCall.args, answered.parts[0].functionResponse.response]).toEqual([
      {},
      { output: number },
    ])
  })

  test('media of a result stand inside it where the model takes them, beside it elsewhere', () => {
    const image: Part = { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }
    const turns = [
      assistant(call('1')),
      results({ ...result('1', 'x'), content: [{ type: 'text', text: 'x' }, image] } as Part),
    ]
    const inline = { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
    expect(contents(turns, { reasoning: 'level' })[1].parts).toEqual([
      { functionResponse: { id: '1', name: 'f_1', response: { output: 'x' }, parts: [inline] } },
    ])
    expect(contents(turns)[1].parts).toEqual([
      { functionResponse: { id: '1', name: 'f_1', response: { output: 'x' } } },
      inline,
    ])
  })

  test('media by bytes, address and text', () => {
    expect(
      contents([
        user(
          { type: 'image', source: { type: 'url', url: 'https://example.com/a.JPG?x=1' } },
          { type: 'file', source: { type: 'url', url: 'https://example.com/doc', mediaType: 'application/pdf' } },
          { type: 'file', source: { type: 'text', text: 'é', mediaType: 'text/plain' } },
        ),
      ])[0].parts,
    ).toEqual([
      { fileData: { mimeType: 'image/jpeg', fileUri: 'https://example.com/a.JPG?x=1' } },
      { fileData: { mimeType: 'application/pdf', fileUri: 'https://example.com/doc' } },
      { inlineData: { mimeType: 'text/plain', data: 'w6k=' } },
    ])
    expect(() => contents([user({ type: 'file', source: { type: 'file', id: 'file-1' } })])).toThrow(
      'a file that is stored elsewhere',
    )
  })

  test('detail is a resolution where the model takes one', () => {
    const image: Part = {
      type: 'image',
      detail: 'high',
      source: { type: 'data', mediaType: 'image/png', data: 'AAAA' },
    }
    expect(contents([user(image)], { reasoning: 'level' })[0].parts[0].mediaResolution).toEqual({
      level: 'MEDIA_RESOLUTION_HIGH',
    })
    expect(write({ turns: [user(image)] }).losses).toEqual(['detail left out'])
    expect(write({ turns: [user({ ...image, detail: 'auto' } as Part)] }).losses).toEqual([])
  })
})

describe('signatures', () => {
  const mine = { signature: { data: 'sig', ...own } }
  const other = { signature: { data: 'sig', issuer: { provider: 'x', model: 'm' } } }

  test('go back to their maker, on their parts', () => {
    expect(
      contents([
        assistant(
          { type: 'reasoning', text: 'hm', ...mine },
          { type: 'text', text: 'a', ...mine },
          call('1', '{}', mine),
        ),
      ])[0].parts,
    ).toMatchObject([
      { text: 'hm', thought: true, thoughtSignature: 'sig' },
      { text: 'a', thoughtSignature: 'sig' },
      { functionCall: { id: '1' }, thoughtSignature: 'sig' },
    ])
  })

  test("another's, or none, is left out with its reasoning", () => {
    const { body, losses } = write({
      turns: [
        assistant(
          { type: 'reasoning', text: 'hm', ...other },
          { type: 'reasoning', text: 'hm' },
          text('a'),
          call('1', '{}', other),
        ),
      ],
    })
    expect(JSON.stringify(body)).not.toMatch(/hm|thoughtSignature/)
    expect(losses).toEqual(['signature 1 left out', 'thoughts left out'])
  })

  test('thoughts without one are its own beside a signature of this model', () => {
    const { body, losses } = write({
      turns: [
        user(text('a')),
        assistant({ type: 'reasoning', text: 'hm' }, call('1', '{}', mine)),
        results(result('1', 'x')),
      ],
    })
    expect(body.contents[1].parts).toMatchObject([
      { text: 'hm', thought: true },
      { functionCall: { id: '1' }, thoughtSignature: 'sig' },
    ])
    expect(losses).toEqual([])
  })

  test('models that take levels get the word for unsigned calls, on the first of each turn', () => {
    const signatures = (turns: Turn[]) =>
      contents(turns, { reasoning: 'level' }).flatMap((one: any) =>
        one.parts.flatMap((part: any) => ('functionCall' in part ? [part.thoughtSignature] : [])),
      )
    expect(
      signatures([assistant(call('1'), call('2')), results(result('1', 'x'), result('2', 'x')), assistant(call('3'))]),
    ).toEqual(['skip_thought_signature_validator', undefined, 'skip_thought_signature_validator'])
    expect(signatures([assistant(call('1', '{}', mine), call('2'))])).toEqual(['sig', undefined])
  })
})

describe('tools and settings', () => {
  test('tools are JSON Schema; names Google refuses are exchanged everywhere alike', () => {
    const { body } = write({
      tools: [
        { type: 'function', name: 'f', description: 'd', parameters: { type: 'object', additionalProperties: false } },
        { type: 'function', name: '1 f' },
      ],
      toolChoice: { type: 'tool', name: '1 f' },
      turns: [assistant({ type: 'tool-call', id: '1', name: '1 f', arguments: '', form: 'function' })],
    })
    const { functionDeclarations } = body.tools[0]
    expect(functionDeclarations[0]).toEqual({
      name: 'f',
      description: 'd',
      parametersJsonSchema: { type: 'object', additionalProperties: false },
    })
    expect(body.toolConfig.functionCallingConfig).toEqual({
      mode: 'ANY',
      allowedFunctionNames: [functionDeclarations[1].name],
    })
    expect(body.contents[0].parts[0].functionCall.name).toBe(functionDeclarations[1].name)
  })

  test('names that look alike when repaired stay different', () => {
    const names = write({
      tools: [
        { type: 'function', name: '1 f' },
        { type: 'function', name: '1_f' },
        { type: 'function', name: 'x'.repeat(80) },
      ],
    }).body.tools[0].functionDeclarations.map((one: { name: string }) => one.name)
    expect(new Set(names).size).toBe(3)
    for (const name of names) expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/)
  })

  test('strict tools are calls that are validated, and cache marks are said once', () => {
    const tool = { type: 'function', strict: true, cache: {} } as const
    const tools = [
      { ...tool, name: 'a' },
      { ...tool, name: 'b' },
      { type: 'custom', name: 'c' },
    ] as const
    expect(write({ tools: [...tools] }).losses).toEqual(['tool.cache left out'])
    for (const toolChoice of [{}, { toolChoice: { type: 'auto' } }] as const)
      expect(write({ tools: [...tools], ...toolChoice }).body.toolConfig).toEqual({
        functionCallingConfig: { mode: 'VALIDATED' },
      })
    expect(write({ tools: [...tools], toolChoice: { type: 'required' } }).body.toolConfig).toEqual({
      functionCallingConfig: { mode: 'ANY' },
    })
    const some: GenerationRequest['tools'] = [
      { type: 'function', strict: true, name: 'a' },
      { type: 'function', name: 'b' },
    ]
    expect(write({ tools: some })).toMatchObject({
      body: { tools: [{ functionDeclarations: [{ name: 'a' }, { name: 'b' }] }] },
      losses: ['tool.strict a left out'],
    })
    expect(write({ tools: some }).body.toolConfig).toBeUndefined()
    expect(write({ tools: some, toolChoice: { type: 'auto' } })).toMatchObject({
      body: { toolConfig: { functionCallingConfig: { mode: 'AUTO' } } },
      losses: ['tool.strict a left out'],
    })
    const choices: GenerationRequest['toolChoice'][] = [
      { type: 'none' },
      { type: 'required' },
      { type: 'allowed', names: ['a'], required: false },
    ]
    for (const toolChoice of choices) expect(write({ tools: some, toolChoice }).losses).toEqual([])
    expect(write({ tools: [{ type: 'function', name: 'a', strict: false }] })).toMatchObject({
      body: { tools: [{ functionDeclarations: [{ name: 'a' }] }] },
      losses: [],
    })
    for (const turns of [
      [assistant(call('1')), results({ ...result('1', 'x'), cache: {} } as Part)],
      [assistant({ ...call('1'), cache: {} } as Part)],
    ])
      expect(write({ turns }).losses).toEqual(['cache left out'])
  })

  test('choices', () => {
    const mode = (toolChoice: GenerationRequest['toolChoice']) =>
      write({ tools: [{ type: 'function', name: 'a' }], toolChoice }).body.toolConfig?.functionCallingConfig
    expect(mode({ type: 'auto' })).toEqual({ mode: 'AUTO' })
    expect(mode({ type: 'none' })).toEqual({ mode: 'NONE' })
    expect(mode({ type: 'required' })).toEqual({ mode: 'ANY' })
    expect(mode({ type: 'allowed', names: ['a'], required: true })).toEqual({
      mode: 'ANY',
      allowedFunctionNames: ['a'],
    })
    expect(mode({ type: 'allowed', names: ['a'], required: false })).toEqual({
      mode: 'VALIDATED',
      allowedFunctionNames: ['a'],
    })
    expect(write({ toolChoice: { type: 'none' } }).body.toolConfig).toBeUndefined()
  })

  test('foreign tools: refused, or left out where they may be', () => {
    const tool = { type: 'native', protocol: 'responses', kind: 'shell', value: {} } as const
    expect(() => write({ tools: [tool] })).toThrow(/shell/)
    expect(write({ tools: [{ ...tool, optional: true }] })).toMatchObject({
      losses: ['tool shell left out'],
      body: { contents: [{}] },
    })
  })

  test('web search is googleSearch, which does not go with functions', () => {
    expect(write({ webSearch: {} }).body.tools).toEqual([{ googleSearch: {} }])
    expect(write({ webSearch: {}, tools: [{ type: 'function', name: 'a' }] })).toMatchObject({
      losses: ['webSearch left out'],
    })
  })

  test('settings are carried', () => {
    expect(
      write({
        sampling: {
          temperature: 0,
          topP: 0.5,
          topK: 3,
          seed: 0,
          presencePenalty: -2,
          frequencyPenalty: 0,
          stop: ['x'],
          logprobs: true,
          topLogprobs: 2,
        },
        maxOutputTokens: 9,
        outputModalities: ['text', 'image'],
      }).body.generationConfig,
    ).toEqual({
      temperature: 0,
      topP: 0.5,
      topK: 3,
      seed: 0,
      presencePenalty: -2,
      frequencyPenalty: 0,
      stopSequences: ['x'],
      responseLogprobs: true,
      logprobs: 2,
      maxOutputTokens: 9,
      responseModalities: ['TEXT', 'IMAGE'],
    })
  })

  test("a limit above the model's own is the model's own", () => {
    expect(write({ maxOutputTokens: 100 }, { maxOutputTokens: 64 })).toMatchObject({
      body: { generationConfig: { maxOutputTokens: 64 } },
      losses: ['maxOutputTokens approximated'],
    })
    expect(write({ maxOutputTokens: 64 }, { maxOutputTokens: 64 }).losses).toEqual([])
  })

  test('what cannot be carried is said', () => {
    const { body, losses } = write({
      sampling: { stop: ['1', '2', '3', '4', '5', '6'], logitBias: { 1: 2 }, presencePenalty: 2, seed: 2 ** 40 },
      user: 'u',
      metadata: { a: 1 },
      parallelTools: false,
      serviceTier: 'flex',
      cacheKey: 'k',
      verbosity: 'low',
    })
    expect(body.generationConfig).toEqual({ stopSequences: ['1', '2', '3', '4', '5'], presencePenalty: 1.99 })
    expect(losses.sort()).toEqual([
      'cacheKey left out',
      'logitBias left out',
      'metadata left out',
      'parallelTools left out',
      'presencePenalty approximated',
      'seed left out',
      'serviceTier left out',
      'stop approximated',
      'user left out',
      'verbosity left out',
    ])
  })

  test('output formats', () => {
    const format = (outputFormat: GenerationRequest['outputFormat']) => write({ outputFormat }).body.generationConfig
    expect(format({ type: 'json' })).toEqual({ responseMimeType: 'application/json' })
    expect(format({ type: 'schema', schema: { type: 'object' }, name: 'n', strict: true })).toEqual({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'object' },
    })
    expect(format({ type: 'enum', schema: { type: 'string', enum: ['a'] } })).toEqual({
      responseMimeType: 'text/x.enum',
      responseSchema: { type: 'STRING', enum: ['a'] },
    })
  })
})

describe('reasoning', () => {
  const thinking = (reasoning: GenerationRequest['reasoning'], capabilities: Target['capabilities'] = {}) => {
    const { body, losses } = write({ reasoning }, capabilities)
    return [body.generationConfig?.thinkingConfig, losses]
  }
  const pro = { reasoning: 'budget', budget: { min: 128, max: 32768 } } as const

  test('as a level', () => {
    expect(thinking({ effort: 'low' }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'LOW', includeThoughts: true },
      [],
    ])
    expect(thinking({ effort: 'max', visible: false }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'HIGH' },
      ['reasoning.effort approximated'],
    ])
    expect(thinking({ effort: 'none' }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'MINIMAL' },
      ['reasoning.effort approximated'],
    ])
    expect(thinking({ budgetTokens: 5000 }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'MEDIUM', includeThoughts: true },
      ['reasoning.budgetTokens approximated'],
    ])
    expect(thinking({ adaptive: true }, { reasoning: 'level' })).toEqual([{ includeThoughts: true }, []])
  })

  test('as a budget, within the model', () => {
    expect(thinking({ effort: 'medium' })).toEqual([
      { thinkingBudget: 8192, includeThoughts: true },
      ['reasoning.effort approximated'],
    ])
    expect(thinking({ effort: 'high' }, { reasoning: 'budget', budget: { min: 0, max: 20000 } })).toEqual([
      { thinkingBudget: 20000, includeThoughts: true },
      ['reasoning.effort approximated'],
    ])
    expect(thinking({ budgetTokens: 5000 }, pro)).toEqual([{ thinkingBudget: 5000, includeThoughts: true }, []])
    expect(thinking({ budgetTokens: 64 }, pro)).toEqual([
      { thinkingBudget: 128, includeThoughts: true },
      ['reasoning.budgetTokens approximated'],
    ])
    expect(thinking({ effort: 'none' }, pro)).toEqual([{ thinkingBudget: 128 }, ['reasoning.effort approximated']])
    expect(thinking({ effort: 'none' })).toEqual([{ thinkingBudget: 0 }, []])
    expect(thinking({ budgetTokens: -1 })).toEqual([{ thinkingBudget: -1, includeThoughts: true }, []])
  })

  test('of a model that does not', () => {
    expect(thinking({ effort: 'high' }, { reasoning: 'none' })).toEqual([undefined, ['reasoning left out']])
    expect(thinking({ effort: 'none' }, { reasoning: 'none' })).toEqual([undefined, []])
  })
})

test('read(write(x)) keeps the conversation and the settings', () => {
  const words = fc.string({ minLength: 1, maxLength: 8 })
  const args = fc
    .dictionary(fc.constantFrom('b', 'a', 'c'), fc.oneof(fc.string(), fc.integer()), { maxKeys: 3 })
    .map((value) => JSON.stringify(value))
  const step = fc.tuple(words, fc.array(args, { maxLength: 3 }), words)
  const request = fc.record({
    steps: fc.array(step, { minLength: 1, maxLength: 4 }),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    maxOutputTokens: fc.integer({ min: 1, max: 1e6 }),
    stop: fc.array(words, { minLength: 1, maxLength: 5 }),
    system: words,
  })
  fc.assert(
    fc.property(request, ({ steps, temperature, maxOutputTokens, stop, system }) => {
      const turns = steps.flatMap(([question, calls, answer], round): Turn[] => [
        user(text(question)),
        ...(calls.length === 0
          ? []
          : [
              assistant(...calls.map((one, index) => call(`${round}_${index}`, one))),
              results(...calls.map((_, index) => result(`${round}_${index}`, answer, { name: `f_${round}_${index}` }))),
            ]),
        assistant(text(answer)),
      ])
      const sent = asked({ turns, system: [text(system)], sampling: { temperature, stop }, maxOutputTokens })
      const {
        turns: back,
        system: instructions,
        sampling,
        maxOutputTokens: limit,
      } = read(gemini.call.writeRequest(sent, targetOf()).body)
      expect({ back, instructions, sampling, limit }).toEqual({
        back: turns,
        instructions: sent.system,
        sampling: sent.sampling,
        limit: maxOutputTokens,
      })
    }),
    { numRuns: 200 },
  )
})

describe('same protocol on both sides', () => {
  test('the body travels as it is', () => {
    const context = exchangeOf()
    context.rawRequest.text = '{ "contents": [{"parts":[{"text":"a"}]}], "x": 12345678901234567890 }'
    expect(gemini.call.forward(context, targetOf())).toBe(context.rawRequest.text)
    const named = { ...context, rawRequest: wireOf(hello({ model: 'acme/model', z: 1 })) }
    expect(JSON.parse(gemini.call.forward(named, targetOf()))).toEqual(hello({ model: 'm', z: 1 }))
  })

  test('signatures sealed for another model are not sent to this one', () => {
    const signed = (thoughtSignature: string) => ({
      contents: [{ role: 'model', parts: [{ functionCall: { name: 'f' }, thoughtSignature }] }],
    })
    const sent = (thoughtSignature: string, capabilities = {}) => {
      const context = { ...exchangeOf(), rawRequest: wireOf(signed(thoughtSignature)) }
      return JSON.parse(gemini.call.forward(context, targetOf(capabilities))).contents[0].parts[0].thoughtSignature
    }
    expect(sent('cGxhaW4=')).toBe('cGxhaW4=')
    expect(sent(wrapSignature('sig', own.issuer))).toBe('sig')
    expect(sent(wrapSignature('sig', { provider: 'x', model: 'y' }))).toBe('')
    expect(sent(wrapSignature('sig', { provider: 'x', model: 'y' }), { reasoning: 'level' })).toBe(
      'skip_thought_signature_validator',
    )
  })

  test('of what others signed, words and calls are sent; their thoughts stay behind, and the word for an unsigned call is told', () => {
    const theirs = (data: string) => wrapSignature(data, { provider: 'x', model: 'y' })
    const contents = [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'hm', thought: true, thoughtSignature: theirs('a') }] },
      {
        role: 'model',
        parts: [
          { text: 'so', thought: true, thought_signature: theirs('b') },
          { text: 'x', thoughtSignature: theirs('c') },
          { functionCall: { name: 'f', id: 'c1' }, thoughtSignature: theirs('d') },
          { functionCall: { name: 'f', id: 'c2' }, thoughtSignature: theirs('e') },
        ],
      },
      { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'f', response: { n: 1 } } }] },
      {
        role: 'model',
        parts: [
          { text: 'own', thought: true, thoughtSignature: wrapSignature('f', own.issuer) },
          { functionCall: { name: 'f', id: 'c3' }, thoughtSignature: wrapSignature('g', own.issuer) },
          { functionCall: { name: 'f', id: 'c4' }, thoughtSignature: theirs('h') },
        ],
      },
      { role: 'user', parts: [{ text: 'n' }] },
    ]
    const text = JSON.stringify({ contents, x: 1 }).replace('"n":1', '"n": 12345678901234567890')
    const context = { ...exchangeOf(), rawRequest: { ...wireOf({ contents }), text } }
    const losses: Loss[] = []
    const sent = gemini.call.forward(context, targetOf({ reasoning: 'level' }), losses)
    expect(sent).toContain('"n": 12345678901234567890')
    expect(JSON.parse(sent).contents).toEqual([
      contents[0],
      {
        role: 'model',
        parts: [
          { text: 'x', thoughtSignature: '' },
          { functionCall: { name: 'f', id: 'c1' }, thoughtSignature: 'skip_thought_signature_validator' },
          { functionCall: { name: 'f', id: 'c2' }, thoughtSignature: '' },
        ],
      },
      { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'f', response: { n: 12345678901234567890 } } }] },
      {
        role: 'model',
        parts: [
          { text: 'own', thought: true, thoughtSignature: 'f' },
          { functionCall: { name: 'f', id: 'c3' }, thoughtSignature: 'g' },
          { functionCall: { name: 'f', id: 'c4' }, thoughtSignature: '' },
        ],
      },
      contents[5],
    ])
    expect(losses.map(({ field, of, what }) => [field, of, what])).toEqual([['signature', 'c1', 'approximated']])
  })

  test('answers get our id and model name and keep the rest', () => {
    const passthrough = gemini.passthrough(exchangeOf())
    const data =
      '{"candidates":[{"content":{"parts":[{"functionCall":{"args":{"responseId":"up-1","n":12345678901234567890}}}]}}],"responseId": "up-1","modelVersion":"up","new":1.0}'
    const relabelled = data.replace('"responseId": "up-1"', '"responseId": "gen-1"').replace('"up"', '"acme/model"')
    expect(passthrough.frame({ data })).toEqual({ data: relabelled })
    expect(passthrough.answer(data)).toBe(relabelled)
    expect(JSON.parse(passthrough.frame({ data: '{"candidates":[]}' })!.data)).toEqual({
      candidates: [],
      responseId: 'gen-1',
      modelVersion: 'acme/model',
    })
    expect(passthrough.frame({ data: '[DONE]' })).toBeUndefined()
  })

  test('a failure is a bare error object, whoever says it', () => {
    const passthrough = gemini.passthrough(exchangeOf())
    const frame = passthrough.frame({
      bare: true,
      data: '{\n "error": {"code": 503, "message": "Busy, AIzaSyA1234567890.", "status": "UNAVAILABLE"}}',
    })!
    expect(frame.bare).toBe(true)
    expect(JSON.parse(frame.data)).toMatchObject({ error: { code: 503, status: 'UNAVAILABLE' } })
    expect(frame.data).not.toContain('AIza')
  })
})

describe('errors of the provider', () => {
  const body = (error: unknown) => JSON.stringify({ error })
  test.each<[string, number, string, Record<string, unknown>]>([
    [
      'bad key in a 400',
      400,
      body({
        code: 400,
        message: 'API key not valid.',
        status: 'INVALID_ARGUMENT',
        details: [{ reason: 'API_KEY_INVALID' }],
      }),
      { code: 'upstream_error', status: 502 },
    ],
    [
      'bad request',
      400,
      body({ code: 400, message: 'Bad schema.', details: [{ fieldViolations: [{ field: 'contents' }] }] }),
      { code: 'invalid_request', status: 400, message: 'Bad schema.', param: 'contents' },
    ],
    [
      'in an array',
      404,
      `[${body({ code: 404, message: 'models/x is not found' })}]`,
      { code: 'model_not_found', status: 404 },
    ],
    [
      'rate',
      429,
      body({
        code: 429,
        message: 'Quota.',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.4s' }],
      }),
      { code: 'upstream_rate_limited', status: 429, retryAfterSeconds: 35 },
    ],
    ['page', 502, '<html><body>Bad gateway</body></html>', { code: 'upstream_error', status: 502 }],
    ['nothing', 503, '', { code: 'overloaded', status: 503 }],
    [
      'too long',
      400,
      body({ message: 'The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).' }),
      { code: 'context_length_exceeded', status: 400 },
    ],
  ])('%s', (_, status, answer, expected) => {
    expect(gemini.call.readError(status, answer)).toMatchObject(expected)
  })
})
