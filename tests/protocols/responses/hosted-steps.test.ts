import { describe, expect, test } from 'bun:test'
import type { HostedStep, HostedTool } from '../../../src/generation/request.ts'
import {
  hostedTool,
  ownMembers,
  stepsOf,
  writeHostedTool,
  writeSteps,
} from '../../../src/protocols/responses/hosted-tools.ts'
import { framesOf, parsed, sentence, stop, text, type Any } from './fixtures.ts'

/** The streams of steps that providers of other protocols ran: code, and calls of remote servers of tools. */

/** `begun`: members of the item that is added, which `item` has at the end. `events`: names and contents. */
type Case = { steps: HostedStep[]; item: Any; begun: Any; events: string[] }

const mcpCall = { type: 'mcp-call', id: 'a', server: 's', name: 'f', arguments: '{"a":1}' } as const
const mcpEvents = ['mcp_call.in_progress', 'mcp_call_arguments.delta {"a":1}', 'mcp_call_arguments.done {"a":1}']

test.each<[string, Case]>([
  [
    'code',
    {
      steps: [
        { type: 'code', id: 'a', code: 'print(1)' },
        { type: 'code-result', id: 'a', output: '1', failed: false },
      ],
      item: { type: 'code_interpreter_call', code: 'print(1)', outputs: [{ type: 'logs', logs: '1' }] },
      begun: { code: '', outputs: null },
      events: [
        'code_interpreter_call.in_progress',
        'code_interpreter_call_code.delta print(1)',
        'code_interpreter_call_code.done print(1)',
        'code_interpreter_call.interpreting',
        'code_interpreter_call.completed',
      ],
    },
  ],
  [
    'code that failed',
    {
      steps: [
        { type: 'code', id: 'a', code: '' },
        { type: 'code-result', id: 'a', output: 'no', failed: true },
      ],
      item: { type: 'code_interpreter_call', code: '', status: 'failed' },
      begun: { code: '', outputs: null },
      events: [
        'code_interpreter_call.in_progress',
        'code_interpreter_call_code.done',
        'code_interpreter_call.interpreting',
      ],
    },
  ],
  [
    'a call of a server',
    {
      steps: [mcpCall, { type: 'mcp-result', id: 'a', output: 'yes', failed: false }],
      item: { type: 'mcp_call', status: 'completed', arguments: '{"a":1}', output: 'yes', error: null },
      begun: { arguments: '', output: null, error: null },
      events: [...mcpEvents, 'mcp_call.completed'],
    },
  ],
  [
    'a call of a server that failed',
    {
      steps: [mcpCall, { type: 'mcp-result', id: 'a', output: 'no', failed: true }],
      item: { type: 'mcp_call', status: 'failed', arguments: '{"a":1}', output: null, error: 'no' },
      begun: { arguments: '', output: null, error: null },
      events: [...mcpEvents, 'mcp_call.failed'],
    },
  ],
])("%s has OpenAI's events, and a content that comes with them", (_, { steps, item, begun, events }) => {
  const native = { type: 'native', protocol: 'messages', kind: 'x', value: {}, steps }
  const [added, ...others] = parsed(framesOf([...sentence([native, []]), stop])).slice(2, -1)
  const done = others.pop()
  expect(added).toMatchObject({ type: 'response.output_item.added', item: { ...begun, status: 'in_progress' } })
  expect(
    others.map(({ type, delta, code, arguments: args }) =>
      `${type.replace('response.', '')} ${delta ?? code ?? args ?? ''}`.trim(),
    ),
  ).toEqual(events)
  for (const { item_id, output_index } of others) expect([item_id, output_index]).toEqual([added!.item.id, 0])
  expect(done).toMatchObject({ type: 'response.output_item.done', item: { ...item, id: added!.item.id } })
  expect(added!.item.id).toStartWith(item.type === 'mcp_call' ? 'mcp_' : 'ci_')
})

