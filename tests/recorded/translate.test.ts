import { written, type Written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter, writeFrame } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { checkGrammar } from '../grammar.ts'
import { requestContent, type RequestContent } from './request-content.ts'
import { schemaValidator, UNDOCUMENTED_FRAMES, type SchemaValidator } from './vendor-schemas.ts'
import { cases } from './cases.ts'
import { INCONSISTENT, haveRecordings, recordings, type Recording } from './recordings.ts'
import { CUT, frameDataOf, responseContent, type Any, type ResponseContent } from './response-content.ts'
import { callsFor, expectedFinishReason } from './finish-reasons.ts'

/**
 * Every recorded response, read by its own protocol's reader and written for clients of the three others, has the
 * content of the recording; and so has every recorded request that is written for providers of the three others.
 */

const NAMES = Object.keys(protocols).filter((name): name is ConversationName => name !== 'images')

const MINIMAL: Record<ConversationName, Any> = {
  'chat.completions': {
    model: 'a/b',
    messages: [{ role: 'user', content: 'Hello' }],
    stream_options: { include_usage: true },
  },
  responses: { model: 'a/b', input: 'Hello' },
  messages: { model: 'a/b', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
  generateContent: { contents: [{ parts: [{ text: 'Hello' }] }] },
}

function contextOf(client: ConversationName, stream: boolean): TranslationContext {
  const body = { ...MINIMAL[client], ...(client === 'generateContent' ? {} : { stream }) }
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000, issuer: { provider: 'p', model: 'm' } },
  }
}

/** A recorded response. `source`: its content. `events`: those of its reader, which reads it once for all clients. */
type Answer = { recording: Recording; source: ResponseContent; events(): GenerationEvent[] }

function answerOf(recording: Recording): Answer {
  const frames = dataOf(recording)
  let events: GenerationEvent[] | undefined
  return {
    recording,
    source: responseContent(recording.protocol, frames, recording.stream),
    events: () => {
      if (events !== undefined) return events
      const read = eventsOf(recording, frames)
      checkGrammar(read)
      return (events = read)
    },
  }
}

function eventsOf(recording: Recording, frames: unknown[]): GenerationEvent[] {
  const { call } = protocols[recording.protocol]
  if (!recording.stream) return call.readResponse(frames[0], {})
  const splitter = new FrameSplitter()
  const reader = call.reader({})
  return [
    ...[...splitter.push(recording.response()), ...splitter.end()].flatMap((frame) => reader.read(frame)),
    ...reader.end(),
  ]
}

/** Separators between summaries differ. */
const compact = (text: string): string => text.replaceAll(/\s+/g, '')

function expectSame(
  content: ResponseContent,
  source: ResponseContent,
  client: ConversationName,
  isStream: boolean,
): void {
  // A text replaces media that the client's protocol cannot represent.
  expect(client === 'messages' ? content.text.replaceAll(/\[(?:image|audio): [^\]]*\]/g, '') : content.text).toBe(
    source.text,
  )
  expect(compact(content.reasoning)).toBe(compact(source.reasoning))
  const calls = callsFor(client, source, isStream)
  expect(content.calls.map(({ name }) => name)).toEqual(calls.map(({ name }) => name))
  for (const [index, { input }] of calls.entries())
    if (input !== CUT) expect(content.calls[index]!.input).toEqual(input)
  expect(content.finishReason).toBe(expectedFinishReason(source, client))
  if (source.usage !== undefined) expect(content.usage).toEqual(source.usage)
}

/** A stream can contain arguments that were cut off, a whole response cannot. */
const uncut = (answer: ResponseContent, client: ConversationName): ResponseContent =>
  answer.outcome === 'length'
    ? { ...answer, calls: callsFor(client, answer, false).map(({ name }) => ({ name, input: CUT })) }
    : answer

/**
 * Audio in a message of the responses API, and images as output of chat completions: compatible servers accept them.
 * OpenAI's schema requires annotations in the texts of an earlier response, which recorded requests do not have.
 */
