/**
 * The requests of a coding agent in the middle of a task: 8 KB of instructions, 25 tools with schemas as in agents and
 * MCP servers, and messages with calls and their results: 60 messages in 60 KB. The same conversation in two protocols.
 */
const SENTENCES = [
  'Prefer small edits over rewrites, and read a file before you change it. ',
  'When a command fails, read what it printed before you try another. ',
  'Paths are absolute; quote those with spaces: "/srv/a b/c.ts". ',
  'Do not add comments that only repeat the code.\n',
  'Run the tests of what you changed, and say which ones you ran. ',
]

const prose = (length: number, from = 0): string => {
  let text = ''
  for (let i = from; text.length < length; i += 1) text += SENTENCES[i % SENTENCES.length]
  return text.slice(0, length)
}

const SCHEMAS = [
  {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: {
      command: { type: 'string', description: 'The command to run' },
      timeout: { type: 'number', description: 'Milliseconds, at most 600000', minimum: 0, maximum: 600000 },
      background: { type: 'boolean', default: false },
    },
    required: ['command'],
    additionalProperties: false,
  },
  {
    type: 'object',
    properties: {
      pattern: { type: 'string', minLength: 1 },
      path: { type: 'string' },
      mode: { type: 'string', enum: ['content', 'files', 'count'] },
      '-A': { type: 'integer' },
      '-i': { type: 'boolean' },
      glob: { type: 'string' },
    },
    required: ['pattern'],
    additionalProperties: false,
  },
  {
    type: 'object',
    properties: {
      todos: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            content: { type: 'string', minLength: 1 },
            status: { type: 'string', enum: ['pending', 'in_progress', 'completed'] },
            id: { type: 'string' },
          },
          required: ['content', 'status', 'id'],
          additionalProperties: false,
        },
      },
    },
    required: ['todos'],
  },
  {
    $defs: {
      Label: {
        type: 'object',
        properties: {
          name: { type: 'string' },
          color: { anyOf: [{ type: 'string', pattern: '^[0-9a-f]{6}$' }, { type: 'null' }], default: null },
        },
        required: ['name'],
        title: 'Label',
      },
      State: { enum: ['open', 'closed'], type: 'string', title: 'State' },
    },
    type: 'object',
    title: 'IssueArguments',
    properties: {
      owner: { type: 'string', title: 'Owner' },
      repo: { type: 'string', title: 'Repo' },
      state: { $ref: '#/$defs/State' },
      labels: {
        anyOf: [{ items: { $ref: '#/$defs/Label' }, type: 'array' }, { type: 'null' }],
        default: null,
        title: 'Labels',
      },
      since: { type: 'string', format: 'date-time' },
    },
    required: ['owner', 'repo', 'state'],
  },
  {
    type: 'object',
    properties: {
      file_path: { type: 'string', description: 'Absolute path' },
      edits: {
        type: 'array',
        minItems: 1,
        items: {
          type: 'object',
          properties: {
            old_string: { type: 'string' },
            new_string: { type: 'string' },
            replace_all: { type: 'boolean', default: false },
          },
          required: ['old_string', 'new_string'],
          additionalProperties: false,
        },
      },
    },
    required: ['file_path', 'edits'],
    additionalProperties: false,
  },
]

const TOOLS = Array.from({ length: 25 }, (_, i) => ({
  name: `${['shell', 'search', 'todos', 'mcp__issues__list', 'edit'][i % 5]}_${Math.floor(i / 5)}`,
  description: prose(400 + 37 * (i % 5), i),
  schema: SCHEMAS[i % 5]!,
}))
const SYSTEM = prose(8_000)

type Turn =
  | { role: 'user' | 'assistant'; text: string }
  | { id: string; name: string; input: object; text: string; result: string }

/** Two of seven turns have only text, five call a tool and get its result. */
const turnAt = (i: number, resultLength: number): Turn =>
  i % 7 < 2
    ? { role: i % 7 === 0 ? 'user' : 'assistant', text: prose(220, i) }
    : {
        id: `call_${String(i).padStart(24, 'x')}`,
        name: TOOLS[i % 25]!.name,
        input: {
          file_path: `/srv/app/src/part-${i}.ts`,
          edits: [{ old_string: 'const a = "1"\n', new_string: `const a = ${i}.50\n` }],
        },
        text: prose(80, i),
        result: `exit 0\n${prose(resultLength, i)}`,
      }

