import { expect, test } from 'bun:test'
import { codesAndPaths, HELLO, type Json, send, sendOrRefuse } from '../../matrix/routes.ts'

/** Toolsets of remote servers in requests to providers of responses. */

const SERVERS: Json[] = [{ type: 'url', name: 'docs', url: 'https://mcp.example/sse' }]
const requestWith = (toolset: Json, servers = SERVERS): Json => ({
  ...HELLO.messages,
  tools: [{ type: 'mcp_toolset', mcp_server_name: 'docs', ...toolset }],
  mcp_servers: servers,
})

test('a toolset that forbids single tools is refused, since others only have lists of allowed ones', () => {
  const refused = sendOrRefuse('messages', 'responses', requestWith({ configs: { erase: { enabled: false } } }))
  expect(refused).toMatchObject({ code: 'unsupported_parameter', param: 'tools[0]' })
  const allowed = { default_config: { enabled: false }, configs: { ask: { enabled: true }, erase: { enabled: false } } }
  expect(send('messages', 'responses', requestWith(allowed)).body.tools[0].allowed_tools).toEqual(['ask'])
})

test('a toolset without its server is refused', () => {
  const others = [{ ...SERVERS[0], name: 'other' }]
  for (const servers of [undefined, [], others])
    expect(sendOrRefuse('messages', 'responses', { ...requestWith({}), mcp_servers: servers })).toMatchObject({
      code: 'unsupported_parameter',
      param: 'tools[0]',
    })
})

test('options of a toolset that only Anthropic has are reported with their paths', () => {
  const toolset = {
    default_config: { defer_loading: true },
    configs: { ask: { enabled: true, defer_loading: true }, look: { defer_loading: false } },
  }
  const { body, losses } = send('messages', 'responses', requestWith(toolset))
  expect(body.tools[0].allowed_tools).toBeUndefined()
  expect(codesAndPaths(losses)).toEqual([
    'native_field tools[0].default_config.defer_loading',
    'native_field tools[0].configs.ask.defer_loading',
  ])
})

test('the tools that the configuration of a server allows are those of its toolset', () => {
  const sent = (tool_configuration: Json): unknown =>
    send('messages', 'responses', requestWith({}, [{ ...SERVERS[0], tool_configuration }])).body.tools[0].allowed_tools
  expect(sent({ allowed_tools: ['ask', 7] })).toEqual(['ask'])
  expect(sent({ enabled: false, allowed_tools: ['ask'] })).toEqual([])
  expect(sent({ enabled: true })).toBeUndefined()
})

test('servers of an unknown kind are refused', () => {
  for (const server of [{ name: 'docs' }, { url: 'https://mcp.example/sse' }])
    expect(sendOrRefuse('messages', 'responses', { ...HELLO.messages, mcp_servers: [server] })).toMatchObject({
      code: 'unsupported_parameter',
      param: 'mcp_servers',
    })
})
