import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { breakOf, piecesOf } from '../properties/prefixes.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { PROTOCOLS } from './asking.ts'
import { protocolOf } from './scripted.ts'

/**
 * Long conversations of agents over each pair of protocols: the part that the provider has received does not change in
 * later requests.
 */

type Json = Record<string, any>
type Call = { id: string; args: Json }
type Answer = { thought: string; signature: string; calls: Call[] }

const TOOL = `look.${'around_'.repeat(9)}`
const SCHEMA = { type: 'object', properties: { of: { anyOf: [{ type: 'string' }, { type: 'null' }] } } }
const IMAGE = 'iVBORw0KGgo='

/** Two parallel calls, signed as in each protocol: Google signs only the first one. */
const ANSWERS: Record<ConversationName, (answer: Answer, name: string) => object> = {
  'chat.completions': ({ thought, signature, calls }, name) => ({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    choices: [
      {
        index: 0,
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: 'Looking.',
          reasoning: thought,
          reasoning_details: [{ type: 'reasoning.text', text: thought, signature, index: 0 }],
          tool_calls: calls.map(({ id, args }) => ({
            id,
            type: 'function',
            function: { name, arguments: JSON.stringify(args) },
          })),
        },
      },
    ],
  }),
  responses: ({ thought, signature, calls }, name) => ({
    id: 'r',
    object: 'response',
    created_at: 1,
    model: 'm',
    status: 'completed',
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    output: [
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: thought }],
        encrypted_content: signature,
      },
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Looking.', annotations: [] }],
      },
      ...calls.map(({ id, args }) => ({
        type: 'function_call',
        id: `fc_${id}`,
        call_id: id,
        name,
        arguments: JSON.stringify(args),
        status: 'completed',
      })),
    ],
  }),
  messages: ({ thought, signature, calls }, name) => ({
    id: 'a',
    type: 'message',
    role: 'assistant',
    model: 'm',
    stop_reason: 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
    content: [
      { type: 'thinking', thinking: thought, signature },
      { type: 'text', text: 'Looking.' },
      ...calls.map(({ id, args }) => ({ type: 'tool_use', id, name, input: args })),
    ],
  }),
  generateContent: ({ signature, calls }, name) => ({
    responseId: 'g',
    modelVersion: 'm',
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    candidates: [
      {
        index: 0,
        finishReason: 'STOP',
        content: {
          role: 'model',
          parts: [
            { text: 'Looking.' },
            ...calls.map(({ id, args }, index) => ({
              functionCall: { id, name, args },
              ...(index === 0 ? { thoughtSignature: signature } : {}),
            })),
          ],
        },
      },
    ],
  }),
}

/** The name that the provider has for the tool. */
const NAMED: Record<ConversationName, (body: Json) => string> = {
  'chat.completions': (body) => body.tools[0].function.name,
  responses: (body) => body.tools[0].name,
  messages: (body) => body.tools[0].name,
  generateContent: (body) => body.tools[0].functionDeclarations[0].name,
}

function provider(): { url: string; bodies: Json[]; stop(): void } {
  const bodies: Json[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request): Promise<Response> {
      const protocol = protocolOf(new URL(request.url).pathname)
      const body = (await request.json()) as Json
      const turn = bodies.push(body)
      const call = (letter: string): Call => ({
        id: `call_${turn}_${letter}`,
        args: { of: `${letter} "é"`, number: turn },
      })
      return Response.json(
        ANSWERS[protocol](
          {
            thought: `Thought ${turn} \\ "ü"`,
            signature: Buffer.from(`signature ${turn} ÿþ`).toString('base64'),
            calls: [call('a'), call('b')],
          },
          NAMED[protocol](body),
        ),
      )
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, bodies, stop: () => void server.stop(true) }
}

/** The first body of a client in each protocol, and the next ones: with the whole answer or with its text and calls. */
type Agent = {
  path: (model: string) => string
  begin: (model: string) => Json
  goOn: (body: Json, answer: Json, keepsReasoning: boolean, instruct: boolean) => void
}

