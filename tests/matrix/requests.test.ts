import { prepared } from '../translating.ts'
import { type Loss } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import type { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'

/** What of a request is easily lost, or told of in words that are not the client's. */

type Json = Record<string, any>

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

/** `text`: as the client spells it, numbers included. */
function sent(
  client: ConversationName,
  provider: ConversationName,
  text: string,
): { text: string; body: Json; losses: readonly Loss[] } {
  const rawRequest = { body: JSON.parse(text) as Json, text, model: 'a/b', stream: false, headers: new Headers() }
  const request = protocols[client].serve.readRequest(rawRequest)
  const { body, losses } = prepared(
    {
      protocol: provider,
      baseUrl: '',
      target: { provider: 'p', model: 'm', quirks: {}, capabilities: {} },
    } as Endpoint,
    { rawRequest, request, responseIdentity: { id: 'ours', model: 'a/b', createdAt: 0 } },
  )
  return { text: body, body: JSON.parse(body) as Json, losses }
}

const others = (client: ConversationName): ConversationName[] => NAMES.filter((name) => name !== client)
const fields = (losses: readonly Loss[]): string[] => losses.map(({ path }) => path)
const tool = (
  more: Json = {},
  parameters: Json = { type: 'object', properties: {}, additionalProperties: false },
): Json => ({ type: 'function', function: { name: 'f', parameters, ...more } })
const chat = (more: Json): string =>
  JSON.stringify({ model: 'a/b', messages: [{ role: 'user', content: 'q' }], ...more })

describe('is carried', () => {
  test.each(others('messages'))('what a tool found, as text of its result, to %s', (provider) => {
    const found = {
      type: 'search_result',
      source: 'https://a.example',
      title: 'Found',
      content: [{ type: 'text', text: 'The words.' }],
    }
    const { text, losses } = sent(
      'messages',
      provider,
      JSON.stringify({
        model: 'a/b',
        max_tokens: 100,
        tools: [{ name: 'f', input_schema: { type: 'object' } }],
        messages: [
          { role: 'user', content: 'q' },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'f', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: [found] }] },
        ],
      }),
    )
    expect(text).toMatch(/"(content|output)":"Found\\nhttps:\/\/a\.example\\nThe words\."/)
    expect(losses).toEqual([])
  })

  test.each(others('chat.completions'))('each integer of a schema, as it is spelled, to %s', (provider) => {
    const spelled = chat({
      tools: [
        tool(
          {},
          { type: 'object', properties: { a: { const: 'A' }, b: { type: 'integer', minimum: 'B', maximum: 'C' } } },
        ),
      ],
    })
      .replace('"A"', '12345678901234567890')
      .replace('"B"', '-9007199254740993')
      .replace('"C"', '9223372036854775807')
    const { text } = sent('chat.completions', provider, spelled)
    for (const number of ['12345678901234567890', '"minimum":-9007199254740993', '"maximum":9223372036854775807'])
      expect(text).toContain(number)
  })

  test('strictness, as the mode in which Google validates calls, and back', () => {
    const strict = sent('chat.completions', 'generateContent', chat({ tools: [tool({ strict: true })] }))
    expect([strict.body.toolConfig, strict.losses]).toEqual([{ functionCallingConfig: { mode: 'VALIDATED' } }, []])
    const google = (schema: Json): string =>
      JSON.stringify({
        contents: [{ parts: [{ text: 'q' }] }],
        tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: schema }] }],
        toolConfig: { functionCallingConfig: { mode: 'VALIDATED' } },
      })
    const closed = { type: 'object', properties: {}, additionalProperties: false }
    expect(sent('generateContent', 'chat.completions', google(closed)).body.tools[0].function.strict).toBe(true)
    expect(sent('generateContent', 'messages', google(closed)).body.tools[0].strict).toBe(true)
    expect(fields(sent('generateContent', 'responses', google({ type: 'object', properties: {} })).losses)).toEqual([
      'toolConfig.functionCallingConfig.mode',
    ])
  })
})

