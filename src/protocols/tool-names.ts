import { createHash } from 'node:crypto'
import type { GenerationEvent } from '../generation/event.ts'
import type { Turn } from '../generation/request.ts'
import { freeText } from './custom-tools.ts'
import { someElement } from './element-memory.ts'
import type { Transform } from './transforms.ts'
import type { Translation } from './translation.ts'

/** Tool names that a provider accepts. `invalid`: characters to replace; `prefix`: before a name that was changed. */
type NameRule = { valid: RegExp; invalid: RegExp; longest: number; prefix?: string }

/** A rule, and whether a turn has a call whose name it does not accept: the same function for each request. */
type ToolNameRule = NameRule & { refusesIn(turn: Turn): boolean }

export const toolNameRule = (rule: NameRule): ToolNameRule => ({
  ...rule,
  refusesIn: ({ parts }) => parts.some((part) => part.type === 'tool-call' && !rule.valid.test(part.name)),
})

/** OpenAI's protocols: up to 64 letters, digits, `_` and `-`. */
export const OPENAI_NAMES = toolNameRule({ valid: /^[\w-]{1,64}$/, invalid: /[^\w-]/g, longest: 64 })

/** A name that the rule accepts; another is cut and gets a hash of itself, the same in every request. */
export function acceptedName(name: string, { valid, invalid, longest, prefix = '' }: NameRule): string {
  if (valid.test(name)) return name
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8)
  return `${prefix}${name.replace(invalid, '_').slice(0, longest - prefix.length - 9)}_${hash}`
}

export type ClientTool = { name: string; form: 'function' | 'custom' }

/** The tool names of one request as the provider is sent them; responses get the client's own again. */
export class ToolNames {
  readonly #rule: NameRule

  constructor(translation: Translation, rule: ToolNameRule) {
    this.#rule = rule
    const { tools, turns } = translation.request
    if (someElement(turns, rule.refusesIn)) this.#loseUnlisted(translation)
    const changed = new Map<string, ClientTool>()
    for (const tool of tools) {
      if (tool.type === 'native') continue
      const sent = this.sent(tool.name)
      if (sent !== tool.name) translation.lose('tool_renamed', translation.at(tool, 'name'), renamed(sent))
      if (sent !== tool.name || tool.type === 'custom') changed.set(sent, { name: tool.name, form: tool.type })
    }
    if (changed.size > 0) translation.undo({ type: 'restore-tools', tools: changed })
  }

  /** Reports changed names in calls of tools that are not listed any more. */
  #loseUnlisted(translation: Translation): void {
    const { tools, turns } = translation.request
    const listed = tools.map((tool) => (tool.type === 'native' ? '' : tool.name))
    for (const { parts } of turns)
      for (const part of parts) {
        if (part.type !== 'tool-call' || listed.includes(part.name)) continue
        const sent = this.sent(part.name)
        if (sent !== part.name) translation.lose('tool_renamed', translation.at(part, 'name'), renamed(sent))
      }
  }

  sent(name: string): string {
    return acceptedName(name, this.#rule)
  }
}

const renamed = (sent: string): string => `the provider does not accept the name: ${sent}`

/**
 * Restores the client's names of tools, and free text that was wrapped in an object with the one member `input` because
 * the provider has functions only. `tools`: the client's tools by the names that were sent.
 */
export function restoreTools(tools: ReadonlyMap<string, ClientTool>): Transform {
  const calls = new CallRestorer(tools)
  return (events) => events.flatMap((event) => calls.restore(event))
}

class CallRestorer {
  readonly #tools: ReadonlyMap<string, ClientTool>
  /** Arguments of the open call if its free text is wrapped: they are held back until they are complete. */
  #wrapped: string | undefined

  constructor(tools: ReadonlyMap<string, ClientTool>) {
    this.#tools = tools
  }

  restore(event: GenerationEvent): GenerationEvent[] {
    if (event.type === 'part-start' && event.head.type === 'tool-call') return [this.#begin(event, event.head)]
    if (this.#wrapped === undefined) return [event]
    if (event.type === 'part-end') return this.#unwrap(event)
    if (event.type !== 'part-delta') return [event]
    this.#wrapped += event.text
    return []
  }

  #begin(event: PartStart, head: PartStart['head'] & { type: 'tool-call' }): GenerationEvent {
    const tool = this.#tools.get(head.name)
    if (tool === undefined) return event
    if (tool.form === 'custom' && head.form === 'function') this.#wrapped = ''
    return { ...event, head: { ...head, name: tool.name, form: tool.form } }
  }

  #unwrap(event: GenerationEvent & { type: 'part-end' }): GenerationEvent[] {
    const text = freeText(this.#wrapped!)
    this.#wrapped = undefined
    return text === '' ? [event] : [{ type: 'part-delta', part: event.part, text }, event]
  }
}

type PartStart = GenerationEvent & { type: 'part-start' }