/** A protocol's conversation. `begin` ends where its first message follows, `end` begins after its last. */
type Format = { messages(turn: Turn): object[]; begin(model: string, system: string): string; end: string }

const FORMATS: Record<string, Format> = {
  '/v1/chat/completions': {
    begin: (model, system) => `{"model":"${model}","messages":[${JSON.stringify({ role: 'system', content: system })},`,
    messages: (turn) =>
      'role' in turn
        ? [{ role: turn.role, content: turn.text }]
        : [
            {
              role: 'assistant',
              content: turn.text,
              tool_calls: [
                { id: turn.id, type: 'function', function: { name: turn.name, arguments: JSON.stringify(turn.input) } },
              ],
            },
            { role: 'tool', tool_call_id: turn.id, content: turn.result },
          ],
    end: endWith(TOOLS.map(({ schema, ...tool }) => ({ type: 'function', function: { ...tool, parameters: schema } }))),
  },
  '/v1/messages': {
    begin: (model, system) =>
      `{"model":"${model}","system":${JSON.stringify([{ type: 'text', text: system }])},"messages":[`,
    messages: (turn) =>
      'role' in turn
        ? [{ role: turn.role, content: turn.text }]
        : [
            {
              role: 'assistant',
              content: [
                { type: 'text', text: turn.text },
                { type: 'tool_use', id: turn.id, name: turn.name, input: turn.input },
              ],
            },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: turn.id, content: turn.result }] },
          ],
    end: endWith(TOOLS.map(({ schema, ...tool }) => ({ ...tool, input_schema: schema }))),
  },
}

function endWith(tools: object[]): string {
  return `],"tools":${JSON.stringify(tools)},"max_tokens":1024}`
}

const written = (format: Format, turns: Turn[]): string =>
  turns
    .flatMap(format.messages)
    .map((message) => JSON.stringify(message))
    .join(',')

/** The request body for a path and a model. */
export const agentBody = (path: string, model: string): string => {
  const format = FORMATS[path]!
  const turns = Array.from({ length: 35 }, (_, i) => turnAt(i, 700))
  return format.begin(model, SYSTEM) + written(format, turns) + format.end
}

/**
 * A conversation that grows. Its requests are `start`, some of `turns` and `end`; at `idAt` in `start` is an id of
 * `ID_LENGTH` characters, by which conversations differ.
 */
export type Conversation = { start: Buffer; idAt: number; turns: Buffer[]; end: Buffer }

export const ID_LENGTH = 16
/** The first request of a conversation that grows is shorter than its size by this part, and the last one longer. */
const GROWTH = 1 / 8
const NEW_TURN_BYTES = 1_010
/** Above a size the results of tools are longer, and not only more: few requests have ten thousands of messages. */
const resultLengthOf = (bytes: number): number => (bytes > 5_000_000 ? 28_000 : bytes > 100_000 ? 2_800 : 700)

/** A conversation whose requests have about this size. Each of its new turns is a call, the result and a text. */
export const conversation = (path: string, model: string, bytes: number, grows: boolean): Conversation => {
  const format = FORMATS[path]!
  const resultLength = resultLengthOf(bytes)
  const id = '0'.repeat(ID_LENGTH)
  const growth = grows ? bytes * GROWTH : 0
  const begin = format.begin(model, `Conversation ${id}. ${SYSTEM}`)
  const turnsBytes = bytes - growth - begin.length - format.end.length
  const seven = (from: number): Turn[] => Array.from({ length: 7 }, (_, i) => turnAt(from + i, resultLength))
  // Always all seven, so that a result is the last message.
  const cycles = Math.round(turnsBytes / written(format, seven(0)).length)
  const start = Buffer.from(begin + Array.from({ length: cycles }, (_, i) => written(format, seven(7 * i))).join(','))
  const turns = Array.from({ length: Math.ceil((2 * growth) / NEW_TURN_BYTES) }, (_, i) =>
    Buffer.from(`,${written(format, [turnAt(7 * i + 2, 300), turnAt(7 * i, 0)])}`),
  )
  return { start, idAt: start.indexOf(id), turns, end: Buffer.from(format.end) }
}