test('results of calls that were made at once are those of their calls, in any order', () => {
  const steps: HostedStep[] = [
    { type: 'code', id: 'a', code: 'first' },
    mcpCall,
    { type: 'code', id: 'c', code: 'third' },
    { type: 'code-result', id: 'c', output: '3', failed: false },
    { type: 'mcp-result', id: 'a', output: 'yes', failed: false },
    { type: 'code-result', id: 'a', output: '1', failed: false },
  ].map((step) => (step.type.startsWith('mcp') ? { ...step, id: 'b' } : step)) as HostedStep[]
  const natives = steps.map((step) => [
    { type: 'native', protocol: 'messages', kind: 'x', value: {}, steps: [step] },
    [],
  ]) as [object, string[]][]
  const { output } = parsed(framesOf([...sentence(...natives), stop])).at(-1)!.response as Any
  expect(output.map((item: Any) => item.code ?? item.name)).toEqual(['third', 'f', 'first'])
  expect(output.map((item: Any) => item.output ?? item.outputs[0].logs)).toEqual(['3', 'yes', '1'])
})

test('results that come in the order of their calls leave the others waiting', () => {
  const ids = ['a', 'b', 'c']
  const steps = [
    ...ids.map((id): HostedStep => ({ type: 'code', id, code: id })),
    ...ids.map((id): HostedStep => ({ type: 'code-result', id, output: id, failed: false })),
  ]
  const native = { type: 'native', protocol: 'messages', kind: 'x', value: {}, steps }
  const { output } = parsed(framesOf([...sentence([native, []]), stop])).at(-1)!.response as Any
  expect(output.map((item: Any) => [item.code, item.outputs[0].logs])).toEqual(ids.map((id) => [id, id]))
})

test('calls without a result are written before the content that follows them', () => {
  const native = {
    type: 'native',
    protocol: 'messages',
    kind: 'x',
    value: {},
    steps: ['a', 'b'].map((id): HostedStep => ({ type: 'code', id, code: id })),
  }
  const { output } = parsed(framesOf([...sentence([native, []], [text, ['x']]), stop])).at(-1)!.response as Any
  expect(output.map((item: Any) => item.code ?? item.type)).toEqual(['a', 'b', 'message'])
})

test.each([
  ['{"code":"print(1)"}', 'print(1)'],
  ['{"code":1}', ''],
  ['print(1)', ''],
  [undefined, ''],
])('xAI has the code of a step in its arguments: %j', (args, code) => {
  const item = { id: 'a', name: 'code_execution', arguments: args, outputs: null, status: 'completed' }
  expect(stepsOf('code_interpreter_call', item)).toEqual([{ type: 'code', id: 'a', code }])
})

describe('the steps in an item', () => {
  const code = { type: 'code', id: 'a', code: 'x' }
  const call = { type: 'mcp-call', id: 'a', server: 's', name: 'f', arguments: '{}' }
  const item = { id: 'a', server_label: 's', name: 'f', arguments: '{}' }
  const outputs = [{ type: 'logs', logs: '1' }, { type: 'image', url: 'u' }, { type: 'odd' }]
  test.each<[string, Any, Any[] | undefined]>([
    ['code_interpreter_call', { outputs }, [code, { type: 'code-result', id: 'a', output: '1\nu\n', failed: false }]],
    ['code_interpreter_call', {}, [code, { type: 'code-result', id: 'a', output: '', failed: false }]],
    ['code_interpreter_call', { outputs: null }, [code]],
    [
      'code_interpreter_call',
      { outputs: null, status: 'failed' },
      [code, { type: 'code-result', id: 'a', output: '', failed: true }],
    ],
    ['mcp_call', { output: 'yes', error: null }, [call, { type: 'mcp-result', id: 'a', output: 'yes', failed: false }]],
    ['mcp_call', { output: 'yes' }, [call, { type: 'mcp-result', id: 'a', output: 'yes', failed: false }]],
    ['mcp_call', { output: 'yes', error: '' }, [call, { type: 'mcp-result', id: 'a', output: '', failed: true }]],
    [
      'mcp_call',
      { output: null, error: { code: 5 } },
      [call, { type: 'mcp-result', id: 'a', output: '{"code":5}', failed: true }],
    ],
    ['web_search_call', {}, undefined],
  ])('%s with %j are what was run and its result', (kind, members, steps) => {
    expect(stepsOf(kind, { ...item, code: 'x', ...members })).toEqual(steps as HostedStep[] | undefined)
  })

  test('have no content where only the other half is known', () => {
    const result = (type: string, failed: boolean): HostedStep => ({ type, id: 'a', output: 'r', failed }) as HostedStep
    const unknown = { server_label: '', name: '', arguments: '{}' }
    expect(writeSteps(undefined, result('mcp-result', false))).toMatchObject({ ...unknown, output: 'r', error: null })
    expect(writeSteps(undefined, result('mcp-result', true))).toMatchObject({ ...unknown, output: null, error: 'r' })
    expect(writeSteps(mcpCall, undefined)).toMatchObject({ status: 'completed', name: 'f', output: null, error: null })
    expect(writeSteps(undefined, result('code-result', false))).toMatchObject({
      ...{ type: 'code_interpreter_call', status: 'completed' },
      ...{ code: null, outputs: [{ type: 'logs', logs: 'r' }] },
    })
    expect(writeSteps({ type: 'code', id: 'a', code: 'x' }, undefined)).toMatchObject({ code: 'x', outputs: null })
  })
})

