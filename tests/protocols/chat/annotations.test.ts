import { expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { eventsOf } from '../../translating.ts'

test('members of an annotation that no other protocol has are carried unread, beside its citation', () => {
  const annotation = { type: 'url_citation', url_citation: { url: 'https://a.b', rank: 3 }, weight: 0.5 }
  const message = { role: 'assistant', content: 'Hi', annotations: [annotation] }
  const { parts } = fold(
    eventsOf('chat.completions', { id: 'up', model: 'm', choices: [{ index: 0, message, finish_reason: 'stop' }] }),
  )
  expect(parts[0]).toMatchObject({ text: 'Hi', citations: [{ url: 'https://a.b' }] })
  expect(JSON.stringify(parts.slice(1))).toContain('annotations.weight')
  expect(JSON.stringify(parts.slice(1))).toContain('annotations.rank')
})