const UNDOCUMENTED_REQUESTS = [
  'crewai__llms-TestGeminiMultimodalIntegration.test-analyze-audio-file',
  'envoy-ai-gateway__chat-audio-to-text',
  'logfire__openai-chat-completions-with-audio-input',
  'pydantic-ai__multimodal-tool-returns-multimodal-tool-return-matrix-direct-binary-audio-google-vertex.t4',
  'rig__gemini-transcription-transcription-smoke',
  'rig__mistral-multimodal-content-streaming-agent-sends-audio',
]
  .map((id) => `responses ${id}`)
  .concat(
    'chat.completions lingua imageConfigParam',
    'responses agentgateway request/messages/cache_control/completions',
  )

/** Cases whose content arrives in another form. */
const DIFFERENT = [
  // The same tool is listed inside and outside of a namespace.
  'lingua responsesToolSearchInputParam',
  // The texts before and after an image of a result are lines of one text.
  'agentgateway request/messages/cache_control/completions',
  // The name of the tool is one that only Google accepts.
  'rosetta MessagesToGeminiConverter convertRequest ignores non-Rosetta redacted_thinking blocks',
  'rosetta MessagesToGeminiConverter convertRequest restores Gemini thought signatures from redacted_thinking history',
  'rosetta MessagesToGeminiConverter convertResponse round-trips functionCall thoughtSignature through strict ' +
    'Messages blocks',
]

/** Refusals of what has no counterpart in the other protocol. */
const REFUSALS: [param: RegExp, message: RegExp, why: string][] = [
  [
    /^(tools\[\d+\]|mcp_servers$)/,
    /code_?execution|code_interpreter|file_search|image_generation|'mcp'|'mcp_servers'/i,
    'tools that only the recorded provider runs',
  ],
  [/\[\d+\]$/, /given as a file id|a file that is stored elsewhere/, 'files that only the recorded provider has'],
  [/^input$/, /must have at least one message with content/, 'a prompt that only the recorded provider has'],
  [/^(n|generationConfig\.candidateCount)$/, /must be 1, not/, 'one choice per request'],
  [/\[\d+\]$/, /: audio input cannot be sent to the provider/, 'Anthropic accepts no audio'],
  [
    /^contents\[\d+\]\.parts\[\d+\]/,
    /: video input (given as (data|a URL) )?cannot be sent to the provider/,
    'Anthropic and OpenAI accept no video',
  ],
  [
    /^generationConfig\.responseModalities$/,
    /: the model responds with text, not audio$/,
    'Anthropic has no audio output',
  ],
  [
    /^generationConfig\.responseModalities$/,
    /: audio output is not available: chat completions requires a voice and a format/,
    'Google requests audio without the voice that OpenAI requires',
  ],
]

const dataOf = (recording: Recording): unknown[] => {
  const text = new TextDecoder().decode(recording.response())
  return recording.stream ? frameDataOf(text) : [JSON.parse(text)]
}

test.skipIf(!haveRecordings)('there are recordings of each protocol', () => {
  for (const name of NAMES) {
    const own = recordings().filter(({ protocol, status }) => protocol === name && status < 300)
    expect(own.filter(({ stream }) => stream).length).toBeGreaterThan(40)
    expect(own.filter(({ stream }) => !stream).length).toBeGreaterThan(40)
    expect(own.filter((recording) => recording.request() !== undefined).length).toBeGreaterThan(80)
  }
})

const isSuccess = ({ status }: Recording): boolean => status < 300

const answers = [...recordings(), ...cases('response')]
  .filter((recording) => isSuccess(recording) && recording.id !== INCONSISTENT)
  .map(answerOf)

