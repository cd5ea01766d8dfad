import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsFor, streamedEventsOf } from '../translating.ts'
import { framesOf, responseOf } from './provider-replies.ts'
import { codesAndPaths, contextOf, type Json, others, sendTo } from './routes.ts'

/**
 * A search of tools that the client runs (Codex, for tools that it lists only when they are found), with providers of
 * other protocols.
 */

const parameters = { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] }
const search = { type: 'tool_search', execution: 'client', description: 'Finds tools.', parameters }
const found = {
  type: 'namespace',
  name: 'mail',
  description: '',
  tools: [{ type: 'function', name: 'send', description: 'Sends a mail.', parameters: {}, defer_loading: true }],
}
const asked = { model: 'a/b', input: [{ role: 'user', content: 'Mail it.' }], tools: [search] }
const searched = {
  ...asked,
  input: [
    ...asked.input,
    {
      type: 'tool_search_call',
      id: 'tsc_1',
      call_id: 'call_1',
      status: 'completed',
      execution: 'client',
      arguments: { query: 'mail' },
    },
    { type: 'tool_search_output', call_id: 'call_1', status: 'completed', execution: 'client', tools: [found] },
  ],
}

const toolsOf = ({ tools }: Json): Json[] =>
  (tools as Json[]).flatMap((tool) => tool.functionDeclarations ?? [tool.function ?? tool])

describe.each(others('responses'))('for %s, a search of tools', (provider) => {
  test('is a function, and its call is a search of the client', () => {
    const context = contextOf('responses', asked)
    const sent = sendTo(provider, context)
    expect(toolsOf(sent.body)).toMatchObject([{ name: 'tool_search', description: 'Finds tools.' }])
    expect(codesAndPaths(sent.losses).filter((loss) => loss.includes('tools'))).toEqual([])
    const { whole, frames } = responseOf(provider, {
      parts: [{ type: 'call', id: 'call_1', name: 'tool_search', args: '{"query":"mail"}' }],
      finish: 'tool-calls',
      usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
    })
    const events = eventsFor(provider, JSON.parse(JSON.stringify(whole)), {}, context.request)
    const { output } = protocols.responses.serve.writeResponse(fold(events), context) as Json
    const call = {
      type: 'tool_search_call',
      id: expect.stringMatching(/^tsc_/),
      call_id: expect.any(String),
      status: 'completed',
      execution: 'client',
      arguments: { query: 'mail' },
    }
    expect(output).toEqual([call])
    const streaming = contextOf('responses', asked, true)
    const writer = protocols.responses.serve.writer(streaming)
    const streamed = streamedEventsOf(provider, framesOf(frames))
      .flatMap((event: GenerationEvent) => writer.write(event))
      .map(({ data }) => JSON.parse(data) as Json)
    expect(streamed.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.output_item.done',
      'response.completed',
    ])
    expect(streamed[3]!.item).toEqual(call)
    expect(streamed[2]!.item).toEqual({ ...call, id: streamed[3]!.item.id, status: 'in_progress', arguments: {} })
    expect(context.losses.losses).toEqual([])
  })

  test('is followed by its result, and what it found can be called', () => {
    const context = contextOf('responses', searched)
    const sent = sendTo(provider, context)
    expect(toolsOf(sent.body).map(({ name }) => name)).toEqual(['tool_search', 'send'])
    const text = JSON.stringify(sent.body)
    expect(text).toContain('- send: Sends a mail.')
    expect(text.indexOf('call_1')).toBeLessThan(text.indexOf('- send'))
    expect(codesAndPaths(sent.losses).filter((loss) => loss.includes('input'))).toEqual([
      'native_field input[2].tools[0].tools[0].defer_loading',
    ])
  })

  test('of the provider stays its own, as does one beside a function of its name', () => {
    const own = sendTo(provider, contextOf('responses', { ...asked, tools: [{ type: 'tool_search' }] }))
    expect(codesAndPaths(own.losses)).toContain('tool_native tools[0]')
    const tools = [search, { type: 'function', name: 'tool_search', parameters }]
    const beside = sendTo(provider, contextOf('responses', { ...asked, tools }))
    expect(codesAndPaths(beside.losses)).toContain('tool_native tools[0]')
  })
})
