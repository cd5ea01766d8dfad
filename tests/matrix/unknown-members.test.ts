import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { eventsOf, streamedEventsOf } from '../translating.ts'
import { framesOf } from './provider-replies.ts'
import { contextOf, others, sendTo } from './routes.ts'

/**
 * Members that no documentation has, in objects that the schemas of the vendors do not reach. Those that they reach are
 * in `tests/recorded/request-members.test.ts`.
 */

type Json = Record<string, unknown>

const user = { role: 'user', content: 'hi' }
const tool = { type: 'function', function: { name: 'f', parameters: {} } }
const breakpoint = { type: 'ephemeral', ttl: '2h', odd: 1 }

const REQUESTS: [ConversationName, Json, string[]][] = [
  [
    'chat.completions',
    {
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'x', cache_control: breakpoint }] },
        {
          role: 'assistant',
          content: 'y',
          reasoning_details: [{ type: 'reasoning.text', text: 'z', odd: 1 }],
        },
        user,
      ],
      tools: [{ ...tool, cache_control: breakpoint }],
      plugins: [{ id: 'web', odd: 1 }],
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ ...choice('f'), odd: 1 }] } },
    },
    [
      'messages[0].content[0].cache_control.ttl',
      'messages[0].content[0].cache_control.odd',
      'messages[1].reasoning_details[0].odd',
      'tools[0].cache_control.ttl',
      'tools[0].cache_control.odd',
      'plugins[0].odd',
      'tool_choice.allowed_tools.tools[0].odd',
    ],
  ],
  [
    'messages',
    {
      max_tokens: 9,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: breakpoint }] }],
      system: [{ type: 'text', text: 's', cache_control: breakpoint }],
      mcp_servers: [
        {
          type: 'url',
          name: 's',
          url: 'https://s.example',
          odd: 1,
          tool_configuration: { enabled: true, allowed_tools: ['a'], odd: 1 },
        },
      ],
    },
    [
      'messages[0].content[0].cache_control.ttl',
      'messages[0].content[0].cache_control.odd',
      'system[0].cache_control.ttl',
      'system[0].cache_control.odd',
      'mcp_servers[0].odd',
      'mcp_servers[0].tool_configuration.odd',
    ],
  ],
  [
    'responses',
    {
      input: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'x' }] },
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [{ type: 'summary_text', text: 's', odd: 1 }],
          content: [{ type: 'reasoning_text', text: 'r', odd: 1 }],
          odd: 1,
        },
        { type: 'agent_message', author: 'a', recipient: 'b', content: [{ type: 'input_text', text: 'x' }], odd: 1 },
        { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'no', odd: 1 }] },
        { type: 'message', role: 'user', content: 'go on' },
      ],
      tools: [
        { type: 'function', name: 'f', parameters: {} },
        {
          type: 'mcp',
          server_label: 's',
          server_url: 'https://s.example',
          require_approval: 'never',
          allowed_tools: { tool_names: ['a'], odd: 1 },
        },
      ],
      tool_choice: {
        type: 'allowed_tools',
        mode: 'auto',
        tools: [
          { type: 'function', name: 'f', odd: 1 },
          { type: 'mcp', server_label: 's' },
        ],
      },
    },
    [
      'input[1].summary[0].odd',
      'input[1].content[0].odd',
      'input[1].odd',
      'input[2].odd',
      'input[3].content[0].odd',
      'tools[1].allowed_tools.odd',
      'tool_choice.tools[0].odd',
      'tool_choice.tools[1]',
    ],
  ],
]

function choice(name: string): Json {
  return { type: 'function', function: { name } }
}

describe('an unknown member of a request', () => {
  test.each(REQUESTS)('of %s is reported', (client, body, paths) => {
    for (const provider of others(client)) {
      const context = contextOf(client, { model: 'a/b', ...body })
      // Providers of chat completions have no MCP.
      const hasMcp =
        JSON.stringify(body).includes('mcp') && (provider === 'chat.completions' || provider === 'generateContent')
      if (hasMcp) context.request.tools = context.request.tools.filter(({ type }) => type !== 'native')
      const reported = sendTo(provider, context).losses.map(({ path }) => path)
      expect([provider, paths.filter((path) => !reported.includes(path))]).toEqual([provider, []])
    }
  })
})

const ANSWERS: [ConversationName, Json | undefined, Json[] | undefined, string[]][] = [
  [
    'chat.completions',
    {
      id: 'c',
      choices: [
        {
          index: 0,
          finish_reason: 'stop',
          message: {
            role: 'assistant',
            content: 'x',
            annotations: [{ type: 'url_citation', odd: 1, url_citation: { url: 'https://a', title: 'a', odder: 1 } }],
            reasoning_details: [{ type: 'reasoning.text', text: 'z', index: 0, oddest: 1 }],
          },
        },
      ],
    },
    undefined,
    ['annotations.odd', 'annotations.odder', 'reasoning_details.oddest'],
  ],
  [
    'responses',
    {
      id: 'r',
      status: 'completed',
      odd: 1,
      output: [
        {
          type: 'message',
          id: 'm',
          role: 'assistant',
          content: [
            {
              type: 'output_text',
              text: 'x',
              annotations: [
                { type: 'url_citation', url: 'https://a', title: 'a', start_index: 0, end_index: 1, odder: 1 },
              ],
            },
          ],
        },
        { type: 'reasoning', id: 'rs', summary: [{ type: 'summary_text', text: 's', oddest: 1 }] },
      ],
    },
    undefined,
    ['odd', 'annotations.odder', 'summary.oddest'],
  ],
  [
    'messages',
    undefined,
    [
      { type: 'message_start', message: { id: 'm', role: 'assistant', content: [], usage: {} } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'x', odd: 1 } },
      { type: 'content_block_delta', index: 0, delta: { type: 'odder_delta', value: 1 } },
      { type: 'content_block_stop', index: 0 },
      { type: 'oddest_event', value: 1 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
      { type: 'message_stop' },
    ],
    ['odd', 'odder_delta', 'oddest_event'],
  ],
]

describe('an unknown member of a response', () => {
  test.each(ANSWERS)('of %s is reported', (provider, whole, frames, kinds) => {
    const events: GenerationEvent[] =
      whole === undefined ? streamedEventsOf(provider, framesOf(frames!)) : eventsOf(provider, whole)
    for (const client of others(provider)) {
      const context = contextOf(client)
      protocols[client].serve.writeResponse(fold(events), context)
      const reported = context.losses.losses.map(({ path }) => path)
      const missing = kinds.filter((kind) => !reported.includes(`response.${kind}`))
      expect([client, missing]).toEqual([client, []])
    }
  })
})
