import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { completionTokens } from '../../src/generation/usage.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { streamedEventsOf } from '../translating.ts'

/** Usage that providers report before their output has ended. */

type Json = Record<string, unknown>

/** The output that is billed for a stream, and if any of it was counted here. */
async function metered(protocol: ConversationName, frames: Json[]): Promise<{ output: number; counted: boolean }> {
  const meter = new Meter(() => Promise.resolve(1))
  meter.record(
    streamedEventsOf(
      protocol,
      frames.map((frame) => ({ data: JSON.stringify(frame) })),
    ),
  )
  meter.close('completed')
  await meter.count()
  return { output: completionTokens(meter.usage), counted: meter.estimation === 'counted' }
}

const words = 'one two three four five six seven eight'

describe('a report of output in the midst of a stream of chat completions', () => {
  const chunk = (delta: Json, more: Json = {}, reason: string | null = null): Json => ({
    id: 'c',
    choices: [{ index: 0, delta, finish_reason: reason }],
    ...more,
  })
  const usage = (output: number): Json => ({ usage: { prompt_tokens: 5, completion_tokens: output } })
  const end = chunk({ content: null, tool_calls: [] }, {}, 'stop')

  test.each([0, 1])('of %i tokens is not the total: what comes after it is counted', async (first) => {
    const frames = [chunk({ role: 'assistant', content: '' }, usage(first)), chunk({ content: words }), end]
    expect(await metered('chat.completions', frames)).toEqual({ output: 8, counted: true })
  })

  test('is not the total where text like that before it comes after it', async () => {
    const frames = [chunk({ content: 'one ' }), chunk({ content: '' }, usage(1)), chunk({ content: words }), end]
    expect(await metered('chat.completions', frames)).toEqual({ output: 9, counted: true })
  })

  test('is the total if only the end comes after it', async () => {
    const frames = [chunk({ content: words }), chunk({ content: '' }, usage(70)), end]
    expect(await metered('chat.completions', frames)).toEqual({ output: 70, counted: false })
  })

  test('may exceed the text that was received', async () => {
    const frames = [chunk({ content: 'one' }, usage(70)), chunk({ content: words }), end]
    expect(await metered('chat.completions', frames)).toEqual({ output: 70, counted: true })
  })

  test('is not the total where a call of a tool comes after it', async () => {
    const call = { index: 0, id: 'x', function: { name: 'look_up', arguments: JSON.stringify({ words }) } }
    const frames = [chunk({ content: 'one' }, usage(1)), chunk({ tool_calls: [call] }), chunk({}, {}, 'tool_calls')]
    expect(await metered('chat.completions', frames)).toMatchObject({ counted: true })
  })
})

describe("a report of output in the midst of Google's stream", () => {
  const stop = { finishReason: 'STOP' }
  const chunk = (text: string, more: Json = {}): Json => ({
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, ...more }],
  })
  const counts = (output: Json): Json => ({ usageMetadata: { promptTokenCount: 5, ...output } })

  test('is not the total: what comes after it is counted', async () => {
    const frames = [{ ...chunk('one'), ...counts({ candidatesTokenCount: 1 }) }, chunk(words, stop)]
    expect(await metered('generateContent', frames)).toEqual({ output: 9, counted: true })
  })

  test('is the total if only the end comes after it', async () => {
    const frames = [
      { ...chunk(words), ...counts({ candidatesTokenCount: 70 }) },
      { candidates: [{ index: 0, ...stop }] },
    ]
    expect(await metered('generateContent', frames)).toEqual({ output: 70, counted: false })
  })

  test('is omitted where there is no output, or where the total shows that none is charged', async () => {
    const silent = { candidates: [{ index: 0, ...stop }], ...counts({}) }
    expect(await metered('generateContent', [silent])).toEqual({ output: 0, counted: false })
    for (const [total, thoughts, tools] of [
      [5, 0, 0],
      [18, 6, 7],
    ]) {
      const free = { totalTokenCount: total, thoughtsTokenCount: thoughts, toolUsePromptTokenCount: tools }
      const frames = [{ ...chunk(words, { finishReason: 'SAFETY' }), ...counts(free) }]
      expect(await metered('generateContent', frames)).toEqual({ output: thoughts!, counted: false })
    }
  })

  test.each([{}, { candidatesTokenCount: null }, { totalTokenCount: 60 }])(
    'that is omitted otherwise is counted: %j',
    async (omitted) => {
      const frames = [{ ...chunk(words, stop), ...counts(omitted) }]
      expect(await metered('generateContent', frames)).toEqual({ output: 8, counted: true })
    },
  )
})
