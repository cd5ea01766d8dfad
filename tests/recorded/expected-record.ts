import { expect } from 'bun:test'
import { completionTokens, promptTokens } from '../../src/generation/usage.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { type Recording, WITHOUT_OUTPUT } from './recordings.ts'
import { frameDataOf, responseContent, type ResponseContent } from './response-content.ts'

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

/**
 * Each replay leaves a generation record with the recorded usage, as `responseContent` computes it by the vendors'
 * documentation.
 */
export function expectRecords(recording: Recording, written: readonly GenerationRecord[], replays: number): void {
  const content = recording.status === 200 ? contentOf(recording) : undefined
  // The provider continues in the background and has not reported usage yet.
  if (content?.finishReason === 'queued') return expect(written).toEqual([])
  expect(written).toHaveLength(replays)
  for (const record of written) expectRecord(recording, content, record)
}

function expectRecord(recording: Recording, content: ResponseContent | undefined, record: GenerationRecord): void {
  expect([record.api, record.streamed]).toEqual([recording.protocol, recording.stream])
  if (content === undefined || content.outcome === 'failed') return expect(record.ending).toBe('failed')
  expect(record.ending).toBe('completed')
  if (recording.id === WITHOUT_OUTPUT)
    return expect([record.estimated, tokensOf(record)!.prompt]).toEqual([true, content.usage!.prompt])
  if (content.usage === undefined)
    return expect([record.estimated, promptTokens(record.usage) > 0]).toEqual([true, true])
  expect(tokensOf(record)).toEqual({ ...content.usage, ...(recording.id === RAISED ? { completion: 1 } : {}) })
  expect(record.estimated).toBe(false)
}
