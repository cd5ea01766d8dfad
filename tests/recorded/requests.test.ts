import { prepared } from '../translating.ts'
import { type Loss } from '../../src/protocols/translation.ts'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Json } from '../clients/agents.ts'
import { checkBody } from '../clients/strict-rules.ts'
import { startGateway, type Gateway } from '../server.ts'
import { cases } from './cases.ts'
import { haveRecordings, recordings, type Recording } from './recordings.ts'
import { missingRequestLeaves } from './request-leaves.ts'

/**
 * Every recorded request, written for a provider of each other protocol: each leaf of it is sent or reported as lost,
 * or the request is refused with a path.
 */

const NAMES = Object.keys(protocols).filter((name): name is ConversationName => name !== 'images')

/**
 * Leaves that request nothing: defaults, what every request has, and types and ids of elements. The roles and types of
 * parts are tested in translate.test.ts.
 */
const BOOKKEEPING: [path: RegExp, value: RegExp, why: string][] = [
  [
    /^(messages|input|contents|system|systemInstruction|system_instruction)\b.*\.(type|role)$/,
    /^/,
    'types and roles have other names',
  ],
  [
    /^tools\[\](\.tools\[\])?(\.format)?\.type$|^input\[\]\.tools\[\]\.type$/,
    /^(function|custom|text)$/,
    'types of tools have other names',
  ],
  [/^tools\[\]\.(type|name|id)$/, /^(openrouter:)?web_?search/, 'a web search has another name'],
  [/^tools\[\]\.(type|name)$/, /^(namespace|agents|tools)$/, 'calls get the namespace of their tool back'],
  [/^(model|stream|stream_options\..*)$/, /^/, 'part of the target or of the URL, or always requested'],
  [/^(n|generationConfig\.candidateCount)$/, /^1$/, 'one choice is the only number'],
  [/^store$/, /^/, 'the server stores responses'],
  [/^include\[\]$/, /^reasoning\.encrypted_content$/, 'signatures are always requested'],
  [/\.(thought|strict|is_error)$/, /^false$/, 'the default'],
  [/^contents\[\]\.parts\[\]\.thought$/, /^true$/, 'the type of a part'],
  [/\.detail$/, /^auto$/, 'the default'],
  [/^parallel_tool_calls$/, /^true$/, 'the default'],
  [/^tool_choice(\.type)?$/, /^auto$/, 'the default'],
  [/^top_[pk]$/, /^-1$/, 'the default of Anthropic'],
  [/\.prompt_cache_breakpoint\.mode$/, /^explicit$/, 'the only mode'],
  [/(^|\.)temperature$/, /^1$/, 'the only temperature of reasoning models of the messages API'],
  [/^generationConfig\.responseModalities\[\]$/, /^TEXT$/, 'the default'],
  [/^input\[\]\.(id|status)$|^messages\[\]\.tool_calls\[\]\.index$/, /^/, 'bookkeeping of the provider'],
  [/^text\.format\.name$/, /^/, 'other protocols have no names of formats, and OpenAI requires one'],
  [/^(provider|models|route|session_id)\b/, /^/, 'preferences about endpoints, which the server keeps or refuses'],
  [/^previous_response_id$/, /^/, 'the server replaces it by the conversation'],
  [
    /\.thinkingConfig\.include_?[tT]houghts$|^include_reasoning$|^thinking\.display$/,
    /^(true|summarized)$/,
    'reasoning is visible by default',
  ],
  [/\.(fileData|file_data)\.mime_?[tT]ype$/, /^/, 'other protocols have no media type of a URL'],
  [
    /\.(parameters|(parametersJson|responseJson|response)?[sS]chema)(\.|\[|$).*\.?(\$schema|propertyOrdering\[\])$/,
    /^/,
    'the dialect of a schema, and the order in which its properties are written',
  ],
  [/\.parameters\b.*\.type$/, /^\d$/, 'the number of a type'],
]

/** Leaves with another value in the provider's protocol, by a pattern of the body that is sent. */
const TRANSLATED: [path: RegExp, value: RegExp, sent: RegExp][] = [
  [
    /^tool_choice(\.type|\.mode)?$|^toolConfig\.functionCallingConfig\.mode$/,
    /^(required|any|ANY)$/,
    /"(required|any|ANY|tool)"|"tool_choice":\{/,
  ],
  [/^tool_choice\.(tools\[\]\.)?type$/, /^(tool|function|allowed_tools|custom)$/, /"(tool|function|ANY|VALIDATED)"/],
  [/^toolConfig\.functionCallingConfig\.mode$/, /^(NONE|AUTO)$/, /"(none|auto)"/],
  [/^toolConfig\.functionCallingConfig\.mode$/, /^VALIDATED$/, /"strict":true/],
  [/\.strict$/, /^true$/, /"mode":"(VALIDATED|ANY|NONE)"|"(responseJsonSchema|output_config)":/],
  [
    /^(parallel_tool_calls|tool_choice\.disable_parallel_tool_use)$/,
    /^/,
    /"(disable_parallel_tool_use":true|parallel_tool_calls":false)/,
  ],
  [
    /^(reasoning_effort|reasoning\.effort|thinking\.type|generationConfig\.thinkingConfig\.thinkingBudget)$/,
    /^(none|disabled|0)$/,
    /"thinkingBudget":0|"disabled"|"none"/,
  ],
  [
    /^(thinking\.type|reasoning\.enabled)$/,
    /^(enabled|adaptive|true)$/,
    /"(thinkingBudget|reasoning_effort|effort|adaptive)"/,
  ],
  [
    /^(response_format|text\.format|output_config\.format|output_format)\.type$|[mM]ime_?[tT]ype$/,
    /^(json_schema|json_object|text|application\/json|text\/plain)$/,
    /"(responseMimeType|response_format|text|output_config)":/,
  ],
  [
    /^(logprobs|generationConfig\.responseLogprobs|include\[\])$/,
    /^(true|message\.output_text\.logprobs)$/,
    /"(logprobs|responseLogprobs)":true|output_text\.logprobs/,
  ],
  [
    /^(tool_choice(\.type)?|parallel_tool_calls|tool_choice\.disable_parallel_tool_use)$/,
    /^(none|false|true)$/,
    /^(?!.*"tools":)/,
  ],
  [/^tools\[\]\.execution$/, /^client$/, /"name":"tool_search"/],
  [/^tools\[\]\.max_uses$/, /^/, /"max_tool_calls":/],
  [/^generationConfig\.responseModalities\[\]$/, /^IMAGE$/, /"image_generation"/],
  [/^service_tier$/, /^default$/, /"standard_only"/],
  [/^service_tier$/, /^standard_only$/, /"service_tier":"default"/],
  [/^service_tier$/, /^(default|standard_only)$/, /"serviceTier":"standard"/],
  [/^service_tier$/, /^auto$/, /"serviceTier":"unspecified"/],
  [/^service_tier$/, /^fast$/, /"serviceTier":"priority"/],
  [/\.image_url\.url$/, /^image\/jpg$/, /"image\/jpeg"/],
  [/^top_logprobs$/, /^0$/, /"responseLogprobs":true/],
  [
    /^tools\[\]\.(type|require_approval)$|^mcp_servers\[\]\.(type|tool_configuration\.enabled)$/,
    /^(mcp|never|url|true)$/,
    /"mcp_servers":|"type":"mcp"/,
  ],
  [/^tools\[\]\.allowed_tools\[\]$/, /^/, /"default_config":\{"enabled":false\},"configs":/],
  [
    /^tools\[\]\.(type|name|container\.type)$/,
    /^(code_interpreter|auto|code_execution(_\d+)?)$/,
    /"(code_interpreter|codeExecution|code_execution_20250825)"/,
  ],
  [/\.source\.media_type$/, /^text\/plain$/, /"(input_text|text)"/],
  [/\.\$ref$/, /^#\//, /"properties":/],
  [
    /\.(inline_?[dD]ata\.mime_?[tT]ype|input_audio\.format)$/,
    /^(audio\/(mpeg|x-wav)|wav|mp3)$/,
    /"(mp3|wav|audio\/(wav|mpeg))"/,
  ],
]

const known = (path: string, value: string, sent: string): boolean =>
  BOOKKEEPING.some(([where, which]) => where.test(path) && which.test(value)) ||
  TRANSLATED.some(([where, which, pattern]) => where.test(path) && which.test(value) && pattern.test(sent))

type Written = { body: unknown; losses: readonly Loss[] }

/** Google's models with reasoning levels require signatures. */
const CAPABILITIES: Partial<Record<ConversationName, Capabilities>> = { generateContent: { reasoning: 'level' } }

function written(
  { protocol, stream }: Recording,
  body: Record<string, unknown>,
  provider: ConversationName,
  capabilities: Capabilities = {},
): Written {
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream, headers: new Headers() }
  const context = {
    rawRequest,
    request: protocols[protocol].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 0 },
  }
  const { body: text, losses } = prepared(
    { protocol: provider, baseUrl: '', target: { provider: 'p', model: 'm', quirks: {}, capabilities } } as Endpoint,
    context,
  )
  return { body: JSON.parse(text) as unknown, losses }
}

const isPathIn = (body: unknown, path: string): boolean =>
  path
    .match(/[^.[\]]+/g)!
    .reduce<unknown>((value, step) => (value as Record<string, unknown> | undefined)?.[step], body) !== undefined

/** The request as it is sent, or undefined if it is refused with the path of a value that cannot be represented. */
function writtenOrUndefined(...given: Parameters<typeof written>): Written | undefined {
  try {
    return written(...given)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    // A request of a stored prompt has no input.
    const { prompt } = given[1]
    const isThere =
      isPathIn(given[1], error.param!) ||
      error.message.includes(': is required: ') ||
      (error.param === 'input' && (prompt !== undefined || given[1].input === undefined))
    expect([error.status, error.param!, isThere]).toEqual([400, error.param!, true])
    expect(error.message).toStartWith(`${error.param}: `)
    return undefined
  }
}

const requestsOf = (protocol: ConversationName): [Recording, Record<string, unknown>][] =>
  [...recordings(), ...cases('request')]
    .filter((one) => one.protocol === protocol && one.status < 300)
    .flatMap((one): [Recording, Record<string, unknown>][] => {
      const body = one.request()
      return body === undefined ? [] : [[one, { model: 'a/b', ...body }]]
    })

test.skipIf(!haveRecordings)('there are recorded requests of each protocol', () => {
  for (const name of NAMES) expect(requestsOf(name).length).toBeGreaterThan(80)
})

for (const provider of NAMES)
  describe.skipIf(!haveRecordings)(`requests for ${provider}`, () => {
    for (const [recording, body] of NAMES.filter((name) => name !== provider).flatMap(requestsOf))
      test(`every leaf of ${recording.protocol} ${recording.id} is sent or reported as lost`, () => {
        const sent = writtenOrUndefined(recording, body, provider)
        if (sent === undefined) return
        const text = JSON.stringify(sent.body)
        expect(missingRequestLeaves(body, sent.body, sent.losses, (path, value) => known(path, value, text))).toEqual(
          [],
        )
        // The conversations of cases may end with a call.
        if (!recording.kinds.includes('case'))
          checkBody(provider, written(recording, body, provider, CAPABILITIES[provider]).body as Json, '')
      })
  })

/** Every twelfth request into which the server inserts nothing. */
const SAMPLE = NAMES.flatMap((name) =>
  requestsOf(name)
    .filter(
      ([, body]) =>
        !/"(previous_response_id|file_id|file_uri|fileUri|file_url)":"|"(image_)?url":"http|"n":2/.test(
          JSON.stringify(body),
        ),
    )
    .filter((_, index) => index % 12 === 0),
)

describe.skipIf(!haveRecordings)('requests through a gateway', () => {
  let received: { body: unknown } | undefined
  const provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      received = { body: await request.json() }
      return Response.json(
        { error: { message: 'the request was received', type: 'invalid_request_error' } },
        { status: 400 },
      )
    },
  })
  let gateway: Gateway
  beforeAll(async () => {
    const providers = NAMES.map(
      (name, index) =>
        `  p${index}: { protocol: ${name}, baseUrl: "http://127.0.0.1:${provider.port}", ` +
        `apiKey: none, unlisted: true }\n`,
    )
    gateway = await startGateway({ config: `limits: { requestsPerMinute: 100000 }\nproviders:\n${providers.join('')}` })
  })
  afterAll(async () => {
    await gateway.stop()
    await provider.stop(true)
  })

  for (const [recording, recorded] of SAMPLE)
    for (const [index, name] of NAMES.entries())
      if (name !== recording.protocol)
        test(`${recording.protocol} ${recording.id} reaches a provider of ${name} as written`, async () => {
          const model = `p${index}/m`
          const path = {
            'chat.completions': '/v1/chat/completions',
            responses: '/v1/responses',
            messages: '/v1/messages',
            generateContent: `/v1beta/models/${model}:generateContent`,
          }[recording.protocol]
          const whole =
            recording.protocol === 'generateContent'
              ? recorded
              : { ...recorded, model, stream: false, stream_options: undefined }
          const body = JSON.parse(JSON.stringify(whole)) as Record<string, unknown>
          received = undefined
          const response = await fetch(gateway.url + path, {
            method: 'POST',
            headers: { authorization: `Bearer ${gateway.key}`, 'x-sluice-strict': 'false' },
            body: JSON.stringify(body),
          })
          const expected = writtenOrUndefined({ ...recording, stream: false }, body, name)
          expect(received as unknown).toEqual(expected === undefined ? undefined : { body: expected.body })
          if (expected === undefined) expect(response.status).toBe(400)
        })
})
