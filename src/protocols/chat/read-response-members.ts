import { isObject } from '../../json/parse.ts'
import type { Json } from './shapes.ts'

/** The members of each object of a response that are read, or say nothing beyond the response's own bookkeeping. */
const RESPONSE = new Set([
  ...['id', 'object', 'created', 'model', 'service_tier', 'system_fingerprint', 'provider', 'obfuscation', 'p'],
  ...['choices', 'usage', 'citations', 'search_results', 'error', 'x_groq', 'prompt_filter_results'],
  ...['request_id', 'user_id'],
])
const CHOICE = new Set([
  ...['index', 'delta', 'message', 'logprobs', 'error', 'content_filter_results'],
  ...['finish_reason', 'native_finish_reason'],
])
const MESSAGE = new Set([
  ...['role', 'content', 'refusal', 'annotations', 'images', 'audio', 'tool_calls', 'function_call'],
  ...['reasoning', 'reasoning_content', 'reasoning_details'],
  ...['index', 'id', 'name', 'channel', 'prefix'],
])
const CALL = new Set(['id', 'index', 'type', 'function', 'custom', 'extra_content'])
const CALLED = new Set(['name', 'arguments', 'input'])

/** A server that invents members without end must not fill the memory. */
const MEMBERS_MAX = 100

/** Members that only the server has, each once with its first value: a translation cannot carry them. */
export class UnreadMembers {
  #found: [name: string, value: unknown][] | undefined

  get found(): readonly [name: string, value: unknown][] {
    return this.#found ?? []
  }

  ofResponse(response: Json): void {
    this.#add(response, RESPONSE)
  }

  ofChoice(choice: Json): void {
    this.#add(choice, CHOICE)
  }

  ofMessage(message: Json): void {
    this.#add(message, MESSAGE)
  }

  ofCall(call: Json): void {
    this.#add(call, CALL, 'tool_calls.')
    if (isObject(call.function)) this.#add(call.function, CALLED, 'tool_calls.')
    if (isObject(call.custom)) this.#add(call.custom, CALLED, 'tool_calls.')
  }

  #add(object: Json, known: ReadonlySet<string>, prefix = ''): void {
    for (const name in object) {
      if (known.has(name) || saysNothing(object[name])) continue
      this.#found ??= []
      const path = prefix + name
      if (this.#found.length < MEMBERS_MAX && !this.#found.some(([one]) => one === path))
        this.#found.push([path, object[name]])
    }
  }
}

function saysNothing(value: unknown): boolean {
  if (typeof value !== 'object') return value === undefined || value === '' || value === false
  if (value === null) return true
  for (const _ in value) return false
  return true
}
