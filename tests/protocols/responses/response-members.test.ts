import { describe, expect, test } from 'bun:test'
import type { GenerationEvent } from '../../../src/generation/event.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { call, contextOf, framesOf, last, parsed, sentence, stop, text, type Any } from './fixtures.ts'
import { added, completed, created, done, eventsOf } from './provider-events.ts'

/** Members of responses and of their items, beside the content. */

test('a response to a client echoes limits, names, formats and tools in namespaces', () => {
  const asked = {
    max_output_tokens: 100,
    max_tool_calls: 3,
    prompt_cache_key: 'key',
    prompt_cache_retention: '24h',
    safety_identifier: 'safe',
    user: 'somebody',
    truncation: 'auto',
    top_logprobs: 2,
    text: { format: { type: 'json_object' }, verbosity: 'low' },
    reasoning: { effort: 'high', summary: 'auto' },
  }
  const inner = { type: 'function', name: 'f', parameters: { type: 'object' }, strict: true }
  const tools = [
    { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'g' }] },
    { type: 'custom', name: 'c' },
    inner,
  ]
  const response = last(parsed(framesOf([...sentence(), stop], contextOf({ ...asked, tools }))))
  expect(response).toMatchObject(asked)
  expect(response.tools).toEqual([
    { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'g', parameters: null, strict: false }] },
    { type: 'custom', name: 'c' },
    inner,
  ])
})

test('a response to a client begins with all of its members', () => {
  const begun = (issuer?: { provider: string; model: string }): Any => {
    const context = contextOf({ background: true })
    Object.assign(context.responseIdentity, { issuer })
    return parsed(framesOf(sentence(), context))[0]!.response
  }
  const state = { status: 'in_progress', service_tier: 'default', output: [], usage: null, completed_at: null }
  const settings = { presence_penalty: 0, frequency_penalty: 0, top_logprobs: 0, truncation: 'disabled' }
  expect(begun()).toMatchObject({ ...state, ...settings, background: true })
  expect(begun({ provider: 'p', model: 'm' })).toMatchObject({ ...state, ...settings, background: false })
})

/** Names of native content: members that are reported as lost elsewhere. */
const unread = (...events: object[]): string[] =>
  eventsOf(...events).flatMap((event) =>
    event.type === 'part-start' && event.head.type === 'native' ? [event.head.kind] : [],
  )

/** An object of these members, each of which says something. */
const withMembers = (names: string): Any => Object.fromEntries(names.split(' ').map((name) => [name, { a: 1 }]))

test('the members of a response that repeat its request or its state are no content', () => {
  const names =
    'object created_at completed_at background output_text tool_usage billing moderation content_filters input ' +
    'instructions conversation previous_response_id store prompt metadata user max_output_tokens max_tool_calls ' +
    'parallel_tool_calls tool_choice tools truncation text temperature top_p top_logprobs frequency_penalty ' +
    'presence_penalty reasoning service_tier safety_identifier prompt_cache_key prompt_cache_retention ' +
    'prompt_cache_options system_fingerprint'
  expect(unread(created, completed({ ...withMembers(names), mood: 'good' }))).toEqual(['mood'])
})

