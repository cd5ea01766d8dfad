import type { ConversationName } from '../../parts/protocols.ts'
import { type Body, pathOf } from './bodies.ts'

export type Code = { name: string; text: string }
type Request = { protocol: ConversationName; model: string; stream: boolean; body: Body; origin: string }

/** The request for a terminal and for the SDKs of its protocol; the key is taken from the environment. */
export function codeOf(request: Request): Code[] {
  const { protocol, model, stream, body, origin } = request
  const curl = [
    `curl ${origin}${pathOf(protocol, model, stream)} \\`,
    `  -H "authorization: Bearer $SLUICE_KEY" -H "content-type: application/json" \\`,
    `  -d '${JSON.stringify(body, null, 2).replaceAll("'", `'\\''`)}'`,
  ].join('\n')
  return [{ name: 'curl', text: curl }, ...SDKS[protocol](request)]
}

const js = (body: Body): string => JSON.stringify(body, null, 2)
const WORDS: Record<string, string> = { true: 'True', false: 'False', null: 'None' }

/** JSON as Python: its words differ, outside of texts. */
const python = (body: Body): string =>
  js(body).replace(/"(?:[^"\\]|\\.)*"|\b(true|false|null)\b/g, (all, word: string | undefined) =>
    word === undefined ? all : WORDS[word]!,
  )
const keywords = (body: Body): string =>
  Object.entries(body)
    .map(([name, value]) => `    ${name}=${python(value as Body).replaceAll('\n', '\n    ')},\n`)
    .join('')

const SDKS: Record<ConversationName, (request: Request) => Code[]> = {
  'chat.completions': (request) => openai(request, 'chat.completions', 'event.choices[0]?.delta.content'),
  responses: (request) => openai(request, 'responses', 'event'),
  messages: ({ body, origin, stream }) => [
    {
      name: 'Anthropic, JavaScript',
      text:
        `import Anthropic from '@anthropic-ai/sdk'\n\n` +
        `const client = new Anthropic({ baseURL: '${origin}', authToken: process.env.SLUICE_KEY, apiKey: null })\n` +
        jsCall('client.messages.create', body, stream, 'event'),
    },
    {
      name: 'Anthropic, Python',
      text:
        `import os\nfrom anthropic import Anthropic\n\n` +
        `client = Anthropic(base_url="${origin}", auth_token=os.environ["SLUICE_KEY"])\n` +
        pythonCall('client.messages.create', body, stream),
    },
  ],
  generateContent: ({ body, model, origin, stream }) => [
    {
      name: 'Google Gen AI, JavaScript',
      text:
        `import { GoogleGenAI } from '@google/genai'\n\n` +
        `const client = new GoogleGenAI({ apiKey: process.env.SLUICE_KEY, httpOptions: { baseUrl: '${origin}' } })\n` +
        jsCall(
          `client.models.generateContent${stream ? 'Stream' : ''}`,
          googleArguments(model, body),
          stream,
          'event.text',
        ),
    },
    {
      name: 'Google Gen AI, Python',
      text:
        `import os\nfrom google import genai\n\n` +
        `client = genai.Client(api_key=os.environ["SLUICE_KEY"], http_options={"base_url": "${origin}"})\n` +
        pythonCall(`client.models.generate_content${stream ? '_stream' : ''}`, googleArguments(model, body), stream),
    },
  ],
}

/** Google's SDKs take settings, tools and instructions in one object. */
function googleArguments(model: string, { contents, generationConfig, ...rest }: Body): Body {
  const config = { ...(generationConfig as Body | undefined), ...rest }
  return { model, contents, ...(Object.keys(config).length === 0 ? {} : { config }) }
}

function openai({ body, origin, stream }: Request, method: string, delta: string): Code[] {
  return [
    {
      name: 'OpenAI, JavaScript',
      text:
        `import OpenAI from 'openai'\n\n` +
        `const client = new OpenAI({ baseURL: '${origin}/v1', apiKey: process.env.SLUICE_KEY })\n` +
        jsCall(`client.${method}.create`, body, stream, delta),
    },
    {
      name: 'OpenAI, Python',
      text:
        `import os\nfrom openai import OpenAI\n\n` +
        `client = OpenAI(base_url="${origin}/v1", api_key=os.environ["SLUICE_KEY"])\n` +
        pythonCall(`client.${method}.create`, body, stream),
    },
  ]
}

const jsCall = (method: string, body: Body, stream: boolean, delta: string): string =>
  stream
    ? `const stream = await ${method}(${js(body)})\nfor await (const event of stream) console.log(${delta})\n`
    : `console.log(await ${method}(${js(body)}))\n`

const pythonCall = (method: string, body: Body, stream: boolean): string =>
  stream
    ? `for event in ${method}(\n${keywords(body)}):\n    print(event)\n`
    : `print(${method}(\n${keywords(body)}))\n`
