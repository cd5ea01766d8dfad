import type { HostedStep, HostedTool } from '../../generation/request.ts'
import { isObject, objectOf, objectsOf, stringOf, tryParse } from '../../json/parse.ts'
import type { Json } from './shapes.ts'

/** Tools that OpenAI runs, in the terms of all protocols. */

/**
 * Undefined for another kind of tool, and for what no other provider can do: code with files or in a container that
 * exists, connectors, and servers whose tools are called only with the client's approval (the default) or to read.
 */
export function hostedTool(kind: string, tool: Json): HostedTool[] | undefined {
  if (kind === 'code_interpreter')
    return isObject(tool.container) && tool.container.type === 'auto' && !hasFiles(tool.container)
      ? [{ type: 'code' }]
      : undefined
  const { server_label: name, server_url: url, require_approval: approval } = tool
  if (kind !== 'mcp' || typeof name !== 'string' || typeof url !== 'string' || approval !== 'never') return undefined
  if (isObject(tool.allowed_tools) && tool.allowed_tools.read_only === true) return undefined
  const token = tokenOf(tool)
  const allowed = allowedIn(tool.allowed_tools)
  return token === null
    ? undefined
    : [
        {
          type: 'mcp',
          name,
          url,
          ...(token === undefined ? {} : { token }),
          ...(allowed === undefined ? {} : { allowed }),
        },
      ]
}

const hasFiles = ({ file_ids: files }: Json): boolean => Array.isArray(files) && files.length > 0

/** The bearer token for a server; null where it gets other headers, for which other providers have no field. */
function tokenOf({ authorization, headers }: Json): string | undefined | null {
  if (typeof authorization === 'string') return authorization
  const entries = Object.entries(objectOf(headers))
  const [name = '', value] = entries[0] ?? []
  if (entries.length === 0) return undefined
  const token = /^bearer (.*)$/i.exec(stringOf(value))?.[1]
  return entries.length === 1 && name.toLowerCase() === 'authorization' && token !== undefined ? token : null
}

function allowedIn(allowed: unknown): string[] | undefined {
  const names: unknown = isObject(allowed) ? allowed.tool_names : allowed
  return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : undefined
}

/** Members of a hosted tool that only this protocol has, by their paths within it. */
export function ownMembers({ container, ...tool }: Json): [path: string, value: unknown][] {
  const { type: _, ...options } = objectOf(container)
  const { tool_names: _names, read_only: _readOnly, ...allowed } = objectOf(tool.allowed_tools)
  return [
    ...Object.entries(options).map(([name, value]): [string, unknown] => [`container.${name}`, value]),
    ...Object.entries(allowed).map(([name, value]): [string, unknown] => [`allowed_tools.${name}`, value]),
    ...Object.entries(tool).filter(([name]) => !CARRIED.has(name)),
  ].filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0))
}

const CARRIED = new Set([
  'type',
  'server_label',
  'server_url',
  'require_approval',
  'authorization',
  'headers',
  'allowed_tools',
])

export const writeHostedTool = (hosted: HostedTool): Json => {
  if (hosted.type === 'code') return { type: 'code_interpreter', container: { type: 'auto' } }
  const { name, url, token, allowed } = hosted
  return {
    type: 'mcp',
    server_label: name,
    server_url: url,
    ...(token === undefined ? {} : { authorization: token }),
    ...(allowed === undefined ? {} : { allowed_tools: allowed }),
    require_approval: 'never',
  }
}

/** xAI has the code in arguments, as those of a function. */
const codeOf = ({ code, arguments: args }: Json): string =>
  typeof code === 'string' ? code : stringOf(objectOf(tryParse(stringOf(args))).code)

/** The steps in an item; undefined where it has none. */
export function stepsOf(kind: string, item: Json): HostedStep[] | undefined {
  const id = stringOf(item.id)
  if (kind === 'code_interpreter_call') {
    const failed = item.status === 'failed'
    const output = objectsOf(item.outputs)
      .map(({ logs, url }) => stringOf(logs ?? url))
      .join('\n')
    const result: HostedStep[] = failed || item.outputs !== null ? [{ type: 'code-result', id, output, failed }] : []
    return [{ type: 'code', id, code: codeOf(item) }, ...result]
  }
  if (kind !== 'mcp_call') return undefined
  const failed = item.error !== undefined && item.error !== null
  const error = isObject(item.error) ? JSON.stringify(item.error) : stringOf(item.error)
  return [
    {
      type: 'mcp-call',
      id,
      server: stringOf(item.server_label),
      name: stringOf(item.name),
      arguments: stringOf(item.arguments),
    },
    { type: 'mcp-result', id, output: failed ? error : stringOf(item.output), failed },
  ]
}

/** The item of a call that another provider ran. `result`: undefined while it is not known. */
export function writeSteps(call: HostedStep | undefined, result: HostedStep | undefined): Json {
  const output = result !== undefined && 'output' in result ? result : undefined
  if (call?.type === 'mcp-call' || output?.type === 'mcp-result')
    return {
      type: 'mcp_call',
      status: output?.failed === true ? 'failed' : 'completed',
      server_label: call?.type === 'mcp-call' ? call.server : '',
      name: call?.type === 'mcp-call' ? call.name : '',
      arguments: call?.type === 'mcp-call' ? call.arguments : '{}',
      output: output === undefined || output.failed ? null : output.output,
      error: output?.failed === true ? output.output : null,
    }
  return {
    type: 'code_interpreter_call',
    status: output?.failed === true ? 'failed' : 'completed',
    container_id: '',
    code: call?.type === 'code' ? call.code : null,
    outputs: output === undefined ? null : [{ type: 'logs', logs: output.output }],
  }
}