test.each<[Any, string[]]>([
  [{ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', namespace: 'n', mood: 1 }, ['mood']],
  [{ type: 'custom_tool_call', call_id: 'c', name: 'f', input: 'x', namespace: 'n', arguments: 'y' }, ['arguments']],
  [
    {
      type: 'reasoning',
      format: 'x',
      encrypted_content: 's',
      summary: [{ type: 'summary_text', text: 'a', tone: 1 }],
      content: [{ type: 'reasoning_text', text: 'b', mood: 1 }],
    },
    ['summary.tone', 'content.mood'],
  ],
  [
    {
      type: 'message',
      role: 'assistant',
      mood: 1,
      content: [
        {
          type: 'output_text',
          text: 'a',
          logprobs: [{ token: 'a', logprob: -1 }],
          annotations: [
            { type: 'url_citation', url: 'u', title: 't', start_index: 0, end_index: 1, tone: 1 },
            { type: 'container_file_citation', file_id: 'f', filename: 'n', container_id: 'c', index: 1 },
          ],
          hue: 1,
        },
        { type: 'refusal', refusal: 'no', text: 1 },
      ],
    },
    ['mood', 'hue', 'annotations.tone', 'text'],
  ],
])('an item has only those members as content that are not read: %j', (item, names) => {
  const whole = { ...withMembers('id object status item_id output_index created_by'), ...item, id: 'i' }
  expect(unread(created, added(0, whole), done(0, whole), completed())).toEqual(names)
})

describe('an annotation of a text', () => {
  const cited = (citation: Any, losses = new LossReport()): Any[] => {
    const events = [...sentence([text, ['😀 see']], [{ type: 'citation', citation }, []]), stop]
    return last(parsed(framesOf(events, contextOf({}, { losses })))).output[0].content[0].annotations
  }

  test.each<Any>([
    { type: 'url_citation', url: 'https://x.y', title: 'X', start_index: 0, end_index: 3 },
    { type: 'file_citation', file_id: 'f', filename: 'n', index: 3 },
    { type: 'container_file_citation', file_id: 'f', container_id: 'c', filename: 'n', start_index: 0, end_index: 1 },
    { type: 'file_path', file_id: 'f', index: 3 },
  ])('that a provider of this protocol made stays as it is: %j', (native) => {
    const losses = new LossReport()
    expect(cited({ url: 'https://other', title: 'other', native }, losses)).toEqual([native])
    expect(losses.losses).toEqual([])
  })

  const url = 'https://x.y'
  const whole = { type: 'url_citation', url, title: 'X', start_index: 0, end_index: 5 }
  test.each<[string, Any, Any]>([
    ['without an end', { type: 'url_citation', url: 'https://own' }, whole],
    ['without a URL', { type: 'url_citation', end_index: 3 }, whole],
    ['of another type', { type: 'web_search_result_location', file_id: 'f', url: 'https://own', end_index: 3 }, whole],
  ])('%s is one of the URL that was cited', (_, native, annotation) => {
    expect(cited({ url, title: 'X', native })).toEqual([annotation])
  })

  test('has its position in code points, and an empty title where there is none', () => {
    expect(cited({ url, start: 3, end: 6 })).toEqual([{ ...whole, title: '', start_index: 2, end_index: 5 }])
    expect(cited({ native: { type: 'page_location' } })).toEqual([
      { type: 'file_citation', file_id: '', filename: '', index: 0 },
    ])
  })

  test('of another provider is reported with what it loses', () => {
    const reasons = (citation: Any): (string | undefined)[] => {
      const losses = new LossReport()
      cited(citation, losses)
      return losses.losses.map(({ reason }) => reason)
    }
    expect(reasons({ url, start: 0, end: 1 })).toEqual([])
    expect(reasons({ url })).toEqual([expect.stringContaining('no position in the text')])
    expect(reasons({ url, start: 0, end: 1, citedText: 'x' })).toEqual([expect.stringContaining('the cited text')])
    expect(reasons({ title: 'T' })).toEqual([expect.stringContaining('sent as a file without an id')])
  })

  test('is reported as lost without a text to which it belongs', () => {
    const losses = new LossReport()
    const citation: [object, string[]] = [{ type: 'citation', citation: { url } }, []]
    const events = [
      ...sentence(citation, [text, ['a']], [call('c1'), ['{}']], citation, [{ type: 'refusal' }, ['no']], citation),
      stop,
    ]
    const { output } = last(parsed(framesOf(events, contextOf({}, { losses }))))
    expect(output[0].content[0].annotations).toEqual([])
    expect(losses.losses).toMatchObject([{ code: 'response_citation_dropped', path: 'response.citations' }])
  })
})

describe('the end of a response', () => {
  const lossesOf = (events: readonly GenerationEvent[]): string[] => {
    const losses = new LossReport()
    framesOf(events, contextOf({}, { losses }))
    return losses.losses.map(({ code, path }) => `${code} ${path}`)
  }
  const completedAt = (identity: object): number => {
    const context = contextOf()
    Object.assign(context.responseIdentity, identity)
    return last(parsed(framesOf([...sentence(), stop], context))).completed_at
  }

  test('has the time at which it came, ahead by what the provider is, and never before its beginning', () => {
    const before = Math.floor(Date.now() / 1000)
    const [now, ahead] = [completedAt({}), completedAt({ aheadMs: 5_000_000 }) - 5_000]
    const after = Math.floor(Date.now() / 1000)
    for (const at of [now, ahead]) {
      expect(at).toBeGreaterThanOrEqual(before)
      expect(at).toBeLessThanOrEqual(after)
    }
    expect(completedAt({ createdAt: 9_000_000_000 })).toBe(9_000_000_000)
  })

  test.each(['pause', 'other'] as const)('that is a %s is reported, also after a refusal', (reason) => {
    const end: GenerationEvent = { type: 'finish', reason, raw: 'odd' }
    const refusal: [object, string[]] = [{ type: 'refusal' }, ['no']]
    for (const events of [sentence([text, ['a']]), sentence(refusal)])
      expect(lossesOf([...events, end])).toEqual(['response_finish_adjusted response.finish_reason'])
  })

  test('that is a refusal is reported without a refused text, and a stop sequence always', () => {
    const end: GenerationEvent = { type: 'finish', reason: 'refusal', raw: 'refusal' }
    expect(lossesOf([...sentence([text, ['a']]), end])).toEqual(['response_finish_adjusted response.finish_reason'])
    expect(lossesOf([...sentence([{ type: 'refusal' }, ['no']]), end])).toEqual([])
    expect(lossesOf([...sentence([text, ['a']]), { ...stop, stopSequence: 'x' } as GenerationEvent])).toEqual([
      'response_field_dropped response.stop_sequence',
    ])
  })

  test('follows parts that no item represents, which are reported', () => {
    const native = (protocol: string, more: object = {}): [object, string[]] => [
      { type: 'native', protocol, kind: 'k', value: { id: 'i' }, ...more },
      [],
    ]
    const steps = [{ type: 'code', id: 'a', code: 'x' }]
    expect(lossesOf([...sentence([{ type: 'audio', mediaType: 'audio/wav' }, ['aGk=']]), stop])).toEqual([
      'response_content_dropped response.audio',
    ])
    expect(lossesOf([...sentence(native('messages')), stop])).toEqual(['response_content_native response.k'])
    expect(lossesOf([...sentence(native('messages', { steps })), stop])).toEqual(['response_field_adjusted response.k'])
    expect(lossesOf([...sentence(native('responses')), stop])).toEqual([])
    const usage = { usage: { cacheWrite1hTokens: 1 } }
    expect(lossesOf([...sentence(usage), stop])).toEqual(['response_usage_adjusted response.usage'])
  })
})