describe('is told', () => {
  test.each(others('responses'))('whether an earlier message was a commentary, to %s', (provider) => {
    const input = [
      { role: 'user', content: 'q' },
      { type: 'message', role: 'assistant', phase: 'commentary', content: 'a' },
      { role: 'user', content: 'r' },
    ]
    expect(
      fields(sent('responses', provider, JSON.stringify({ model: 'a/b', input, max_output_tokens: 100 })).losses),
    ).toEqual(['input[1].phase'])
  })

  test.each(['messages', 'generateContent'] as const)('that an earlier refusal is text to %s', (provider) => {
    const messages = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: null, refusal: 'I will not' },
      { role: 'user', content: 'r' },
    ]
    expect(fields(sent('chat.completions', provider, chat({ messages, max_tokens: 100 })).losses)).toEqual([
      'messages[1].refusal',
    ])
    const input = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'I will not' }] },
      { role: 'user', content: 'r' },
    ]
    expect(
      fields(sent('responses', provider, JSON.stringify({ model: 'a/b', input, max_output_tokens: 100 })).losses),
    ).toEqual(['input[1].content[0]'])
  })

  test('each kind of cache mark, in its own place', () => {
    const mark = { type: 'ephemeral' }
    const body = {
      model: 'a/b',
      max_tokens: 100,
      cache_control: mark,
      tools: [{ name: 'f', input_schema: { type: 'object' }, cache_control: mark }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'q', cache_control: mark }] }],
    }
    for (const provider of others('messages'))
      expect(fields(sent('messages', provider, JSON.stringify(body)).losses).toSorted()).toEqual([
        'cache_control',
        'messages[0].content[0].cache_control',
        'tools[0].cache_control',
      ])
  })

  test('of lists as their client spells them', () => {
    const signed = (thought_signature: string): Json => ({ function_call: { name: 'f', args: {} }, thought_signature })
    const contents = [
      { parts: [{ text: 'q' }] },
      { role: 'model', parts: [signed('YWFh'), signed('YmJi')] },
      { parts: [1, 2].map(() => ({ function_response: { name: 'f', response: {} } })) },
    ]
    expect(
      fields(
        sent(
          'generateContent',
          'chat.completions',
          JSON.stringify({ contents, tools: [{ function_declarations: [{ name: 'f' }] }] }),
        ).losses,
      ),
    ).toEqual(['contents[1].parts[0].thought_signature', 'contents[1].parts[1].thought_signature'])
  })

  test.each(['chat.completions', 'responses'] as const)(
    'of a depth of reasoning that is left to the model, to %s',
    (provider) => {
      expect(
        fields(
          sent(
            'messages',
            provider,
            JSON.stringify({
              model: 'a/b',
              max_tokens: 100,
              thinking: { type: 'adaptive' },
              messages: [{ role: 'user', content: 'q' }],
            }),
          ).losses,
        ),
      ).toEqual(['thinking'])
    },
  )
})

describe('is refused by the path of its client', () => {
  const refusal = (provider: ConversationName, generation_config: Json): GatewayError => {
    try {
      sent('generateContent', provider, JSON.stringify({ contents: [{ parts: [{ text: 'q' }] }], generation_config }))
    } catch (error) {
      return error as GatewayError
    }
    throw new Error('it was not refused')
  }

  test.each(others('generateContent'))('a bare choice of words, by %s', (provider) => {
    const { param, message } = refusal(provider, {
      response_mime_type: 'text/x.enum',
      response_schema: { type: 'STRING', enum: ['a', 'b'] },
    })
    expect([param, message.startsWith(`${param}: the provider of this model cannot`)]).toEqual([
      'generation_config.response_mime_type',
      true,
    ])
  })

  test.each(['chat.completions', 'messages'] as const)('speech, by %s', (provider) => {
    expect(refusal(provider, { response_modalities: ['AUDIO'] }).param).toBe('generation_config.response_modalities')
  })
})
