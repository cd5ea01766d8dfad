import { type Loss } from '../../src/protocols/translation.ts'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { anthropic } from '../sdk/anthropic.ts'
import type { Client, Answer } from '../sdk/client.ts'
import { genaiGemini } from '../sdk/genai.ts'
import { openaiChat } from '../sdk/openai-chat.ts'
import { openaiResponses } from '../sdk/openai-responses.ts'
import { schemaValidator, UNDOCUMENTED_FRAMES } from './vendor-schemas.ts'
import { missingLeaves } from './response-leaves.ts'
import {
  INCONSISTENT,
  haveAll,
  haveRecordings,
  INDEXED,
  recordings,
  WITHOUT_OUTPUT,
  type Recording,
} from './recordings.ts'
import { PREFIX, startReplay, type Replay } from './replay-server.ts'
import { CUT, frameDataOf, responseContent, type Any, type ResponseContent } from './response-content.ts'
import { tokenSums } from './token-sums.ts'
import { isDistinct } from './distinct.ts'
import { callsFor, expectedFinishReason } from './finish-reasons.ts'

/**
 * Recorded exchanges, served by a provider that replays them and fetched through a running Sluice by the official SDKs
 * of the three other protocols: those whose responses differ in form (translate.test.ts has all, without SDKs). A proxy
 * between SDK and Sluice requests the loss report and records the bytes, so that both the bytes and what the SDK makes
 * of them are checked.
 */

const byName = new Map(recordings().map((recording, index) => [`r${index}`, recording]))
const CLIENTS: Client[] = [openaiChat, openaiResponses, anthropic, genaiGemini]

let replay: Replay
let proxy: ReturnType<typeof Bun.serve>
let received = { status: 0, text: '' }

beforeAll(async () => {
  if (!haveRecordings) return
  replay = await startReplay(byName, () => Infinity)
  proxy = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const headers = new Headers(request.headers)
      headers.set('x-sluice-report', 'body')
      const answer = await fetch(replay.gateway.url + pathname + search, {
        method: request.method,
        headers,
        body: await request.text(),
      })
      received = { status: answer.status, text: await answer.text() }
      return new Response(received.text, {
        status: answer.status,
        headers: { 'content-type': answer.headers.get('content-type')! },
      })
    },
  })
})
afterAll(async () => {
  await proxy?.stop(true)
  await replay?.stop()
})

test.skipIf(!haveAll)('there are all recorded exchanges except those of the images API', () => {
  expect(INDEXED).toEqual({
    'openai-chat': 217,
    'openai-responses': 245,
    'anthropic-messages': 229,
    'google-generate-content': 272,
    'openai-images': 10,
  })
  expect(byName.size).toBe(962)
})

const dataOf = ({ stream }: Recording, text: string): unknown[] => (stream ? frameDataOf(text) : [JSON.parse(text)])

/** The response or the error of the SDK. */
async function fetched(
  client: Client,
  name: string,
  recording: Recording,
): Promise<{ response: Answer } | { failure: unknown }> {
  const session = client.open(
    { url: `http://127.0.0.1:${proxy.port}`, key: replay.gateway.key, model: `${PREFIX[recording.protocol]}/${name}` },
    { stream: recording.stream },
  )
  received = { status: 0, text: '' }
  return session.send('Hello').then(
    (response) => ({ response }),
    (failure: unknown) => ({ failure }),
  )
}

for (const client of CLIENTS)
  describe.skipIf(!haveRecordings)(`recordings for ${client.name}`, () => {
    const verdict = schemaValidator(client.protocol)
    for (const [name, recording] of byName) {
      if (recording.protocol === client.protocol || !isDistinct(recording)) continue
      const form = recording.stream ? 'streamed' : 'as a whole'
      test(`the SDK reads ${recording.protocol} ${recording.id} ${form}`, async () => {
        const result = await fetched(client, name, recording)
        const recorded = dataOf(recording, new TextDecoder().decode(recording.response()))
        if (recording.status !== 200) return expectRefusal(client, recording.status, recorded, result)
        const said = responseContent(recording.protocol, recorded, recording.stream)
        const source = recording.id === WITHOUT_OUTPUT ? { ...said, usage: undefined } : said
        if (source.outcome === 'failed') return expect(result).toHaveProperty('failure')
        if ('failure' in result) throw result.failure
        const frames = dataOf(recording, received.text)
        const what = recording.stream ? 'frame' : 'response'
        if (!UNDOCUMENTED_FRAMES.includes(`${client.protocol} ${recording.id}`))
          expect(
            frames
              .filter((data) => data !== '[DONE]')
              .map((data) => verdict(what, withoutReport(data as Any)))
              .filter((flaw) => flaw !== ''),
          ).toEqual([])
        const content = responseContent(client.protocol, frames, recording.stream)
        if (recording.id === INCONSISTENT)
          return expect(content.finishReason).toBe(expectedFinishReason(source, client.protocol))
        const losses = lossesIn(frames)
        expectContent(content, source, client.protocol, recording.stream)
        expectSdkResponse(result.response, source, client, recording.stream)
        expectCounted(client.protocol, frames, recording.protocol, recorded, losses)
        expect(missingLeaves(recording.protocol, recorded, frames, recording.stream, losses)).toEqual([])
      })
    }
  })