for (const client of NAMES)
  describe.skipIf(!haveRecordings)(`responses for clients of ${client}`, () => {
    const { serve } = protocols[client]
    const validate = schemaValidator(client)
    for (const { recording, source, events } of answers) {
      if (recording.protocol === client) continue
      const check: SchemaValidator = (what, value) =>
        what === 'frame' && UNDOCUMENTED_FRAMES.includes(`${client} ${recording.id}`) ? '' : validate(what, value)
      const write = (): unknown[] => {
        const writer = serve.writer(contextOf(client, true))
        return frameDataOf(
          events()
            .flatMap((event) => writer.write(event))
            .map(writeFrame)
            .join(''),
        )
      }
      const writeWhole = (): object => serve.writeResponse(fold(events()), contextOf(client, false))

      test(`the stream of ${recording.protocol} ${recording.id} has the recorded content`, () => {
        // Bodies with an error are refused before a stream begins.
        if (source.outcome === 'failed' && !recording.stream) return expect(write).toThrow(GatewayError)
        const written = write()
        const content = responseContent(client, written, true)
        if (source.outcome === 'failed') return expect(content.outcome).toBe('failed')
        for (const frame of written) if (frame !== '[DONE]') expect(check('frame', frame)).toBe('')
        expectSame(content, source, client, true)
        expect(uncut(responseContent(client, [writeWhole()], false), client)).toEqual(uncut(content, client))
      })

      test(`the whole response of ${recording.protocol} ${recording.id} has the recorded content`, () => {
        if (source.outcome === 'failed') return expect(writeWhole).toThrow(GatewayError)
        const answer = writeWhole()
        expect(check('response', answer)).toBe('')
        expectSame(responseContent(client, [answer], false), source, client, false)
      })
    }
  })

const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }

const requests = [...recordings(), ...cases('request')].filter(isSuccess).flatMap((recording) => {
  const recorded = recording.request()
  // One recorded server has the model in the path.
  return recorded === undefined ? [] : [{ recording, body: { model: 'a/b', ...recorded } }]
})

for (const provider of NAMES)
  describe.skipIf(!haveRecordings)(`requests for ${provider}`, () => {
    const validate = schemaValidator(provider)
    for (const { recording, body } of requests) {
      if (recording.protocol === provider) continue
      test(`the request of ${recording.protocol} ${recording.id} keeps its content or is refused`, () => {
        const rawRequest = {
          body,
          text: JSON.stringify(body),
          model: 'a/b',
          stream: recording.stream,
          headers: new Headers(),
        }
        let result: Written
        try {
          result = written(provider, protocols[recording.protocol].serve.readRequest(rawRequest), target, body)
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError)
          // That cases are refused with their paths is tested in requests.test.ts; many have invalid values.
          if (recording.kinds.includes('case')) return
          const { param, message } = error as GatewayError
          return expect(
            REFUSALS.filter(([path, text]) => path.test(param!) && text.test(message)),
            message,
          ).toHaveLength(1)
        }
        const sent = JSON.parse(JSON.stringify(result.body)) as Any
        const problem = validate('request', sent)
        if (UNDOCUMENTED_REQUESTS.includes(`${provider} ${recording.id}`)) expect(problem).not.toBe('')
        else expect(problem).toBe('')
        if (!DIFFERENT.includes(recording.id))
          expectKept(requestContent(provider, sent), requestContent(recording.protocol, body), body, result.losses)
      })
    }
  })

function expectKept(sent: RequestContent, source: RequestContent, body: Any, losses: readonly Loss[]): void {
  const all = JSON.stringify([sent.texts, sent.results])
  expect(source.texts.filter((text) => !all.includes(inner(text)))).toEqual([])
  expect(sent.calls).toEqual(source.calls)
  // Text may be added before or after a result, and a result without its call becomes text.
  const known = [...sent.results.map(plain), ...sent.results, ...sent.texts.map(plain), ...sent.texts]
  expect(source.results.map(plain).filter((text) => !known.some((one) => one.includes(text)))).toEqual([])
  const isLimited = losses.some(({ code, path }) => code === 'tool_choice_adjusted' && /^tool_?[cC]/.test(path))
  const names: string[] =
    body.toolConfig?.functionCallingConfig?.allowedFunctionNames ??
    (body.tool_choice?.tools as Any[] | undefined)?.map(({ name }) => name)
  const allowed = isLimited ? names.map((name) => `${name}(`) : ['']
  expect(sent.tools).toEqual(source.tools.filter((tool) => allowed.some((name) => tool.startsWith(name))))
  expect(sent.media, JSON.stringify(losses)).toBe(source.media)
}

const inner = (text: string): string => JSON.stringify(text.trim()).slice(1, -1)

/** Results that are objects may have other white space. */
const plain = (text: string): string => {
  const [, note = '', json] = /^(Result of the tool call \S+:\n)?(.*)$/s.exec(text)!
  try {
    return note + JSON.stringify(JSON.parse(json!))
  } catch {
    return text.trim()
  }
}
