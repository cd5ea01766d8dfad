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
import { haveRecordings, recordings, type Recording } from './recordings.ts'
import { missingRequestLeaves } from './request-leaves.ts'

/**
 * Every recorded request, sent to a provider of each other protocol: each leaf of it goes out, or is told, or the
 * request is refused by the path.
 */

const NAMES = Object.keys(protocols).filter((name): name is ConversationName => name !== 'images')

/**
 * What asks for nothing: what a provider is told in any case, what is its default, and how pieces are told apart. Who
 * said what in which kind of piece is held in translate.test.ts.
 */
const BOOKKEEPING: [path: RegExp, value: RegExp, why: string][] = [
  [
    /^(messages|input|contents|system|systemInstruction|system_instruction)\b.*\.(type|role)$/,
    /^/,
    'kinds of pieces and speakers have other names',
  ],
  [
    /^tools\[\](\.tools\[\])?(\.format)?\.type$|^input\[\]\.tools\[\]\.type$/,
    /^(function|custom|text)$/,
    'kinds of tools have other names',
  ],
  [/^tools\[\]\.(type|name|id)$/, /^(openrouter:)?web_?search/, 'a web search has another name'],
  [/^(model|stream|stream_options\..*)$/, /^/, 'said in the target, in the path, or always asked for'],
  [/^(n|generationConfig\.candidateCount)$/, /^1$/, 'one answer is the only number'],
  [/^store$/, /^false$/, 'nothing is stored'],
  [/^include\[\]$/, /^reasoning\.encrypted_content$/, 'signatures are always asked for'],
  [/\.(thought|strict|is_error)$/, /^false$/, 'is not said elsewhere because it is so'],
  [/^contents\[\]\.parts\[\]\.thought$/, /^true$/, 'the kind of a piece'],
  [/\.detail$/, /^auto$/, 'the default'],
  [/^parallel_tool_calls$/, /^true$/, 'the default'],
  [/^tool_choice(\.type)?$/, /^auto$/, 'the default'],
  [/^temperature$/, /^1$/, 'the only temperature at which messages models think'],
  [/^generationConfig\.responseModalities\[\]$/, /^TEXT$/, 'the default'],
  [/^input\[\]\.(id|status)$|^messages\[\]\.tool_calls\[\]\.index$/, /^/, 'by which a provider knows its own pieces'],
  [/^text\.format\.name$/, /^/, 'formats have no names elsewhere, and OpenAI requires one'],
  [/^previous_response_id$/, /^/, 'a server puts in its place what it stands for'],
  [/\.thinkingConfig\.include_?[tT]houghts$|^include_reasoning$/, /^true$/, 'thoughts are shown where there are any'],
  [/\.fileData\.mimeType$/, /^/, 'addresses have no type elsewhere, and the bytes say it'],
  [
    /\.(parameters|parametersJsonSchema)(\.|\[|$).*\.?(\$schema|propertyOrdering\[\])$/,
    /^/,
    'the dialect in which a schema is read; the order of its properties, which are written in it',
  ],
  [/\.parameters\b.*\.type$/, /^\d$/, 'a type by its number'],
]

/** What is said in another word, which is to be found in the body. */
const TRANSLATED: [path: RegExp, value: RegExp, word: RegExp][] = [
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
    /^(reasoning_effort|thinking\.type|generationConfig\.thinkingConfig\.thinkingBudget)$/,
    /^(none|disabled|0)$/,
    /"thinkingBudget":0|"disabled"|"none"/,
  ],
  [/^thinking\.type$/, /^(enabled|adaptive)$/, /"(thinkingBudget|reasoning_effort|effort|adaptive)"/],
  [
    /^(response_format|text\.format|output_config\.format)\.type$|[mM]ime_?[tT]ype$/,
    /^(json_schema|json_object|text|application\/json|text\/plain)$/,
    /"(responseMimeType|response_format|text|output_config)":/,
  ],
  [
    /^(logprobs|generationConfig\.responseLogprobs|include\[\])$/,
    /^(true|message\.output_text\.logprobs)$/,
    /"(logprobs|responseLogprobs)":true|output_text\.logprobs/,
  ],
  [/\.source\.media_type$/, /^text\/plain$/, /"(input_text|text)"/],
  [/\.\$ref$/, /^#\//, /"properties":/],
  [/\.(inlineData\.mimeType|input_audio\.format)$/, /^(audio\/mpeg|wav)$/, /"(mp3|audio\/wav)"/],
]

const known = (path: string, value: string, sent: string): boolean =>
  BOOKKEEPING.some(([where, which]) => where.test(path) && which.test(value)) ||
  TRANSLATED.some(([where, which, word]) => where.test(path) && which.test(value) && word.test(sent))

type Written = { body: unknown; losses: readonly Loss[] }

/** A model of Google's that takes levels is one that insists on signatures. */
const ABILITIES: Partial<Record<ConversationName, Capabilities>> = { generateContent: { reasoning: 'level' } }

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

/** What goes out, or undefined where the request is refused by the path of what cannot be carried. */
function writtenOrRefused(...given: Parameters<typeof written>): Written | undefined {
  try {
    return written(...given)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    expect([error.status, error.param!, isPathIn(given[1], error.param!)]).toEqual([400, error.param!, true])
    expect(error.message).toStartWith(`${error.param}: `)
    return undefined
  }
}

const asked = (protocol: ConversationName): [Recording, Record<string, unknown>][] =>
  recordings()
    .filter((one) => one.protocol === protocol && one.status < 300)
    .flatMap((one): [Recording, Record<string, unknown>][] => {
      const body = one.request()
      return body === undefined ? [] : [[one, { model: 'a/b', ...body }]]
    })

test.skipIf(!haveRecordings)('there are requests to send', () => {
  for (const name of NAMES) expect(asked(name).length).toBeGreaterThan(80)
})

for (const provider of NAMES)
  describe.skipIf(!haveRecordings)(`towards ${provider}, nothing goes untold of`, () => {
    for (const [recording, body] of NAMES.filter((name) => name !== provider).flatMap(asked))
      test(`${recording.protocol} ${recording.id}`, () => {
        const heard = writtenOrRefused(recording, body, provider)
        if (heard === undefined) return
        const text = JSON.stringify(heard.body)
        expect(missingRequestLeaves(body, heard.body, heard.losses, (path, value) => known(path, value, text))).toEqual(
          [],
        )
        checkBody(provider, written(recording, body, provider, ABILITIES[provider]).body as Json, '')
      })
  })

/** One in a dozen of the requests through a gateway, whose server has nothing to put into them. */
const SAMPLE = NAMES.flatMap((name) =>
  asked(name)
    .filter(
      ([, body]) =>
        !/"(previous_response_id|file_id|file_uri|fileUri|file_url)":"|"(image_)?url":"http|"n":2/.test(
          JSON.stringify(body),
        ),
    )
    .filter((_, index) => index % 12 === 0),
)

describe.skipIf(!haveRecordings)('through a gateway', () => {
  let heard: { body: unknown } | undefined
  const provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      heard = { body: await request.json() }
      return Response.json({ error: { message: 'enough was heard', type: 'invalid_request_error' } }, { status: 400 })
    },
  })
  let gateway: Gateway
  beforeAll(async () => {
    const providers = NAMES.map(
      (name, index) =>
        `  p${index}: { protocol: ${name}, baseUrl: "http://127.0.0.1:${provider.port}", apiKey: none, unlisted: true }\n`,
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
        test(`${recording.protocol} ${recording.id} towards ${name}`, async () => {
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
          heard = undefined
          const answer = await fetch(gateway.url + path, {
            method: 'POST',
            headers: { authorization: `Bearer ${gateway.key}`, 'x-sluice-strict': 'false' },
            body: JSON.stringify(body),
          })
          const expected = writtenOrRefused({ ...recording, stream: false }, body, name)
          expect(heard as unknown).toEqual(expected === undefined ? undefined : { body: expected.body })
          if (expected === undefined) expect(answer.status).toBe(400)
        })
})