describe('a tool that other providers can run', () => {
  const server = { type: 'mcp', server_label: 's', server_url: 'u', require_approval: 'never' }
  const read = { type: 'mcp', name: 's', url: 'u' } as const
  test.each<[Any, HostedTool | undefined]>([
    [{}, read],
    [{ authorization: 't' }, { ...read, token: 't' }],
    [
      { authorization: 't', headers: { 'x-key': 'k' } },
      { ...read, token: 't' },
    ],
    [{ headers: { Authorization: 'Bearer t' } }, { ...read, token: 't' }],
    [{ headers: { authorization: 'bearer t' } }, { ...read, token: 't' }],
    [{ headers: {} }, read],
    [{ headers: { authorization: 'Basic t' } }, undefined],
    [{ headers: { 'x-key': 'Bearer t' } }, undefined],
    [{ headers: { authorization: 'Bearer t', 'x-key': 'k' } }, undefined],
    [{ allowed_tools: ['a', 5] }, { ...read, allowed: ['a'] }],
    [{ allowed_tools: { tool_names: ['a'] } }, { ...read, allowed: ['a'] }],
    [{ allowed_tools: { tool_names: ['a'], read_only: false } }, { ...read, allowed: ['a'] }],
    [{ allowed_tools: { read_only: true } }, undefined],
    [{ allowed_tools: {} }, read],
    [{ server_label: 5 }, undefined],
    [{ server_url: undefined }, undefined],
  ])('is a server with %j, if they have fields for all of it', (members, hosted) => {
    expect(hostedTool('mcp', { ...server, ...members })).toEqual(hosted && [hosted])
    if (hosted !== undefined) expect(hostedTool('mcp', writeHostedTool(hosted))).toEqual([hosted])
  })

  test.each<[Any, boolean]>([
    [{ type: 'auto' }, true],
    [{ type: 'auto', file_ids: [] }, true],
    [{ type: 'auto', file_ids: ['f'] }, false],
    [{ type: 'other' }, false],
  ])('is code in the container %j: %j', (container, runs) => {
    expect(hostedTool('code_interpreter', { container })).toEqual(runs ? [{ type: 'code' }] : undefined)
    expect(hostedTool('other', { ...server, container })).toBeUndefined()
  })

  test('has members that only this protocol has, each with its path', () => {
    const tool = {
      ...server,
      ...{ authorization: 't', headers: { a: 'b' }, server_description: 'd', defer_loading: null, scopes: [] },
      container: { type: 'auto', memory_limit: '4g', file_ids: [] },
      allowed_tools: { tool_names: ['a'], read_only: false, more: ['x'] },
    }
    expect(ownMembers(tool)).toEqual([
      ['container.memory_limit', '4g'],
      ['allowed_tools.more', ['x']],
      ['server_description', 'd'],
    ])
  })
})
