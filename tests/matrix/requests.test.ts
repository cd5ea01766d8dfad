import { describe, expect, test } from 'bun:test'
import type { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { codesAndPaths, HELLO, type Json, others, type Sent, send, sendOrRefuse } from './routes.ts'

/** Details of a request that are easily lost, or reported under a path that is not the client's. */

const chat = (more: Json): Json => ({ ...HELLO['chat.completions'], ...more })

const functionTool = (parameters: Json, more: Json = {}): Json => ({
  type: 'function',
  function: { name: 'f', parameters, ...more },
})

const CLOSED = { type: 'object', properties: {}, additionalProperties: false }

/** Losses of a request, but for the output limit that messages requires. */
const lossesOf = ({ losses }: Sent): string[] => codesAndPaths(losses.filter(({ code }) => code !== 'limit_required'))

describe('a translated request', () => {
  test.each(others('messages'))('with a search result in a tool result is sent to %s with its text', (provider) => {
    const found = {
      type: 'search_result',
      source: 'https://a.example',
      title: 'Found',
      content: [{ type: 'text', text: 'The words.' }],
    }
    const { text, losses } = send('messages', provider, {
      ...HELLO.messages,
      tools: [{ name: 'f', input_schema: { type: 'object' } }],
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: [found] }] },
      ],
    })
    expect(text).toMatch(/"(content|output)":"Found\\nhttps:\/\/a\.example\\nThe words\."/)
    expect(losses).toEqual([])
  })

  test.each(others('chat.completions'))('is sent to %s with the integers of its schemas as spelled', (provider) => {
    const properties = { a: { const: 'A' }, b: { type: 'integer', minimum: 'B', maximum: 'C' } }
    const spelled = JSON.stringify(chat({ tools: [functionTool({ type: 'object', properties })] }))
      .replace('"A"', '12345678901234567890')
      .replace('"B"', '-9007199254740993')
      .replace('"C"', '9223372036854775807')
    const { text } = send('chat.completions', provider, spelled)
    for (const number of ['12345678901234567890', '"minimum":-9007199254740993', '"maximum":9223372036854775807'])
      expect(text).toContain(number)
  })
})

describe('a strict tool', () => {
  const google = (schema: Json): Json => ({
    ...HELLO.generateContent,
    tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: schema }] }],
    toolConfig: { functionCallingConfig: { mode: 'VALIDATED' } },
  })

  test("is sent to generateContent as the mode 'VALIDATED'", () => {
    const tools = [functionTool(CLOSED, { strict: true })]
    const { body, losses } = send('chat.completions', 'generateContent', chat({ tools }))
    expect([body.toolConfig, losses]).toEqual([{ functionCallingConfig: { mode: 'VALIDATED' } }, []])
  })

  test("of the mode 'VALIDATED' is strict for chat completions and messages", () => {
    expect(send('generateContent', 'chat.completions', google(CLOSED)).body.tools[0].function.strict).toBe(true)
    expect(send('generateContent', 'messages', google(CLOSED)).body.tools[0].strict).toBe(true)
  })

  test('is reported as not enforced if its schema is open', () => {
    expect(lossesOf(send('generateContent', 'responses', google({ type: 'object', properties: {} })))).toEqual([
      'strict_not_enforced toolConfig.functionCallingConfig.mode',
    ])
  })
})

describe('the losses of a request', () => {
  const question = { role: 'user', content: 'q' }

  test.each(others('responses'))('name the phase of an earlier message for %s', (provider) => {
    const commentary = { type: 'message', role: 'assistant', phase: 'commentary', content: 'a' }
    const body = { model: 'a/b', input: [question, commentary, question], max_output_tokens: 100 }
    expect(lossesOf(send('responses', provider, body))).toEqual(['native_field input[1].phase'])
  })

  test.each(['messages', 'generateContent'] as const)('name an earlier refusal that is text for %s', (provider) => {
    const refused = { role: 'assistant', content: null, refusal: 'I will not' }
    expect(
      lossesOf(send('chat.completions', provider, chat({ messages: [question, refused, question], max_tokens: 100 }))),
    ).toEqual(['content_as_text messages[1].refusal'])
    const item = { role: 'assistant', content: [{ type: 'refusal', refusal: 'I will not' }] }
    expect(lossesOf(send('responses', provider, { model: 'a/b', input: [question, item, question] }))).toEqual([
      'content_as_text input[1].content[0]',
    ])
  })

  test.each(others('messages'))('name each cache breakpoint for %s', (provider) => {
    const cache_control = { type: 'ephemeral' }
    const body = {
      model: 'a/b',
      max_tokens: 100,
      cache_control,
      tools: [{ name: 'f', input_schema: { type: 'object' }, cache_control }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'q', cache_control }] }],
    }
    expect(lossesOf(send('messages', provider, body)).toSorted()).toEqual([
      'cache_breakpoint_dropped cache_control',
      'cache_breakpoint_dropped messages[0].content[0].cache_control',
      'cache_breakpoint_dropped tools[0].cache_control',
    ])
  })

  test("have paths with indexes, in the client's spelling", () => {
    const call = (thought_signature: string): Json => ({ function_call: { name: 'f', args: {} }, thought_signature })
    const result = { function_response: { name: 'f', response: {} } }
    const contents = [
      { parts: [{ text: 'q' }] },
      { role: 'model', parts: [call('YWFh'), call('YmJi')] },
      { parts: [result, result] },
    ]
    const body = { contents, tools: [{ function_declarations: [{ name: 'f' }] }] }
    expect(lossesOf(send('generateContent', 'chat.completions', body))).toEqual([
      'signature_dropped contents[1].parts[0].thought_signature',
      'signature_dropped contents[1].parts[1].thought_signature',
    ])
  })

  test.each(['chat.completions', 'responses'] as const)(
    'name a reasoning effort that the model chooses for %s',
    (provider) => {
      const body = { ...HELLO.messages, thinking: { type: 'adaptive' } }
      expect(lossesOf(send('messages', provider, body))).toEqual(['reasoning_adjusted thinking'])
    },
  )
})

describe('a request that is refused', () => {
  const refusal = (provider: ConversationName, generation_config: Json): GatewayError => {
    const result = sendOrRefuse('generateContent', provider, { ...HELLO.generateContent, generation_config })
    if (!(result instanceof Error)) throw new Error('the request was not refused')
    return result
  }

  test.each(others('generateContent'))('has the path of an enum as the output format for %s', (provider) => {
    const { param, message } = refusal(provider, {
      response_mime_type: 'text/x.enum',
      response_schema: { type: 'STRING', enum: ['a', 'b'] },
    })
    expect(param).toBe('generation_config.response_mime_type')
    expect(message).toStartWith(`${param}: the provider of this model cannot respond with a`)
  })

  test.each(['chat.completions', 'messages'] as const)('has the path of an audio output for %s', (provider) => {
    expect(refusal(provider, { response_modalities: ['AUDIO'] }).param).toBe('generation_config.response_modalities')
  })
})
