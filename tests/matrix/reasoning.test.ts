import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { seal } from '../../src/generation/signature.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Abilities, Quirks } from '../../src/protocols/protocol.ts'
import type { Any } from '../recorded/said.ts'

/** Earlier turns in which several models thought, and what each provider gets back of them: what its model signed, byte for byte, and nothing else. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const OURS = { provider: 'p', model: 'm' }

/** 48 bytes, with the signs that URLs spell differently. */
const bytes = (first: number): string => Buffer.from(Array.from({ length: 48 }, (_, i) => (i * 61 + first) % 256)).toString('base64')
const OWN = bytes(251), OTHER_MODEL = bytes(7), OTHER_PROVIDER = bytes(99), PLAIN = bytes(180)
const own = seal(OWN, OURS), otherModel = seal(OTHER_MODEL, { provider: 'p', model: 'n' }), otherProvider = seal(OTHER_PROVIDER, { provider: 'q', model: 'm' })

const QUIRKS: Partial<Record<ConversationName, Quirks>> = { 'chat.completions': { reasoningField: 'reasoning_details' } }
const ABILITIES: Partial<Record<ConversationName, Abilities>> = { messages: { reasoning: 'budget' }, generateContent: { reasoning: 'level' } }

function sent(client: ConversationName, body: Any, provider: ConversationName): { text: string; lost: string[] } {
  const wire = { body, text: JSON.stringify(body), model: 'a/b', headers: new Headers() }
  const { body: written, losses } = protocols[provider].call.writeRequest(protocols[client].serve.readRequest(wire), { ...OURS, quirks: QUIRKS[provider] ?? {}, abilities: ABILITIES[provider] ?? {} })
  return { text: JSON.stringify(written), lost: losses.filter(({ field }) => field === 'thoughts' || field === 'signature').map(({ field, what }) => `${field} ${what}`) }
}

const user = { role: 'user', content: 'q' }
const details = (...signatures: string[]): Any[] => signatures.map((signature, index) => ({ type: 'reasoning.text', text: `thought ${index}`, signature, index }))
const item = (encrypted_content: string): Any => ({ type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content })
const thinking = (signature: string): Any => ({ type: 'thinking', thinking: 'hm', signature })

/** One turn of three makers, then its call and result. */
const MIXED: Record<ConversationName, (...signatures: string[]) => Any> = {
  'chat.completions': (...signatures) => ({ model: 'a/b', messages: [user, { role: 'assistant', content: 'x', reasoning_details: details(...signatures), tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }] }, { role: 'tool', tool_call_id: 'a', content: 'r' }] }),
  responses: (...signatures) => ({ model: 'a/b', input: [user, ...signatures.map(item), { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' }, { type: 'function_call_output', call_id: 'a', output: 'r' }] }),
  messages: (...signatures) => ({ model: 'a/b', max_tokens: 9000, messages: [user, { role: 'assistant', content: [...signatures.map(thinking), { type: 'tool_use', id: 'a', name: 'f', input: {} }] }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'r' }] }] }),
  generateContent: (...signatures) => ({ contents: [{ role: 'user', parts: [{ text: 'q' }] }, { role: 'model', parts: [...signatures.map((thoughtSignature) => ({ text: 'hm', thought: true, thoughtSignature })), { functionCall: { id: 'a', name: 'f', args: {} } }] }, { role: 'user', parts: [{ functionResponse: { id: 'a', name: 'f', response: { output: 'r' } } }] }] }),
}

for (const client of NAMES) for (const provider of NAMES.filter((name) => name !== client)) describe(`${client} -> ${provider}`, () => {
  test('of a turn of several makers each gets its own back', () => {
    const { text, lost } = sent(client, MIXED[client](own, otherModel, otherProvider, PLAIN), provider)
    expect([OWN, OTHER_MODEL, OTHER_PROVIDER, PLAIN].map((one) => text.includes(JSON.stringify(one)))).toEqual([true, false, false, false])
    expect(text).not.toContain(own)
    expect(lost).toContain('thoughts left out')
  })

  test('of a turn of its own nothing is lost', () => {
    const { text, lost } = sent(client, MIXED[client](own), provider)
    expect(text).toContain(JSON.stringify(OWN))
    expect(lost.filter((one) => one !== 'signature approximated')).toEqual([])
  })
})

describe.each(NAMES)('thoughts that ended an answer, towards %s', (provider) => {
  test.each(NAMES.filter((name) => name !== provider))('of %s: stay where they may, else are told', (client) => {
    const alone: Record<ConversationName, Any> = {
      'chat.completions': { model: 'a/b', messages: [user, { role: 'assistant', content: '', reasoning_details: details(own) }, user] },
      responses: { model: 'a/b', input: [user, item(own), user] },
      messages: { model: 'a/b', max_tokens: 9000, messages: [user, { role: 'assistant', content: [thinking(own)] }, user] },
      generateContent: { contents: [{ role: 'user', parts: [{ text: 'q' }] }, { role: 'model', parts: [{ text: 'hm', thought: true, thoughtSignature: own }] }, { role: 'user', parts: [{ text: 'q' }] }] },
    }
    const { text, lost } = sent(client, alone[client], provider)
    // Anthropic refuses an answer that ends with thinking, OpenAI a reasoning item that nothing follows.
    expect([text.includes(JSON.stringify(OWN)), lost]).toEqual(provider === 'generateContent' ? [true, []] : [false, ['thoughts left out']])
  })
})

test.each(NAMES.slice(0, 3))('signatures of texts, also of an empty last one, are told where %s has no place for them', (provider) => {
  const parts = [{ text: 'hello', thoughtSignature: OTHER_MODEL }, { text: '', thoughtSignature: PLAIN }]
  const { text, lost } = sent('generateContent', { contents: [{ role: 'user', parts: [{ text: 'q' }] }, { role: 'model', parts }, { role: 'user', parts: [{ text: 'n' }] }] }, provider)
  expect(text).toContain('hello')
  expect(text).not.toContain(OTHER_MODEL)
  expect(new Set(lost)).toEqual(new Set(['signature left out']))
})
