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
import { INCONSISTENT, haveRecordings, INDEXED, recordings, type Recording } from './recordings.ts'
import { PREFIX, startReplay, type Replay } from './replay-server.ts'
import { CUT, frameDataOf, responseContent, tokenSums, type Any, type ResponseContent } from './response-content.ts'
import { expectedFinishReason } from './finish-reasons.ts'

/**
 * Every recorded exchange, served by a replay upstream and fetched through a running Sluice by the official SDKs of the
 * three other protocols. A proxy
 * between SDK and Sluice asks for the report and keeps the bytes, so that what goes over the wire is judged beside what
 * the SDK makes of it.
 */

const byName = new Map(recordings().map((recording, index) => [`r${index}`, recording]))
const CLIENTS: Client[] = [openaiChat, openaiResponses, anthropic, genaiGemini]

let replay: Replay
let proxy: ReturnType<typeof Bun.serve>
let rawRequest = { status: 0, text: '' }

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
      rawRequest = { status: answer.status, text: await answer.text() }
      return new Response(rawRequest.text, {
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

test.skipIf(!haveRecordings)(
  'every exchange is there, but for those with an images API, which no other protocol has',
  () => {
    expect(INDEXED).toEqual({
      'openai-chat': 125,
      'openai-responses': 145,
      'anthropic-messages': 134,
      'google-generate-content': 161,
      'openai-images': 4,
    })
    expect(byName.size).toBe(565)
  },
)

const dataOf = ({ stream }: Recording, text: string): unknown[] => (stream ? frameDataOf(text) : [JSON.parse(text)])

/** What the SDK makes of the exchange: an answer, or its own error. */
async function fetched(
  client: Client,
  name: string,
  recording: Recording,
): Promise<{ heard: Answer } | { failure: unknown }> {
  const session = client.open(
    { url: `http://127.0.0.1:${proxy.port}`, key: replay.gateway.key, model: `${PREFIX[recording.protocol]}/${name}` },
    { stream: recording.stream },
  )
  rawRequest = { status: 0, text: '' }
  return session.send('Hello').then(
    (heard) => ({ heard }),
    (failure: unknown) => ({ failure }),
  )
}

for (const client of CLIENTS)
  describe.skipIf(!haveRecordings)(`${client.name} hears`, () => {
    const verdict = schemaValidator(client.protocol)
    for (const [name, recording] of byName) {
      if (recording.protocol === client.protocol) continue
      test(`${recording.protocol} ${recording.stream ? 'streamed' : 'whole'} ${recording.id}`, async () => {
        const result = await fetched(client, name, recording)
        const recorded = dataOf(recording, new TextDecoder().decode(recording.response()))
        if (recording.status !== 200) return expectRefusal(client, recording.status, recorded, result)
        const source = responseContent(recording.protocol, recorded, recording.stream)
        if (source.outcome === 'failed') return expect(result).toHaveProperty('failure')
        if ('failure' in result) throw result.failure
        const datas = dataOf(recording, rawRequest.text)
        const what = recording.stream ? 'frame' : 'response'
        if (!UNDOCUMENTED_FRAMES.includes(`${client.protocol} ${recording.id}`))
          expect(
            datas
              .filter((data) => data !== '[DONE]')
              .map((data) => verdict(what, withoutReport(data as Any)))
              .filter((flaw) => flaw !== ''),
          ).toEqual([])
        const heard = responseContent(client.protocol, datas, recording.stream)
        if (recording.id === INCONSISTENT)
          return expect(heard.finishReason).toBe(expectedFinishReason(source, client.protocol))
        const losses = lossesIn(datas)
        expectSaid(heard, source, client.protocol)
        expectHeard(result.heard, source, client)
        expectCounted(client.protocol, datas, recording.protocol, recorded, losses)
        expect(missingLeaves(recording.protocol, recorded, datas, recording.stream, losses)).toEqual([])
      })
    }
  })

/** Which is Sluice's own, and in no document of a vendor's. */
const withoutReport = ({ sluice: _, ...data }: Any): Any => data

const lossesIn = (datas: unknown[]): string[] =>
  (datas as Any[])
    .flatMap((data) => ((data.sluice ?? data.response?.sluice)?.translation ?? []) as Loss[])
    .map(({ path }) => path)

/** Status under which a client hears of a refusal: refused credentials and breakdowns are not its own. */
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

/** What Anthropic and Google call them. */
const KINDS: Record<number, [messages: string, generateContent: string]> = {
  400: ['invalid_request_error', 'INVALID_ARGUMENT'],
  404: ['not_found_error', 'NOT_FOUND'],
  429: ['rate_limit_error', 'RESOURCE_EXHAUSTED'],
  502: ['api_error', 'UNAVAILABLE'],
  503: ['overloaded_error', 'UNAVAILABLE'],
}

const messageIn = (body: Any): string =>
  body.error?.message ?? (typeof body.error === 'string' ? body.error : body.detail)

function expectRefusal(client: Client, status: number, [body]: unknown[], result: object): void {
  if (!('failure' in result)) throw new Error('the SDK took it for an answer')
  const words = messageIn([body].flat()[0] as Any)
  const ofKey = [401, 403].includes(status) || /api key not (valid|found)/i.test(words)
  const expected = ofKey ? 502 : STATUSES[status]
  const { status: heard, message } = client.failure(result.failure)
  expect(heard).toBe(expected === 503 && client.protocol === 'messages' ? 529 : expected)
  const { type, code, status: word } = (JSON.parse(rawRequest.text) as Any).error
  // Nothing else that was recorded could not be found.
  if (expected === 404 && client.name.startsWith('openai')) expect(code).toBe('model_not_found')
  if (client.protocol === 'messages') expect(type).toBe(KINDS[expected!]![0])
  if (client.protocol === 'generateContent') expect(word).toBe(KINDS[expected!]![1])
  expect(message).toContain(ofKey ? 'credentials' : JSON.stringify(words).slice(1, -1).slice(0, 200))
}

/** How summaries of one answer are parted is no protocol's word. */
const compact = (text: string): string => text.replaceAll(/\s+/g, '')
/** Where an answer cannot carry a medium, a text says so. */
const withoutNotes = (text: string): string => text.replaceAll(/\[(?:image|audio): [^\]]*\]/g, '')

const told = (calls: ResponseContent['calls'], source: ResponseContent): string[] =>
  calls.map(({ name, input }, index) => (source.calls[index]?.input === CUT ? name : JSON.stringify([name, input])))

function expectSaid(heard: ResponseContent, source: ResponseContent, client: ConversationName): void {
  expect(client === 'messages' ? withoutNotes(heard.text) : heard.text).toBe(source.text)
  expect(compact(heard.reasoning)).toBe(compact(source.reasoning))
  // As text: the order of members counts.
  expect(told(heard.calls, source)).toEqual(told(source.calls, source))
  expect(heard.finishReason).toBe(expectedFinishReason(source, client))
  if (source.usage !== undefined) expect(heard.usage).toEqual(source.usage)
}

function expectHeard(heard: Answer, source: ResponseContent, client: Client): void {
  expect((client.protocol === 'messages' ? withoutNotes(heard.text) : heard.text) + heard.refusal).toBe(source.text)
  expect(compact(heard.reasoning)).toBe(compact(source.reasoning))
  expect(told(heard.calls, source)).toEqual(told(source.calls, source))
  expect(heard.finish).toBe(expectedFinishReason(source, client.protocol))
  const { prompt: input, completion: output, cached, reasoning } = source.usage ?? {}
  // The SDK for messages has no place for the tokens of thinking.
  if (source.usage !== undefined)
    expect(heard.usage).toEqual({
      input: input!,
      output: output!,
      cached: cached!,
      reasoning: client.protocol === 'messages' ? heard.usage.reasoning : reasoning!,
    })
}

/** Sums fit their parts, and cache writes are there or named. */
function expectCounted(
  client: ConversationName,
  datas: unknown[],
  provider: ConversationName,
  recorded: unknown[],
  losses: string[],
): void {
  const { total, parts, written } = tokenSums(client, datas)
  if (total !== undefined) expect(total).toBe(parts)
  const source = tokenSums(provider, recorded)
  if (written !== source.written || (source.hour ?? 0) > 0) expect(losses).toContain('response.usage')
}