const AGENTS: Record<ConversationName, Agent> = {
  'chat.completions': {
    path: () => '/v1/chat/completions',
    begin: (model) => ({
      model,
      messages: [
        { role: 'system', content: 'S' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Go' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${IMAGE}` } },
          ],
        },
      ],
      tools: [{ type: 'function', function: { name: TOOL, parameters: SCHEMA } }],
    }),
    goOn: ({ messages }, { choices: [{ message }] }, keepsReasoning, instruct) => {
      messages.push(
        keepsReasoning ? message : { role: 'assistant', content: message.content, tool_calls: message.tool_calls },
      )
      // Results are in the order in which the tools ended, not in the order of the calls.
      for (const { id } of message.tool_calls.toReversed())
        messages.push({ role: 'tool', tool_call_id: id, content: `{"seen":"${id}"}` })
      if (instruct) messages.push({ role: 'system', content: 'Hurry' }, { role: 'user', content: 'Go on' })
    },
  },
  responses: {
    path: () => '/v1/responses',
    begin: (model) => ({
      model,
      store: false,
      include: ['reasoning.encrypted_content'],
      instructions: 'S',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Go' },
            { type: 'input_image', image_url: `data:image/png;base64,${IMAGE}` },
          ],
        },
      ],
      tools: [{ type: 'function', name: TOOL, parameters: SCHEMA }],
    }),
    goOn: ({ input }, { output }, keepsReasoning, instruct) => {
      input.push(...output.filter(({ type }: Json) => keepsReasoning || type !== 'reasoning'))
      for (const { call_id } of output.filter(({ type }: Json) => type === 'function_call').toReversed())
        input.push({ type: 'function_call_output', call_id, output: `{"seen":"${call_id}"}` })
      if (instruct) input.push({ role: 'developer', content: 'Hurry' }, { role: 'user', content: 'Go on' })
    },
  },
  messages: {
    path: () => '/v1/messages',
    begin: (model) => ({
      model,
      max_tokens: 9000,
      thinking: { type: 'enabled', budget_tokens: 2000 },
      system: 'S',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Go' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: IMAGE } },
          ],
        },
      ],
      tools: [{ name: TOOL.replace('.', '_'), input_schema: SCHEMA }],
    }),
    goOn: ({ messages }, { content }, keepsReasoning, instruct) => {
      messages.push({
        role: 'assistant',
        content: content.filter(({ type }: Json) => keepsReasoning || type === 'text' || type === 'tool_use'),
      })
      messages.push({
        role: 'user',
        content: [
          ...content
            .filter(({ type }: Json) => type === 'tool_use')
            .map(({ id }: Json) => ({ type: 'tool_result', tool_use_id: id, content: `{"seen":"${id}"}` }))
            .toReversed(),
          ...(instruct ? [{ type: 'text', text: 'Go on' }] : []),
        ],
      })
    },
  },
  generateContent: {
    path: (model) => `/v1beta/models/${model}:generateContent`,
    begin: () => ({
      systemInstruction: { parts: [{ text: 'S' }] },
      contents: [{ role: 'user', parts: [{ text: 'Go' }, { inlineData: { mimeType: 'image/png', data: IMAGE } }] }],
      tools: [{ functionDeclarations: [{ name: TOOL, parametersJsonSchema: SCHEMA }] }],
    }),
    goOn: ({ contents }, { candidates: [{ content }] }, keepsReasoning, instruct) => {
      const kept = content.parts
        .filter(({ thought }: Json) => keepsReasoning || thought !== true)
        .map((part: Json) => (keepsReasoning ? part : { ...part, thoughtSignature: undefined }))
      contents.push({ role: 'model', parts: kept })
      contents.push({
        role: 'user',
        parts: [
          ...content.parts
            .filter((part: Json) => 'functionCall' in part)
            .map(({ functionCall: { id, name } }: Json) => ({ functionResponse: { id, name, response: { seen: id } } }))
            .toReversed(),
          ...(instruct ? [{ text: 'Go on' }] : []),
        ],
      })
    },
  },
}

const CAPABILITIES = [
  'reasoning: effort',
  'reasoning: effort',
  'reasoning: budget, maxOutputTokens: 20000',
  'reasoning: level',
]
const config = (url: string): string => {
  const providers = PROTOCOLS.map(
    (protocol, index) => `
  p${index}:
    { protocol: ${protocol}, baseUrl: '${url}/${index}', auth: none, unlisted: true,
      quirks: { reasoningField: reasoning_details } }`,
  )
  const models = CAPABILITIES.map(
    (capabilities, index) => `
  m${index}: { endpoints: [{ provider: p${index}, model: m }], capabilities: { ${capabilities} } }`,
  )
  return `
providers:${providers.join('')}
models:${models.join('')}
`
}

const TURNS = 5

describe.each([true, false])(
  'the prefix sent to a provider is unchanged when clients send back the whole response: %p',
  (keepsReasoning) => {
    test('the prefix stays byte-identical on each pair of protocols, and over a restart', async () => {
      const data = mkdtempSync(join(tmpdir(), 'sluice-prefixes-'))
      const upstream = provider()
      let gateway: GatewayProcess | undefined
      try {
        const conversations = PROTOCOLS.flatMap((client) =>
          PROTOCOLS.map((protocol, index) => ({
            client,
            protocol,
            model: `m${index}`,
            body: AGENTS[client].begin(`m${index}`),
            received: [] as string[][],
          })),
        )
        for (let turn = 1; turn <= TURNS; turn++) {
          if (turn === 1 || turn === 4) {
            gateway?.kill('SIGKILL')
            await gateway?.exited
            gateway = await startGatewayProcess({ data, config: config(upstream.url) })
          }
          for (const { client, protocol, model, body, received } of conversations) {
            const response = await fetch(gateway!.url + AGENTS[client].path(model), {
              method: 'POST',
              headers: { authorization: `Bearer ${gateway!.key}`, 'content-type': 'application/json' },
              body: JSON.stringify(body),
            })
            expect([client, protocol, response.status]).toEqual([client, protocol, 200])
            AGENTS[client].goOn(body, (await response.json()) as Json, keepsReasoning, turn === 2)
            received.push(piecesOf(protocol, upstream.bodies.at(-1)!))
          }
        }
        for (const { client, protocol, received } of conversations) {
          expect([client, protocol, received.slice(1).map((after, index) => breakOf(received[index]!, after))]).toEqual(
            [client, protocol, Array(TURNS - 1).fill(undefined)],
          )
          // The reasoning of each turn is in all later requests.
          const signed = received
            .at(-1)!
            .filter((piece) => piece.includes(Buffer.from('signature ').toString('base64').slice(0, 10)))
          expect([client, protocol, signed.length >= TURNS - 1]).toEqual([client, protocol, true])
        }
      } finally {
        upstream.stop()
        await gateway?.stop()
        rmSync(data, { recursive: true, force: true })
      }
    }, 60_000)
  },
)
