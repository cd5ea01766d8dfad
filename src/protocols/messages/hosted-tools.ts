import type { HostedStep, HostedTool } from '../../generation/request.ts'
import { isObject, objectOf, stringOf } from '../../json/parse.ts'
import { fenced } from '../hosted-tools.ts'
import { readInput, type Block, type Json } from './shapes.ts'

/** Tools that Anthropic runs, in the terms of all protocols. */

/**
 * Undefined for another kind of tool, and for a toolset that forbids single tools, since other providers have lists of
 * allowed ones only, or whose server is not in `mcp_servers`: other protocols describe a toolset by its server.
 */
export function hostedTool(kind: string, tool: Json, servers: readonly Json[]): HostedTool[] | undefined {
  if (kind.startsWith('code_execution_')) return [{ type: 'code' }]
  if (kind !== 'mcp_toolset' || !servers.some(({ name }) => name === tool.mcp_server_name)) return undefined
  const isForbidding = Object.values(objectOf(tool.configs)).some((config) => objectOf(config).enabled === false)
  return isForbidding && objectOf(tool.default_config).enabled !== false ? undefined : []
}

/** The members of a toolset that only this protocol has, by their paths within it. */
export function ownMembers({ default_config: usual, configs }: Json): [path: string, value: unknown][] {
  const all = [
    ['default_config', usual],
    ...Object.entries(objectOf(configs)).map(([of, one]) => [`configs.${of}`, one]),
  ]
  return all.flatMap(([path, config]) =>
    Object.entries(objectOf(config)).flatMap(([name, value]): [string, unknown][] =>
      name === 'enabled' || value === null || value === false ? [] : [[`${path as string}.${name}`, value]],
    ),
  )
}

/** `mcp_servers`, with what the toolsets among the tools allow of each; undefined for a server of an unknown kind. */
export function hostedServers(servers: readonly Json[], tools: readonly Json[]): HostedTool[] | undefined {
  const hosted = servers.map((server): HostedTool | undefined => {
    if (typeof server.name !== 'string' || typeof server.url !== 'string') return undefined
    const { name, url, authorization_token: token } = server
    const toolset = tools.find((tool) => tool.mcp_server_name === name)
    const allowed = allowedIn(server.tool_configuration) ?? enabledIn(objectOf(toolset))
    return {
      type: 'mcp',
      name,
      url,
      ...(typeof token === 'string' ? { token } : {}),
      ...(allowed === undefined ? {} : { allowed }),
    }
  })
  return hosted.every((one) => one !== undefined) ? hosted : undefined
}

function allowedIn(configuration: unknown): string[] | undefined {
  if (!isObject(configuration)) return undefined
  if (configuration.enabled === false) return []
  const { allowed_tools: allowed } = configuration
  return Array.isArray(allowed) ? allowed.filter((name) => typeof name === 'string') : undefined
}

function enabledIn({ default_config: usual, configs }: Json): string[] | undefined {
  if (objectOf(usual).enabled !== false) return undefined
  return Object.entries(objectOf(configs)).flatMap(([name, config]) =>
    isObject(config) && config.enabled === true ? [name] : [],
  )
}

/** Servers of tools have a member of their own, beside the tools. `beta`: the header that it needs. */
export const MCP = { member: 'mcp_servers', beta: 'mcp-client-2025-11-20' } as const

/** A tool, and the server that it refers to. */
export type WrittenTool = { tool: Json; server?: Json }

export const writeHostedTool = (hosted: HostedTool): WrittenTool => {
  if (hosted.type === 'code') return { tool: { type: 'code_execution_20250825', name: 'code_execution' } }
  const { name, url, token, allowed } = hosted
  return {
    tool: {
      type: 'mcp_toolset',
      mcp_server_name: name,
      ...(allowed === undefined
        ? {}
        : {
            default_config: { enabled: false },
            configs: Object.fromEntries(allowed.map((tool) => [tool, { enabled: true }])),
          }),
    },
    server: { type: 'url', name, url, ...(token === undefined ? {} : { authorization_token: token }) },
  }
}

const RUNS = new Set(['code_execution', 'bash_code_execution', 'text_editor_code_execution'])

/** The steps in a block; undefined where it has none. */
export function stepsOf(kind: string, block: Json): HostedStep[] | undefined {
  const id = stringOf(block.id ?? block.tool_use_id)
  const input = objectOf(block.input)
  const name = stringOf(block.name)
  if (kind === 'server_tool_use' && RUNS.has(name)) {
    const code = [input.code, input.command].find((text) => typeof text === 'string') ?? JSON.stringify(input)
    return [{ type: 'code', id, code }]
  }
  if (kind === 'mcp_tool_use')
    return [{ type: 'mcp-call', id, server: stringOf(block.server_name), name, arguments: JSON.stringify(input) }]
  if (kind === 'mcp_tool_result')
    return [{ type: 'mcp-result', id, output: textIn(block.content), failed: block.is_error === true }]
  if (!/^(bash_|text_editor_)?code_execution_tool_result$/.test(kind)) return undefined
  const result = objectOf(block.content)
  const failed =
    stringOf(result.type).endsWith('_error') || (typeof result.return_code === 'number' && result.return_code !== 0)
  return [{ type: 'code-result', id, output: outputIn(result), failed }]
}

/** The text of a page that was fetched; undefined for other media, and where it could not be. */
export function pageIn(kind: string, block: Json): string | undefined {
  if (kind !== 'web_fetch_tool_result') return undefined
  const { url, content } = objectOf(block.content)
  const { type, data } = objectOf(objectOf(content).source)
  return type === 'text' && typeof data === 'string' ? `[The page ${stringOf(url)}:]\n${fenced(data)}` : undefined
}

const textIn = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : Array.isArray(content)
      ? content.map((part) => (isObject(part) ? stringOf(part.text) : '')).join('\n')
      : ''

function outputIn({ type, stdout, stderr, ...others }: Json): string {
  const texts = [stdout, stderr].filter((text) => typeof text === 'string' && text !== '')
  return texts.length > 0 || typeof stdout === 'string' ? texts.join('\n') : JSON.stringify({ type, ...others })
}

/** The block of a step that another provider reports. Ids have the prefix that Anthropic requires. */
export function writeStep(step: HostedStep): Block {
  const id = `${step.type.startsWith('mcp') ? 'mcptoolu' : 'srvtoolu'}_${step.id.replace(/[^A-Za-z0-9]/g, '')}`
  switch (step.type) {
    case 'code':
      return { type: 'server_tool_use', id, name: 'code_execution', input: { code: step.code } }
    case 'code-result': {
      const { output, failed } = step
      const streams = { stdout: failed ? '' : output, stderr: failed ? output : '', return_code: failed ? 1 : 0 }
      const content = { type: 'code_execution_result', ...streams, content: [] }
      return { type: 'code_execution_tool_result', tool_use_id: id, content }
    }
    case 'mcp-call':
      return {
        type: 'mcp_tool_use',
        id,
        name: step.name,
        server_name: step.server,
        input: readInput(step.arguments) ?? {},
      }
    case 'mcp-result':
      return {
        type: 'mcp_tool_result',
        tool_use_id: id,
        is_error: step.failed,
        content: [{ type: 'text', text: step.output }],
      }
  }
}
