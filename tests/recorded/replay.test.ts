import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { storeOf } from '../stores.ts'
import { isDistinct } from './distinct.ts'
import { expectRecords } from './expected-record.ts'
import {
  haveRecordings,
  MALFORMED,
  recordings,
  ROTATING,
  SEVERAL,
  WITHOUT_OUTPUT,
  type Recording,
} from './recordings.ts'
import { PREFIX, startReplay, type Replay } from './replay-server.ts'
import { frameDataOf, responseContent } from './response-content.ts'

/**
 * Every recorded exchange, served by a provider that replays it and fetched through a running Sluice in its own
 * protocol, arrives unchanged and leaves a generation record.
 */

const all = recordings()
const byName = new Map(all.map((recording, index) => [`r${index}`, recording]))
let replay: Replay
/** Number of bytes in each piece of a stream; Infinity for one piece. */
let piece = Infinity
/** The number of times that each recording was replayed. */
const replays = new Map<string, number>()

beforeAll(async () => {
  if (haveRecordings) replay = await startReplay(byName, () => piece)
})
afterAll(() => replay?.stop())

type Special = 'cut' | 'malformed' | 'several responses' | 'rotating ids' | 'contains a credential' | 'error'
/** Recordings that are not one complete response: these are not compared for equality. */
const SPECIAL: Record<string, Special> = {
  'composite__connection-cut-test-prompt-with-prefill-and-s': 'cut',
  'composite__connection-cut-test-sync-chat-completions-str': 'cut',
  'responses lingua__multimodalRequest-followup-response-streaming': 'cut',
  'firebase-mock__vertexai-streaming-failure-invalid-json': 'cut',
  'firebase-mock__vertexai-streaming-failure-malformed-content': 'cut',
  'firebase-mock__vertexai-streaming-failure-empty-content': 'cut',
  'firebase-mock__vertexai-streaming-success-quotes-escaped': 'cut',
  [MALFORMED]: 'malformed',
  'firebase-mock__vertexai-streaming-failure-api-key': 'contains a credential',
  'firebase-mock__vertexai-unary-failure-api-key': 'contains a credential',
  'pydantic-ai__openrouter-openrouter-stream-error': 'error',
  'firebase-mock__vertexai-streaming-failure-error-mid-stream': 'error',
  'composite__mid-stream-error-overloaded-test-code-execution-stream': 'error',
  ...Object.fromEntries(SEVERAL.map((id) => [id, 'several responses'])),
  ...Object.fromEntries(ROTATING.map((id) => [id, 'rotating ids'])),
}

function compareStreams(recording: Recording, received: unknown[], recorded: unknown[]): void {
  switch (SPECIAL[recording.id] ?? SPECIAL[`${recording.protocol} ${recording.id}`]) {
    case 'cut': {
      const { length } = whole(recorded)
      expect(received.slice(0, length)).toEqual(whole(recorded))
      return expect(JSON.stringify(received.slice(length))).toContain('error')
    }
    case 'malformed':
      return expect(whole(received)).toEqual(whole(recorded))
    // Frames after the terminal event of the first response are not passed on.
    case 'several responses':
      return expect(received).toEqual(recorded.slice(0, received.length))
    // The error comes once more, alone in a frame: before Google's raw JSON, behind any other frame.
    case 'error': {
      const { data, unframed } = recorded.at(-1) as { data?: { error: unknown }; unframed?: { error: unknown } }
      const alone = { data: { error: (data ?? unframed)!.error } }
      return expect(received).toEqual(recorded.toSpliced(unframed === undefined ? Infinity : -1, 0, alone))
    }
    case 'rotating ids':
      return expect(withoutItemIds(received)).toEqual(withoutItemIds(recorded))
    default:
      expect(received).toEqual(recorded)
  }
}

/** Frames whose data is JSON. */
const whole = (frames: unknown[]): unknown[] =>
  frames.filter((frame) => typeof (frame as { data: unknown }).data === 'object')

const withoutItemIds = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, member: unknown) => (key === 'item_id' || key === 'id' ? undefined : member)))

function replayed(name: string): Promise<Response> {
  replays.set(name, (replays.get(name) ?? 0) + 1)
  return replay.send(name)
}

const refusesKey = (status: number, text: string): boolean =>
  [401, 402, 403].includes(status) ||
  (status === 400 && /API[ _]key not valid|API_KEY_INVALID|incorrect API key/i.test(text))

const hidden = (text: string): string => text.replaceAll(/AIz[\w-]{20,}/g, '[hidden]')

/** Frames of a stream as JSON values, split without the gateway's FrameSplitter. */
function framesOf(text: string): unknown[] {
  return text
    .replace(/^\uFEFF/, '')
    .replaceAll('\r\n', '\n')
    .split('\n\n')
    .flatMap((block): unknown[] => {
      const lines = block.split('\n')
      const data = lines
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).replace(/^ /, ''))
        .join('\n')
      const event = lines
        .find((line) => line.startsWith('event:'))
        ?.slice(6)
        .trim()
      if (data === '') return block.trim().startsWith('{') ? [{ unframed: parse(block) }] : []
      return [{ ...(event === undefined ? {} : { event }), data: parse(data) }]
    })
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** The members of a response that Sluice sets itself. */
const OURS: Record<ConversationName, string[]> = {
  'chat.completions': ['id', 'model'],
  responses: ['id', 'model', 'store', 'previous_response_id'],
  messages: ['id', 'model'],
  generateContent: ['responseId', 'modelVersion'],
}

