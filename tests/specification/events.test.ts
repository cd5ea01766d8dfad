import { describe, expect, test } from 'bun:test'
import { MODELS, post, useGateway, type Json } from './kit.ts'

/** The streaming events and the response object of the Responses API, for every model, streamed and whole. */

const gateway = useGateway()

const POSITION = ['item_id', 'output_index']
const RESPONSE = ['response']
const CONTENT = [...POSITION, 'content_index']
const SUMMARY = [...POSITION, 'summary_index']
/** Members besides `type` and `sequence_number`. */
const EVENTS: Record<string, string[]> = {
  'response.created': RESPONSE,
  'response.queued': RESPONSE,
  'response.in_progress': RESPONSE,
  'response.completed': RESPONSE,
  'response.failed': RESPONSE,
  'response.incomplete': RESPONSE,
  'response.output_item.added': ['item', 'output_index'],
  'response.output_item.done': ['item', 'output_index'],
  'response.content_part.added': [...CONTENT, 'part'],
  'response.content_part.done': [...CONTENT, 'part'],
  'response.output_text.delta': [...CONTENT, 'delta', 'logprobs'],
  'response.output_text.done': [...CONTENT, 'text', 'logprobs'],
  'response.refusal.delta': [...CONTENT, 'delta'],
  'response.refusal.done': [...CONTENT, 'refusal'],
  'response.function_call_arguments.delta': [...POSITION, 'delta'],
  'response.function_call_arguments.done': [...POSITION, 'arguments', 'name'],
  'response.reasoning_summary_part.added': [...SUMMARY, 'part'],
  'response.reasoning_summary_part.done': [...SUMMARY, 'part'],
  'response.reasoning_summary_text.delta': [...SUMMARY, 'delta'],
  'response.reasoning_summary_text.done': [...SUMMARY, 'text'],
  'response.reasoning_text.delta': [...CONTENT, 'delta'],
  'response.reasoning_text.done': [...CONTENT, 'text'],
  'response.output_text.annotation.added': [...CONTENT, 'annotation', 'annotation_index'],
  'response.custom_tool_call_input.delta': [...POSITION, 'delta'],
  'response.custom_tool_call_input.done': [...POSITION, 'input'],
  error: ['code', 'message', 'param'],
}

const TYPES: Record<string, string> = {
  response: 'object',
  item: 'object',
  part: 'object',
  annotation: 'object',
  logprobs: 'array',
  item_id: 'string',
  delta: 'string',
  text: 'string',
  refusal: 'string',
  arguments: 'string',
  input: 'string',
  name: 'string',
  code: 'string',
  message: 'string',
  output_index: 'integer',
  content_index: 'integer',
  summary_index: 'integer',
  annotation_index: 'integer',
  sequence_number: 'integer',
  type: 'string',
  param: 'string or null',
}

/** Members of the response object. */
const RESPONSE_FIELDS: Record<string, string> = {
  id: 'string',
  object: 'string',
  created_at: 'integer',
  status: 'string',
  background: 'boolean',
  content_filters: 'array',
  error: 'object or null',
  incomplete_details: 'object or null',
  instructions: 'string or null',
  max_output_tokens: 'integer or null',
  max_tool_calls: 'integer or null',
  model: 'string',
  output: 'array',
  parallel_tool_calls: 'boolean',
  previous_response_id: 'string or null',
  prompt_cache_key: 'string or null',
  prompt_cache_retention: 'string or null',
  safety_identifier: 'string or null',
  user: 'string or null',
  reasoning: 'object',
  service_tier: 'string',
  store: 'boolean',
  temperature: 'number',
  top_p: 'number',
  text: 'object',
  tool_choice: 'string',
  tools: 'array',
  top_logprobs: 'integer',
  truncation: 'string',
  usage: 'object',
  metadata: 'object',
}