/** Without the loss report, which is not in the vendors' schemas. */
const withoutReport = ({ sluice: _, ...data }: Any): Any => data

const lossesIn = (frames: unknown[]): string[] =>
  (frames as Any[])
    .flatMap((data) => ((data.sluice ?? data.response?.sluice)?.translation ?? []) as Loss[])
    .map(({ path }) => path)

/** Statuses of a client by those of the provider: refused credentials and failures are not errors of the client. */
const STATUSES: Record<number, number> = {
  400: 400,
  401: 502,
  403: 502,
  404: 404,
  429: 429,
  500: 502,
  503: 503,
  529: 503,
}

/** Error types of Anthropic and Google by status. */
const KINDS: Record<number, [messages: string, generateContent: string]> = {
  400: ['invalid_request_error', 'INVALID_ARGUMENT'],
  404: ['not_found_error', 'NOT_FOUND'],
  429: ['rate_limit_error', 'RESOURCE_EXHAUSTED'],
  502: ['api_error', 'UNAVAILABLE'],
  503: ['overloaded_error', 'UNAVAILABLE'],
}

const messageIn = (body: Any): string =>
  body.error?.message ?? (typeof body.error === 'string' ? body.error : body.detail)

function expectRefusal(client: Client, upstreamStatus: number, [body]: unknown[], result: object): void {
  if (!('failure' in result)) throw new Error('the SDK read the error as a response')
  const text = messageIn([body].flat()[0] as Any)
  const isCredentialError =
    [401, 403].includes(upstreamStatus) || /api key not (valid|found)|incorrect api key/i.test(text)
  const expected = isCredentialError ? 502 : STATUSES[upstreamStatus]
  const { status, message } = client.failure(result.failure)
  expect(status).toBe(expected === 503 && client.protocol === 'messages' ? 529 : expected)
  const { type, code, status: errorStatus } = (JSON.parse(received.text) as Any).error
  // All recorded 404s are of models, except one of a prompt cache.
  if (expected === 404 && client.name.startsWith('openai'))
    expect(code).toBe(text.includes('cache content') ? 'not_found' : 'model_not_found')
  if (client.protocol === 'messages') expect(type).toBe(KINDS[expected!]![0])
  if (client.protocol === 'generateContent') expect(errorStatus).toBe(KINDS[expected!]![1])
  expect(message).toContain(isCredentialError ? 'credentials' : JSON.stringify(text).slice(1, -1).slice(0, 200))
}

/** Separators between summaries differ. */
const compact = (text: string): string => text.replaceAll(/\s+/g, '')
/** Without the texts that replace media which the client's protocol cannot represent. */
const withoutNotes = (text: string): string => text.replaceAll(/\[(?:image|audio): [^\]]*\]/g, '')

type Calls = ResponseContent['calls']

/** Calls as texts, of which a cut one is only its name. */
const textsOf = (calls: Calls, expected: Calls): string[] =>
  calls.map(({ name, input }, index) => (expected[index]?.input === CUT ? name : JSON.stringify([name, input])))

function expectCalls(calls: Calls, source: ResponseContent, client: ConversationName, isStream: boolean): void {
  const expected = callsFor(client, source, isStream)
  expect(textsOf(calls, expected)).toEqual(textsOf(expected, expected))
}

function expectContent(
  content: ResponseContent,
  source: ResponseContent,
  client: ConversationName,
  isStream: boolean,
): void {
  expect(client === 'messages' ? withoutNotes(content.text) : content.text).toBe(source.text)
  expect(compact(content.reasoning)).toBe(compact(source.reasoning))
  // Compared as text, since the order of members matters.
  expectCalls(content.calls, source, client, isStream)
  expect(content.finishReason).toBe(expectedFinishReason(source, client))
  if (source.usage !== undefined) expect(content.usage).toEqual(source.usage)
}

function expectSdkResponse(content: Answer, source: ResponseContent, client: Client, isStream: boolean): void {
  expect((client.protocol === 'messages' ? withoutNotes(content.text) : content.text) + content.refusal).toBe(
    source.text,
  )
  expect(compact(content.reasoning)).toBe(compact(source.reasoning))
  expectCalls(content.calls, source, client.protocol, isStream)
  expect(content.finish).toBe(expectedFinishReason(source, client.protocol))
  const { prompt: input, completion: output, cached, reasoning } = source.usage ?? {}
  // The SDK for messages has no field for reasoning tokens.
  if (source.usage !== undefined)
    expect(content.usage).toEqual({
      input: input!,
      output: output!,
      cached: cached!,
      reasoning: client.protocol === 'messages' ? content.usage.reasoning : reasoning!,
    })
}

/** Totals equal their parts, and cache writes are present or reported as lost. */
function expectCounted(
  client: ConversationName,
  frames: unknown[],
  provider: ConversationName,
  recorded: unknown[],
  losses: string[],
): void {
  const { total, parts, written } = tokenSums(client, frames)
  if (total !== undefined) expect(total).toBe(parts)
  const source = tokenSums(provider, recorded)
  if (written !== source.written || (source.hour ?? 0) > 0) expect(losses).toContain('response.usage')
}