/** The members of a frame that hold a whole response. */
const WRAPPERS = ['data', 'response', 'message']

/** Usage that Sluice counts itself if the provider reports none. */
const USAGE_FIELDS = ['usage', 'usageMetadata']
const isUsageChunk = (frame: unknown): boolean => {
  const { data } = frame as { data?: { choices?: unknown[]; usage?: unknown } }
  return data?.choices?.length === 0 && typeof data.usage === 'object' && data.usage !== null
}

function reportsUsage({ protocol, stream }: Recording, text: string): boolean {
  const { usage, outcome } = responseContent(protocol, stream ? frameDataOf(text) : [JSON.parse(text)], stream)
  return outcome === 'failed' || (usage?.prompt ?? 0) > 0
}

function withoutIdentity(value: unknown, protocol: ConversationName, ours = OURS[protocol]): unknown {
  if (Array.isArray(value)) return value.map((element) => withoutIdentity(element, protocol, ours))
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? value.trim() : value
  const out = Object.fromEntries(Object.entries(value).filter(([key]) => !ours.includes(key)))
  for (const key of WRAPPERS) if (key in out) out[key] = withoutIdentity(out[key], protocol, ours)
  return out
}

/** Without the final `[DONE]`: some providers leave it out, and Sluice adds it. */
const withoutDone = (frames: unknown[]): unknown[] =>
  frames.filter((frame) => String((frame as { data?: unknown }).data).trim() !== '[DONE]')

/** The response for a client. `comparable`: the members of a response or frame that come from the provider. */
type Expected = { bytes: string; recorded: string; hasUsage: boolean; comparable(value: unknown): unknown }

function expectedOf(recording: Recording): Expected {
  const { protocol } = recording
  const bytes = new TextDecoder().decode(recording.response())
  const recorded = SPECIAL[recording.id] === 'contains a credential' ? hidden(bytes) : bytes
  const hasUsage = recording.status !== 200 || (recording.id !== WITHOUT_OUTPUT && reportsUsage(recording, recorded))
  const ours = hasUsage ? undefined : [...OURS[protocol], ...USAGE_FIELDS]
  return { bytes, recorded, hasUsage, comparable: (value) => withoutIdentity(value, protocol, ours) }
}

function expectUnchanged(recording: Recording, expected: Expected, received: string): void {
  const { recorded, hasUsage, comparable } = expected
  if (!recording.stream || recording.status !== 200)
    return expect(comparable(parse(received))).toEqual(comparable(parse(recorded)))
  const frames = withoutDone(framesOf(received))
  compareStreams(
    recording,
    comparable(hasUsage ? frames : frames.filter((frame) => !isUsageChunk(frame))) as unknown[],
    comparable(withoutDone(framesOf(recorded))) as unknown[],
  )
}

/** Pieces of a stream. More of them meet no other cuts; tests/properties/cuts.test.ts cuts at random places. */
const MOST_PIECES = 300

for (const protocol of Object.keys(OURS) as ConversationName[]) {
  describe.skipIf(!haveRecordings)(`recordings of ${protocol}`, () => {
    for (const [name, recording] of byName) {
      if (recording.protocol !== protocol) continue
      for (const size of recording.stream && isDistinct(recording) ? [Infinity, 7, 1013] : [Infinity]) {
        const pieces = size === Infinity ? 'one piece' : `pieces of ${size} bytes or more`
        test(`${recording.id} arrives unchanged in ${pieces}`, async () => {
          const expected = expectedOf(recording)
          piece = Math.max(size, Math.ceil(expected.bytes.length / MOST_PIECES))
          const response = await replayed(name)
          const received = await response.text()
          // A key that the provider refuses is not the client's.
          if (refusesKey(recording.status, expected.bytes)) {
            expect([response.status, received]).toEqual([502, expect.stringContaining("refused Sluice's credentials")])
            return
          }
          expect(response.status, received.slice(0, 500)).toBe(recording.status === 422 ? 400 : recording.status)
          expectUnchanged(recording, expected, received)
        })
      }
    }
  })
}

describe.skipIf(!haveRecordings)('generation records', () => {
  let records: Map<string, GenerationRecord[]>
  beforeAll(async () => {
    // Those whose tests above were left out.
    piece = Infinity
    for (const name of byName.keys()) if (!replays.has(name)) await (await replayed(name)).text()
    const store = await storeOf(replay.gateway)
    records = Map.groupBy(await store.ledger.generations(undefined, 10_000), ({ model }) => model)
    await store.close()
  }, 60_000)

  for (const protocol of Object.keys(PREFIX) as ConversationName[])
    describe(`of ${protocol}`, () => {
      for (const [name, recording] of byName)
        if (recording.protocol === protocol)
          test(`the record of ${recording.id} has the recorded usage and outcome`, () =>
            expectRecords(recording, records.get(`${PREFIX[protocol]}/${name}`) ?? [], replays.get(name)!))
    })
})