function isA(value: unknown, kinds: string): boolean {
  return kinds.split(' or ').some((kind) => {
    if (kind === 'null') return value === null
    if (kind === 'integer') return Number.isInteger(value)
    if (kind === 'array') return Array.isArray(value)
    if (kind === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
    return typeof value === kind
  })
}

function checkMembers(value: Json, types: Record<string, string>, where: string): void {
  for (const [name, kinds] of Object.entries(types)) {
    if (!isA(value[name], kinds))
      throw new Error(`${where}.${name} must be ${kinds}, is ${JSON.stringify(value[name])}`)
  }
}

function checkResponse(response: Json): void {
  checkMembers(response, RESPONSE_FIELDS, 'response')
  expect(response.object).toBe('response')
  checkMembers(response.reasoning as Json, { effort: 'string', summary: 'string or null' }, 'reasoning')
  checkMembers(response.text as Json, { format: 'object', verbosity: 'string' }, 'text')
  checkMembers((response.text as { format: Json }).format, { type: 'string' }, 'text.format')
  const usage = response.usage as Json
  checkMembers(
    usage,
    {
      input_tokens: 'integer',
      input_tokens_details: 'object',
      output_tokens: 'integer',
      output_tokens_details: 'object',
      total_tokens: 'integer',
    },
    'usage',
  )
  checkMembers(
    usage.input_tokens_details as Json,
    { cached_tokens: 'integer', web_search: 'integer' },
    'usage.input_tokens_details',
  )
  checkMembers(usage.output_tokens_details as Json, { reasoning_tokens: 'integer' }, 'usage.output_tokens_details')
  expect(usage.total_tokens).toBe((usage.input_tokens as number) + (usage.output_tokens as number))
}

type Event = Json & { type: string; sequence_number: number; event: string }

async function events(body: Json): Promise<Event[]> {
  const response = await post(gateway, '/v1/responses', { ...body, stream: true })
  expect(response.headers.get('content-type')).toStartWith('text/event-stream')
  const blocks = (await response.text()).split('\n\n').filter((block) => block !== '')
  return blocks.map((block) => {
    const lines = block.split('\n')
    expect(lines.map((line) => line.split(':')[0])).toEqual(['event', 'data'])
    return { event: lines[0]!.slice(7), ...(JSON.parse(lines[1]!.slice(6)) as Json) } as Event
  })
}

/** Each event has exactly its members of EVENTS, is numbered without gaps and has its type as event name. */
function checkEvents(seen: Event[]): void {
  for (const [index, { event, ...data }] of seen.entries()) {
    expect(event).toBe(data.type)
    const members = EVENTS[data.type]
    if (members === undefined) throw new Error(`no event type ${data.type}`)
    expect(Object.keys(data).toSorted()).toEqual(['type', 'sequence_number', ...members].toSorted())
    for (const name of Object.keys(data))
      if (!isA(data[name], TYPES[name]!))
        throw new Error(`${data.type}: ${name} must be ${TYPES[name]}, is ${JSON.stringify(data[name])}`)
    expect(data.sequence_number).toBe(index)
  }
  expect(seen.slice(0, 2).map(({ type }) => type)).toEqual(['response.created', 'response.in_progress'])
  for (const { response } of seen.slice(0, 2) as unknown as { response: Json }[])
    expect(response.status).toBe('in_progress')
  checkItems(seen)
}

/** Items are added one at a time, in order, and their deltas add up to the text of their `done` event. */
function checkItems(seen: Event[]): void {
  let open: { id: string; index: number; text: string } | undefined
  let next = 0
  for (const event of seen) {
    const item = event.item as { id: string } | undefined
    if (event.type === 'response.output_item.added') {
      expect(open).toBeUndefined()
      expect(event.output_index).toBe(next++)
      open = { id: item!.id, index: event.output_index as number, text: '' }
      continue
    }
    if (event.output_index === undefined) continue
    expect(event.output_index).toBe(open!.index)
    if (event.type === 'response.output_item.done') {
      expect(item!.id).toBe(open!.id)
      open = undefined
      continue
    }
    expect(event.item_id).toBe(open!.id)
    if (event.type.endsWith('_part.added')) open!.text = ''
    if (event.type.endsWith('.delta')) open!.text += event.delta as string
    const whole = event.text ?? event.arguments ?? event.input ?? event.refusal
    if (event.type.endsWith('.done') && whole !== undefined) expect(whole).toBe(open!.text)
  }
}

const stable = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (name, member: unknown) =>
      ['id', 'item_id', 'call_id', 'created_at', 'completed_at', 'encrypted_content'].includes(name)
        ? `<${typeof member}>`
        : member,
    ),
  )

