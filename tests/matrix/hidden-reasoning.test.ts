import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf, HELLO, NAMES, sendTo } from './routes.ts'

/** Clients that want a response without the text of its reasoning: Sluice leaves it out, whatever the model shows. */

const HIDING: Record<ConversationName, object> = {
  'chat.completions': { reasoning: { effort: 'low', exclude: true } },
  responses: { reasoning: { effort: 'low', summary: 'none' } },
  messages: { thinking: { type: 'adaptive', display: 'omitted' } },
  generateContent: { generationConfig: { thinkingConfig: { thinkingLevel: 'LOW', includeThoughts: false } } },
}
const EVENTS: GenerationEvent[] = [
  { type: 'start', id: 'theirs', model: 'm' },
  { type: 'part-start', part: 0, head: { type: 'reasoning' } },
  { type: 'part-delta', part: 0, text: 'hidden thought' },
  { type: 'part-end', part: 0 },
  { type: 'part-start', part: 1, head: { type: 'text' } },
  { type: 'part-delta', part: 1, text: 'Shown.' },
  { type: 'part-end', part: 1 },
  { type: 'finish', reason: 'stop', raw: 'stop' },
]

describe.each(NAMES)('a client of %s that hides reasoning', (client) => {
  const context = (stream: boolean) => contextOf(client, { ...HELLO[client], ...HIDING[client] }, stream)

  test.each([false, true])('receives the answer alone (stream: %p)', (stream) => {
    const { serve } = protocols[client]
    const writer = serve.writer(context(stream))
    const response = stream
      ? EVENTS.flatMap((event) => writer.write(event))
      : serve.writeResponse(fold(EVENTS), context(stream))
    const text = JSON.stringify(response)
    expect(text).toContain('Shown.')
    expect(text).not.toContain('hidden thought')
  })

  test.each(NAMES.filter((provider) => provider !== client))('loses nothing of that at %s', (provider) => {
    const capabilities = { reasoning: provider === 'messages' ? ('budget' as const) : ('effort' as const) }
    const { losses } = sendTo(provider, context(false), { ...capabilities, maxOutputTokens: 5000 })
    expect(losses.filter(({ path }) => /exclude|summary|display|includeThoughts/.test(path))).toEqual([])
  })
})
