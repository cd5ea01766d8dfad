import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { call, contextOf, framesOf, last, parsed, read, sentence, stop, types, type Any } from './fixtures.ts'

/** Reasoning for clients that request no summary of it: the text is in the envelope of the signature. */

const issuer = { provider: 'issuer', model: 'm1' }
const events = (head: object, signature?: string) => [
  ...sentence([{ type: 'reasoning', ...head }, ['Se', 'cret'], signature], [call('c1'), ['{}']]),
  stop,
]
const hiding = () => contextOf({ reasoning: { effort: 'low', summary: 'none' } })
/** The parts that the client's next request has. */
const returned = (output: Any[]) => read({ input: output }).turns[0]!.parts

describe('reasoning without a summary', () => {
  test.each([
    ['signed', { form: 'summary' }, 'sig', { form: 'summary', signature: { data: 'sig', issuer } }],
    ['of no known form', {}, 'sig', { signature: { data: 'sig', issuer } }],
    ['raw', { form: 'raw' }, 'sig', { signature: { data: 'sig', issuer } }],
    ['unsigned', { form: 'summary' }, undefined, { form: 'summary' }],
  ] as const)('that is %s has no text, whole and in a stream, and returns with it', (_what, head, signature, part) => {
    const frames = parsed(framesOf(events(head, signature), hiding()))
    expect(JSON.stringify(frames)).not.toContain('cret')
    expect(types(frames).filter((type) => type.includes('reasoning_'))).toEqual([])
    const { output } = last(frames)
    expect(output[0]).toMatchObject({ type: 'reasoning', summary: [] })
    expect(output[0].content).toBeUndefined()
    expect(returned(output)[0]).toEqual({ type: 'reasoning', text: 'Secret', ...part })
    const whole = responses.serve.writeResponse(fold(events(head, signature)), hiding()) as Any
    expect(returned(whole.output)).toEqual(returned(output))
  })

  test('has no encrypted content where it has neither text nor signature', () => {
    const silent = [...sentence([{ type: 'reasoning' }, []], [call('c1'), ['{}']]), stop]
    expect(last(parsed(framesOf(silent, hiding()))).output[0].encrypted_content).toBeUndefined()
  })
})

test.each([undefined, { effort: 'low' }, { summary: 'auto' }])(
  'reasoning has its text for a client that does not exclude it: %j',
  (reasoning) => {
    const frames = parsed(framesOf(events({ form: 'summary' }, 'sig'), contextOf({ reasoning })))
    expect(last(frames).output[0].summary).toEqual([{ type: 'summary_text', text: 'Secret' }])
  },
)
