import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** The provider validates its own protocol: unknown members are passed on, and only a translation refuses them. */

type Json = Record<string, unknown>

const PNG = 'iVBORw0KGgo='
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const ANSWERS: [path: RegExp, answer: Json][] = [
  [
    /chat\/completions$/,
    {
      id: 'c',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage,
    },
  ],
  [
    /responses$/,
    { id: 'r', object: 'response', status: 'completed', output: [], usage: { input_tokens: 1, output_tokens: 1 } },
  ],
  [
    /messages$/,
    {
      id: 'm',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'Hi' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  ],
  [
    /generateContent$/,
    {
      candidates: [
        { content: { parts: [{ inlineData: { mimeType: 'image/png', data: PNG } }] }, finishReason: 'STOP' },
      ],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    },
  ],
  [/images\/generations$/, { created: 1, data: [{ b64_json: PNG }] }],
]

const PROTOCOLS = {
  c: 'chat.completions',
  r: 'responses',
  m: 'messages',
  g: 'generateContent',
  i: 'images',
}

const received: Json[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    received.push((await request.json()) as Json)
    const { pathname } = new URL(request.url)
    return Response.json(ANSWERS.find(([path]) => path.test(pathname))![1])
  },
})

let gateway: Gateway
beforeAll(async () => {
  const url = `http://127.0.0.1:${provider.port}/v1`
  const own = (id: string, protocol: string): string =>
    `  ${id}: { protocol: ${protocol}, baseUrl: "${url}", apiKey: none, unlisted: true }\n`
  gateway = await startGateway({
    config: `billing: { startingCredit: 0.5, overdraft: 5, unpriced: free }
limits: { requestsPerMinute: 10000 }
providers:
${Object.entries(PROTOCOLS)
  .map(([id, protocol]) => own(id, protocol))
  .join('')}models:
  priced: { endpoints: [{ provider: c, model: m }], price: { prompt: 0, completion: 1000 } }
  either: { endpoints: [{ provider: m, model: m }, { provider: c, model: m }] }
`,
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

const post = (path: string, body: Json): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify(body),
  })

const PATHS = {
  c: () => '/v1/chat/completions',
  r: () => '/v1/responses',
  m: () => '/v1/messages',
  i: () => '/v1/images/generations',
  g: (model: string) => `/v1beta/models/${model}:generateContent`,
}
type Client = keyof typeof PATHS

const USER = { role: 'user', content: 'Hi' }
const BASE: Record<Client, Json> = {
  c: { messages: [USER] },
  r: { input: 'Hi' },
  m: { max_tokens: 10, messages: [USER] },
  g: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
  i: { prompt: 'A cat' },
}
const ask = (client: Client, model: string, patch: Json): Promise<Response> =>
  post(PATHS[client](model), { ...BASE[client], ...(client === 'g' ? {} : { model }), ...patch })

const saying = (part: Json): Json => ({ messages: [{ role: 'user', content: [part] }] })
const parts = (...given: Json[]): Json => ({ contents: [{ role: 'user', parts: given }] })
const config = (value: Json): Json => ({ generationConfig: value })
const CALLED = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
}
const IMAGE = { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }

/** `elsewhere`: the path of the refusal where the provider has another protocol; null: it is carried or reported. */
const CASES: [client: Client, what: string, patch: Json, elsewhere: string | null][] = [
  ['g', 'a part of an unknown kind', parts({ text: 'a' }, { hologram: { x: 1 } }), 'contents[0].parts[1]'],
  ['g', 'a mode', { toolConfig: { functionCallingConfig: { mode: 'SOME' } } }, 'toolConfig.functionCallingConfig.mode'],
  [
    'g',
    'a level',
    config({ thinkingConfig: { thinkingLevel: 'EXTREME' } }),
    'generationConfig.thinkingConfig.thinkingLevel',
  ],
  ['g', 'a MIME type', config({ responseMimeType: 'application/yaml' }), 'generationConfig.responseMimeType'],
  ['g', 'a modality', config({ responseModalities: ['TEXT', 'SMELL'] }), 'generationConfig.responseModalities[1]'],
  ['g', 'images alone', config({ responseModalities: ['IMAGE'] }), ''],
  ...['CIVIC_INTEGRITY', 'JAILBREAK', 'IMAGE_HATE', 'IMAGE_HARASSMENT'].map((word): (typeof CASES)[number] => [
    'g',
    `the category ${word}`,
    { safetySettings: [{ category: `HARM_CATEGORY_${word}`, threshold: 'OFF' }] },
    null,
  ]),
  ...[
    'audio/x-wav',
    'audio/ogg',
    'audio/flac',
    'audio/aac',
    'audio/aiff',
    'audio/m4a',
    'image/heic',
    'image/heif',
    'image/gif',
    'video/webm',
    'video/quicktime',
    'video/3gpp',
    'text/html',
    'text/csv',
    'text/markdown',
  ].map((mimeType): (typeof CASES)[number] => ['g', mimeType, parts({ inlineData: { mimeType, data: 'AAAA' } }), '']),
  [
    'c',
    "Mistral's choice of any tool",
    { tool_choice: 'any', tools: [{ type: 'function', function: { name: 'f' } }] },
    null,
  ],
  ['c', "Mistral's image", saying({ type: 'image_url', image_url: `data:image/png;base64,${PNG}` }), null],
  [
    'c',
    "Mistral's audio",
    saying({ type: 'input_audio', input_audio: 'UklGRg==' }),
    'messages[0].content[0].input_audio',
  ],
  ['c', 'several choices', { n: 2 }, 'n'],
  ['c', 'a verbosity', { verbosity: 'max' }, 'verbosity'],
  ['c', 'no limit', { max_tokens: -1 }, 'max_tokens'],
  ['c', 'a limit of zero', { max_tokens: 0 }, 'max_tokens'],
  [
    'c',
    'the role of a function',
    { messages: [USER, { role: 'function', name: 'f', content: 'x' }] },
    'messages[1].role',
  ],
  [
    'c',
    'an image in a result',
    { messages: [USER, CALLED, { role: 'tool', tool_call_id: 'a', content: [IMAGE] }] },
    null,
  ],
  ['c', 'messages of another shape', { messages: [5, { role: 'x' }] }, 'messages[0]'],
  [
    'r',
    'a search without id',
    { input: [USER, { type: 'web_search_call', status: 'completed', action: { type: 'x' } }] },
    null,
  ],
  [
    'r',
    'a shell call without id and variables',
    {
      input: [
        USER,
        {
          type: 'local_shell_call',
          call_id: 'a',
          status: 'completed',
          action: { type: 'exec', command: ['ls'], env: null },
        },
      ],
    },
    'input[1]',
  ],
  [
    'r',
    'a detail',
    { input: [{ role: 'user', content: [{ type: 'input_text', text: 5 }] }] },
    'input[0].content[0].text',
  ],
  ['m', 'no limit', { max_tokens: -1 }, 'max_tokens'],
  ['m', 'a role', { messages: [USER, { role: 'critic', content: 'x' }] }, 'messages[1].role'],
  ['i', 'a size class', { size: '2K' }, null],
  ['i', 'a ratio', { size: '1:1' }, null],
  ['i', 'many images', { n: 12 }, 'n'],
]

test.each(CASES)('%s: %s reaches a provider of the same protocol as it was sent', async (client, _, patch) => {
  received.length = 0
  const response = await ask(client, `${client}/m`, patch)
  expect([response.status, received.length]).toEqual([200, 1])
  for (const name in patch) expect(received[0]![name]).toEqual(patch[name])
})

test.each(CASES.filter(([, , , path]) => path !== ''))(
  '%s: %s is carried by a translation, or refused with its path',
  async (client, _, patch, path) => {
    received.length = 0
    const response = await ask(client, client === 'm' ? 'c/m' : client === 'i' ? 'g/m' : 'm/m', patch)
    const text = await response.text()
    if (path === null) expect([response.status, received.length, text]).toEqual([200, 1, text])
    else expect([response.status, received.length, text.includes(`${path}: `)]).toEqual([400, 0, true])
  },
)

test('the endpoint of the same protocol is asked where no other can represent a value', async () => {
  received.length = 0
  const response = await ask('c', 'either', { verbosity: 'max' })
  expect([response.status, response.headers.get('x-sluice-provider'), received.length]).toEqual([200, 'c', 1])
})

test('a limit that is none, and each choice, is held for', async () => {
  const status = async (patch: Json): Promise<number> => (await ask('c', 'priced', patch)).status
  // At 0.001 USD a token, the credit of 0.5 USD is enough for less than 500 tokens.
  expect(await status({ max_tokens: 100 })).toBe(200)
  expect(await status({ max_tokens: 50, n: 2 })).toBe(200)
  // The limit of an answer in one piece would be lowered instead.
  for (const patch of [
    { max_tokens: -1 },
    { max_tokens: 0 },
    { max_tokens: 100, max_completion_tokens: -1 },
    { max_tokens: '9' },
  ])
    expect([patch, await status({ stream: true, ...patch })]).toEqual([patch, 402])
  expect(await status({ max_tokens: 100, n: 20 })).toBe(402)
  for (const n of [0, -1, 1.5, '2', {}]) expect([n, await status({ max_tokens: 1, n })]).toEqual([n, 400])
})

const FILE = { fileData: { fileUri: 'https://generativelanguage.googleapis.com/v1beta/files/theirs' } }
const INSIDE = { type: 'image_url', image_url: { url: 'http://127.0.0.1/secret' } }
test.each<[Client, Json, string]>([
  ['g', { contents: { parts: [FILE] } }, 'contents'],
  ['g', { contents: [{ parts: FILE }] }, 'contents[0].parts'],
  ['g', { tools: { fileSearch: { fileSearchStoreNames: ['fileSearchStores/1'] } } }, 'tools'],
  ['c', { messages: { role: 'user', content: [INSIDE] } }, 'messages'],
  ['c', { messages: [{ role: 'user', content: INSIDE }] }, 'messages[0].content'],
  [
    'm',
    { messages: [{ role: 'user', content: { type: 'document', source: { type: 'file', file_id: 'x' } } }] },
    'messages[0].content',
  ],
  ['r', { input: { role: 'user', content: [{ type: 'input_file', file_id: 'x' }] } }, 'input'],
  ['r', { input: [{ role: 'user', content: { type: 'input_file', file_id: 'x' } }] }, 'input[0].content'],
  [
    'r',
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: { url: 'http://127.0.0.1/' } }] }] },
    'input[0].content[0].image_url',
  ],
  ['r', { tools: { type: 'code_interpreter', container: 'cntr_1' } }, 'tools'],
])(
  '%s: an object without its array is refused, as its references would not be checked: %j',
  async (client, patch, path) => {
    received.length = 0
    const response = await ask(client, `${client}/m`, patch)
    expect([response.status, received.length, (await response.text()).includes(`${path}: must be`)]).toEqual([
      400,
      0,
      true,
    ])
  },
)
