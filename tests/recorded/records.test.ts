import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { haveRecordings, recordings, type Recording, WITHOUT_OUTPUT } from './recordings.ts'
import { PREFIX, startReplay, type Replay } from './replay-server.ts'
import { frameDataOf, responseContent, type ResponseContent } from './response-content.ts'
import { storeOf } from '../stores.ts'

/**
 * Every recorded exchange, replayed through a running Sluice in its own protocol, leaves a generation record with the
 * recorded usage, as `responseContent` computes it by the vendors' documentation.
 */

const byName = new Map(recordings().map((recording, index) => [`r${index}`, recording]))
let replay: Replay
let records: Map<string, GenerationRecord>

beforeAll(async () => {
  if (!haveRecordings) return
  replay = await startReplay(byName, () => Infinity)
  for (const name of byName.keys()) await (await replay.send(name)).text()
  const store = await storeOf(replay.gateway)
  records = new Map((await store.ledger.generations(undefined, 10_000)).map((record) => [record.model, record]))
  await store.close()
}, 60_000)
afterAll(() => replay?.stop())

const contentOf = ({ protocol, stream, response }: Recording): ResponseContent => {
  const text = new TextDecoder().decode(response())
  return responseContent(protocol, stream ? frameDataOf(text) : [JSON.parse(text)], stream)
}

/** OpenRouter raised the limit of one token to the least of OpenAI. What exceeds the client's limit is not charged. */
const RAISED = 'rig__openrouter-streaming-logprobs-matrix-streaming-gpt-4-1-mini-length-top-zero'

const tokensOf = ({ usage }: GenerationRecord): ResponseContent['usage'] => ({
  prompt: promptTokens(usage),
  completion: completionTokens(usage),
  cached: usage.cacheReadTokens,
  reasoning: usage.reasoningTokens,
})

for (const protocol of Object.keys(PREFIX) as ConversationName[]) {
  describe.skipIf(!haveRecordings)(`generation records of ${protocol}`, () => {
    for (const [name, recording] of byName) {
      if (recording.protocol !== protocol) continue
      test(`the record of ${recording.id} has the recorded usage and outcome`, () => {
        const content = recording.status === 200 ? contentOf(recording) : undefined
        const written = records.get(`${PREFIX[protocol]}/${name}`)
        // The provider continues in the background and has not reported usage yet.
        if (content?.finishReason === 'queued') return expect(written).toBeUndefined()
        const record = written!
        expect([record.api, record.streamed]).toEqual([protocol, recording.stream])
        if (content === undefined || content.outcome === 'failed') return expect(record.ending).toBe('failed')
        expect(record.ending).toBe('completed')
        if (recording.id === WITHOUT_OUTPUT)
          return expect([record.estimated, tokensOf(record)!.prompt]).toEqual([true, content.usage!.prompt])
        if (content.usage === undefined)
          return expect([record.estimated, promptTokens(record.usage) > 0]).toEqual([true, true])
        expect(tokensOf(record)).toEqual({ ...content.usage, ...(recording.id === RAISED ? { completion: 1 } : {}) })
        expect(record.estimated).toBe(false)
      })
    }
  })
}
