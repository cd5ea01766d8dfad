import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { haveRecordings, recordings, type Recording } from './recordings.ts'
import { startReplay, type Replay } from './replay-server.ts'
import { frameDataOf, responseContent } from './response-content.ts'

/**
 * Every recorded exchange, served by a replay upstream and fetched through a running Sluice in its own protocol, comes
 * back whole.
 */

const all = recordings()
const byName = new Map(all.map((recording, index) => [`r${index}`, recording]))
let replay: Replay
/** How the upstream cuts its bytes: in one piece, or into pieces of this many. */
let piece = Infinity

beforeAll(async () => {
  if (haveRecordings) replay = await startReplay(byName, () => piece)
})
afterAll(() => replay?.stop())

/** Recordings that are not one answer in full: what is expected instead of equality. */
const PECULIAR: Record<string, 'cut' | 'several answers' | 'ids rotate' | 'holds a credential'> = {
  'composite__connection-cut-test-sync-chat-completions-str': 'cut',
  'responses lingua__multimodalRequest-followup-response-streaming': 'cut',
  'firebase-mock__vertexai-streaming-failure-invalid-json': 'cut',
  'firebase-mock__vertexai-streaming-failure-malformed-content': 'cut',
  'vercel-ai__azure-azure-reasoning-encrypted-content.1': 'several answers',
  'vercel-ai__anthropic-anthropic-programmatic-tool-calling.1': 'several answers',
  'vercel-ai__openai-github-copilot-id-rotation.1': 'ids rotate',
  'firebase-mock__vertexai-streaming-failure-api-key': 'holds a credential',
  'firebase-mock__vertexai-unary-failure-api-key': 'holds a credential',
}

function compareStreams(recording: Recording, heard: unknown[], recorded: unknown[]): void {
  switch (PECULIAR[recording.id] ?? PECULIAR[`${recording.protocol} ${recording.id}`]) {
    case 'cut': {
      const whole = recorded.filter((frame) => typeof (frame as { data: unknown }).data === 'object')
      expect(heard.slice(0, whole.length)).toEqual(whole)
      return expect(JSON.stringify(heard.slice(whole.length))).toContain('error')
    }
    // The first answer counts; what a provider says after its terminal event is not passed on.
    case 'several answers':
      return expect(heard).toEqual(recorded.slice(0, heard.length))
    case 'ids rotate':
      return expect(withoutItemIds(heard)).toEqual(withoutItemIds(recorded))
    default:
      expect(heard).toEqual(recorded)
  }
}

const withoutItemIds = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, member: unknown) => (key === 'item_id' || key === 'id' ? undefined : member)))

const hidden = (text: string): string => text.replaceAll(/AIz[\w-]{20,}/g, '[hidden]')

/**
 * Frames of a stream as JSON values, by rules of its own so that the project's splitter is not tested against itself.
 */
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
      if (data === '') return block.trim().startsWith('{') ? [{ bare: parse(block) }] : []
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

/** What is Sluice's own in an answer: id and model, and for responses whether and after what it is stored. */
const OURS: Record<ConversationName, string[]> = {
  'chat.completions': ['id', 'model'],
  responses: ['id', 'model', 'store', 'previous_response_id'],
  messages: ['id', 'model'],
  generateContent: ['responseId', 'modelVersion'],
}

/** The members that hold a whole answer inside a frame. */
const WRAPPERS = ['data', 'response', 'message']

/** Usage where it is Sluice's own, because the recorded provider told none. */
const COUNTED = ['usage', 'usageMetadata']
const isUsageChunk = (frame: unknown): boolean => {
  const { data } = frame as { data?: { choices?: unknown[]; usage?: unknown } }
  return data?.choices?.length === 0 && typeof data.usage === 'object' && data.usage !== null
}

function tellsUsage({ protocol, stream }: Recording, text: string): boolean {
  const { usage, outcome } = responseContent(protocol, stream ? frameDataOf(text) : [JSON.parse(text)], stream)
  return outcome === 'failed' || (usage?.prompt ?? 0) > 0
}

function withoutLabels(value: unknown, protocol: ConversationName, ours = OURS[protocol]): unknown {
  if (Array.isArray(value)) return value.map((element) => withoutLabels(element, protocol, ours))
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? value.trim() : value
  const out = Object.fromEntries(Object.entries(value).filter(([key]) => !ours.includes(key)))
  for (const key of WRAPPERS) if (key in out) out[key] = withoutLabels(out[key], protocol, ours)
  return out
}

/** A sentinel that says nothing: some providers leave it out, and Sluice puts it. */
const spoken = (frames: unknown[]): unknown[] =>
  frames.filter((frame) => String((frame as { data?: unknown }).data).trim() !== '[DONE]')

for (const protocol of Object.keys(OURS) as ConversationName[]) {
  describe.skipIf(!haveRecordings)(`replay of ${protocol}`, () => {
    for (const [name, recording] of byName) {
      if (recording.protocol !== protocol) continue
      for (const size of recording.stream ? [Infinity, 7, 1013] : [Infinity]) {
        test(`${recording.id}${size === Infinity ? '' : ` in pieces of ${size}`}`, async () => {
          piece = recording.response().length / size > 3000 ? 1013 : size
          const response = await replay.send(name)
          const heard = await response.text()
          const bytes = new TextDecoder().decode(recording.response())
          const recorded = PECULIAR[recording.id] === 'holds a credential' ? hidden(bytes) : bytes
          expect(response.status, heard.slice(0, 500)).toBe(recording.status === 422 ? 400 : recording.status)
          const told = recording.status !== 200 || tellsUsage(recording, recorded)
          const bare = (value: unknown): unknown =>
            withoutLabels(value, protocol, told ? undefined : [...OURS[protocol], ...COUNTED])
          if (!recording.stream || recording.status !== 200)
            return expect(bare(parse(heard))).toEqual(bare(parse(recorded)))
          const frames = spoken(framesOf(heard))
          compareStreams(
            recording,
            bare(told ? frames : frames.filter((frame) => !isUsageChunk(frame))) as unknown[],
            bare(spoken(framesOf(recorded))) as unknown[],
          )
        })
      }
    }
  })
}
