/** Bad input: every field of whole requests replaced by values that it must not have. */
import { PROTOCOLS, type ProtocolName, modelOf, providersAt } from './requests.ts'
import { Server, startSandbox } from './servers.ts'
import { count, type Finding, inParallel, pick, randomOf } from './table.ts'

const WIDTH = 16

/** Values that some field of some request does not expect. */
const VALUES: unknown[] = [
  null,
  true,
  -1,
  0,
  0.5,
  1e308,
  2 ** 53,
  '',
  'x',
  '\u0000',
  '\ud800',
  '\r\nx-injected: 1',
  '__proto__',
  '\u202e\u{1f5ff}'.repeat(50),
  'a'.repeat(100_000),
  [],
  {},
  [[[[]]]],
  { type: 'x' },
  { __proto__: null, constructor: 1 },
  [null],
  Array.from({ length: 1_000 }, () => 'x'),
]

const tool = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const url = 'data:image/png;base64,iVBORw0KGgo='

/** A request with most of the fields of each protocol. */
const BODIES: Record<ProtocolName, object> = {
  'chat.completions': {
    messages: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'image_url', image_url: { url } },
        ],
      },
      { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    ],
    tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: tool, strict: true } }],
    tool_choice: 'auto',
    max_tokens: 10,
    temperature: 1,
    top_p: 1,
    n: 1,
    stop: ['x'],
    stream: false,
    stream_options: { include_usage: true },
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema: tool } },
    reasoning_effort: 'low',
    metadata: { a: 'b' },
    logit_bias: { 1: 1 },
  },
  responses: {
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Hi' },
          { type: 'input_image', image_url: url },
        ],
      },
      { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'ok' },
    ],
    instructions: 'Be brief.',
    tools: [{ type: 'function', name: 'f', parameters: tool, strict: true }],
    tool_choice: 'auto',
    max_output_tokens: 20,
    reasoning: { effort: 'low', summary: 'auto' },
    text: { format: { type: 'json_schema', name: 'n', schema: tool } },
    include: ['reasoning.encrypted_content'],
    previous_response_id: null,
    store: false,
    stream: false,
    metadata: { a: 'b' },
  },
  messages: {
    max_tokens: 10,
    system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'ok', is_error: false }] },
    ],
    tools: [{ name: 'f', description: 'd', input_schema: tool }],
    tool_choice: { type: 'auto' },
    thinking: { type: 'disabled' },
    stop_sequences: ['x'],
    temperature: 1,
    top_k: 1,
    metadata: { user_id: 'u' },
    stream: false,
  },
  generateContent: {
    contents: [
      { role: 'user', parts: [{ text: 'Hi' }, { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } }] },
      { role: 'model', parts: [{ functionCall: { name: 'f', args: {} } }] },
      { role: 'user', parts: [{ functionResponse: { name: 'f', response: { output: 'ok' } } }] },
    ],
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    tools: [{ functionDeclarations: [{ name: 'f', description: 'd', parametersJsonSchema: tool }] }],
    toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
    generationConfig: {
      maxOutputTokens: 10,
      temperature: 1,
      stopSequences: ['x'],
      thinkingConfig: { thinkingBudget: 0 },
    },
    safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
  },
}

type Path = (string | number)[]

/** The path of every value in a body. */
function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  const inner = Object.entries(value).flatMap(([key, member]) =>
    pathsIn(member, [...path, Array.isArray(value) ? Number(key) : key]),
  )
  return path.length === 0 ? inner : [path, ...inner]
}

function replaced(body: object, path: Path, value: unknown): object {
  const copy = structuredClone(body)
  let parent = copy as Record<string | number, unknown>
  for (const step of path.slice(0, -1)) parent = parent[step] as Record<string | number, unknown>
  parent[path.at(-1)!] = value
  return copy
}

const ROUTES: Record<ProtocolName, (model: string) => string> = {
  'chat.completions': () => '/v1/chat/completions',
  responses: () => '/v1/responses',
  messages: () => '/v1/messages',
  generateContent: (model) => `/v1beta/models/${model}:generateContent`,
}

/** Sends `total` bad requests, on all 16 routes. */
export async function proveInput(total: number, progress: (text: string) => void): Promise<Finding[]> {
  const sandbox = await startSandbox()
  const server = new Server(
    'billing: { startingCredit: unlimited }\nlimits: { requestsPerMinute: 1000000 }\n' + providersAt(sandbox.url),
  )
  const random = randomOf(3)
  const paths = new Map(PROTOCOLS.map((protocol) => [protocol, pathsIn(BODIES[protocol])]))
  const statuses = new Map<number, number>()
  const faults: string[] = []
  try {
    await server.start()
    await inParallel(total, WIDTH, async (index) => {
      const client = PROTOCOLS[index % 4]!
      const model = modelOf(pick(PROTOCOLS, random))
      const path = pick(paths.get(client)!, random)
      const value = pick(VALUES, random)
      const body = JSON.stringify({ model, ...replaced(BODIES[client], path, value) })
      const response = await fetch(server.url + ROUTES[client](model), {
        method: 'POST',
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
        // One of a hundred is not JSON either.
        body: random() < 0.01 ? body.slice(0, Math.floor(random() * body.length)) : body,
      })
      await response.text()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      if (response.status === 500 || response.headers.has('x-injected'))
        faults.push(`${client} ${path.join('.')} = ${JSON.stringify(value)?.slice(0, 60)}: ${response.status}`)
      if (index % 5_000 === 4_999) progress(`${index + 1} of ${total} bad inputs`)
    })
    if (!server.isAlive) faults.push('the server died')
  } finally {
    await server.remove()
    await sandbox.stop()
  }
  const shown = [...statuses].toSorted(([a], [b]) => a - b).map(([status, times]) => `${count(times)} x ${status}`)
  return [
    {
      what: 'Bad input: each field of full requests replaced, on all routes',
      tried: count(total),
      result: `${shown.join(', ')}; no 500, no injected header, server alive`,
      ...(faults[0] === undefined ? {} : { fault: faults[0] }),
    },
  ]
}