const TOOLS = [
  { type: 'function', name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  { type: 'function', name: 'get_time', parameters: { type: 'object', properties: {} } },
  { type: 'custom', name: 'run', description: 'Runs a command' },
]

const terminal = (seen: Event[]): Json => seen.at(-1)!.response as Json
const count = (seen: Event[], type: string): number => seen.filter((event) => event.type === type).length
const pair = (type: string): string[] => [`${type}.added`, `${type}.done`]

/** Sends a request streamed and not, and checks that both responses are the same. */
async function both(body: Json): Promise<Event[]> {
  const seen = await events(body)
  checkEvents(seen)
  const whole = (await (await post(gateway, '/v1/responses', body)).json()) as Json
  checkResponse(whole)
  checkResponse(terminal(seen))
  expect(stable(terminal(seen))).toEqual(stable(whole))
  expect(seen.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)).toEqual(
    terminal(seen).output as unknown[],
  )
  return seen
}

describe.each([...MODELS])('%s', (model) => {
  test('reasoning, text and calls have every event of their kind', async () => {
    const input =
      '[[think: First I look at the sky.]] [[reply: Let me see what the weather is.]] ' +
      '[[call: get_weather {"city":"Paris"}]] [[call: get_time {}]] ' +
      // Where custom tools are not supported, they are functions with one text.
      (model === 'sandbox/chat' || model === 'sandbox/responses'
        ? '[[call: run ls -l]]'
        : '[[call: run {"input":"ls -l"}]]')
    const seen = await both({ model, input, tools: TOOLS, reasoning: { summary: 'auto' } })
    const types = new Set(seen.map(({ type }) => type))
    const form = types.has('response.reasoning_text.delta') ? 'reasoning_text' : 'reasoning_summary_text'
    for (const type of [
      ...pair('response.output_item'),
      ...pair('response.content_part'),
      `response.${form}.delta`,
      `response.${form}.done`,
      'response.output_text.delta',
      'response.output_text.done',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.custom_tool_call_input.delta',
      'response.custom_tool_call_input.done',
    ])
      expect([...types]).toContain(type)
    expect(count(seen, 'response.function_call_arguments.done')).toBe(2)
    expect(count(seen, 'response.custom_tool_call_input.done')).toBe(1)
    expect(seen.at(-1)!.type).toBe('response.completed')
    expect(terminal(seen).status).toBe('completed')
    const output = terminal(seen).output as Json[]
    expect(output.map(({ type }) => type).filter((type, index) => type !== 'reasoning' || index === 0)).toEqual([
      'reasoning',
      'message',
      'function_call',
      'function_call',
      'custom_tool_call',
    ])
    const message = output.find(({ type }) => type === 'message') as { content: Json[]; status: string; role: string }
    expect(message).toMatchObject({
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Let me see what the weather is.', annotations: [], logprobs: [] }],
    })
    expect(output.filter(({ type }) => type === 'function_call').map(({ name, status }) => [name, status])).toEqual([
      ['get_weather', 'completed'],
      ['get_time', 'completed'],
    ])
    expect(output.find(({ type }) => type === 'custom_tool_call')).toMatchObject({ name: 'run', input: 'ls -l' })
  })

  test('a summary has the events of its parts', async () => {
    const seen = await both({
      model,
      input: '[[think: First I look.]] [[reply: Done]]',
      reasoning: { effort: 'low', summary: 'auto' },
    })
    if (seen.some(({ type }) => type === 'response.reasoning_text.delta')) return
    for (const type of [
      ...pair('response.reasoning_summary_part'),
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.done',
    ])
      expect(seen.map((event) => event.type)).toContain(type)
  })

  test('a refusal has its events, or ends the response by its status', async () => {
    const seen = await both({ model, input: '[[refuse: I must not do this.]]' })
    const response = terminal(seen)
    const [item] = response.output as { content: Json[] }[]
    // Only two of the protocols have refusals as parts of a response.
    if (model === 'sandbox/chat' || model === 'sandbox/responses') {
      for (const type of ['response.refusal.delta', 'response.refusal.done'])
        expect(seen.map((event) => event.type)).toContain(type)
      expect(item!.content[0]).toEqual({ type: 'refusal', refusal: 'I must not do this.' })
    } else expect(JSON.stringify(item ?? response.incomplete_details)).toMatch(/I must not do this|content_filter/)
  })

  test('a citation is added to its text', async () => {
    const seen = await both({ model, input: '[[reply: It is so.]] [[cite: https://example.com A title]]' })
    expect(seen.map(({ type }) => type)).toContain('response.output_text.annotation.added')
    expect(
      (terminal(seen).output as { content: { annotations: Json[] }[] }[])[0]!.content[0]!.annotations[0],
    ).toMatchObject({ type: 'url_citation', url: 'https://example.com' })
  })

  test('a response that ends at the output limit is incomplete, with the reason', async () => {
    const seen = await both({ model, input: '[[length: 200]]', max_output_tokens: 20 })
    expect(seen.at(-1)!.type).toBe('response.incomplete')
    expect(terminal(seen)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      error: null,
    })
  })

  test('a failure in mid-stream is an error event, then a failed response', async () => {
    const seen = await events({ model, input: '[[length: 50]] [[error-after: 3 529 busy]]' })
    expect(seen.slice(-2).map(({ type }) => type)).toEqual(['error', 'response.failed'])
    const { sequence_number: _, event: __, type: ___, ...error } = seen.at(-2)!
    expect(Object.keys(error).toSorted()).toEqual(['code', 'message', 'param'])
    expect(terminal(seen).status).toBe('failed')
    expect(Object.keys(terminal(seen).error as Json).length).toBeGreaterThan(0)
    expect(seen.map(({ sequence_number }) => sequence_number)).toEqual(seen.map((_, index) => index))
  })

  test('the settings of the request are echoed', async () => {
    const settings = {
      instructions: 'Be brief',
      max_output_tokens: 500,
      max_tool_calls: 3,
      parallel_tool_calls: false,
      prompt_cache_key: 'k',
      safety_identifier: 's',
      user: 'ada',
      temperature: 0.5,
      top_p: 0.25,
      truncation: 'auto',
      metadata: { a: 'b' },
      store: false,
      tool_choice: 'none',
      tools: TOOLS.slice(0, 1),
      text: { format: { type: 'text' }, verbosity: 'low' },
      reasoning: { effort: 'low', summary: 'auto' },
    }
    expect(terminal(await both({ model, input: 'Hello', ...settings }))).toMatchObject({
      model,
      ...settings,
      tools: [{ type: 'function', name: 'get_weather' }],
    })
  })

  test('a text of the model cannot break the framing of the stream', async () => {
    const evil = 'a\n\ndata: {"type":"error"}\n\nevent: response.failed\r\ndata: [DONE] \u2028 z'
    const seen = await events({
      model,
      input: `[[reply: ${evil}]]`,
      metadata: { a: '\n\ndata: x\n\n' },
      user: 'a\r\nevent: error\r\n',
    })
    checkEvents(seen)
    expect((terminal(seen).output as { content: { text: string }[] }[])[0]!.content[0]!.text).toBe(evil)
    expect(terminal(seen).metadata).toEqual({ a: '\n\ndata: x\n\n' })
  })
})
