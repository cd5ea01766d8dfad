import type { GenerationRequest, Turn } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import type { Target } from '../protocol.ts'
import { resultsBehindCalls } from '../tool-results.ts'
import { type Item, PartWriter } from './write-request-parts.ts'
import type { ToolNames } from '../tool-names.ts'
import { shortHash } from './write-request-tools.ts'
import { type Block, TOOL_ID } from './shapes.ts'

export type Message = { role: 'user' | 'assistant' | 'system'; content: Block[] }

/** What one side says until the other speaks. */
type Side = { role: Message['role']; items: Item[] }

/**
 * The conversation as Anthropic takes it: the user speaks first, roles alternate, each call is answered at the start of
 * the message
 * behind it, ids keep to its grammar, and nothing is empty.
 */
export function writeConversation(
  request: GenerationRequest,
  target: Target,
  names: ToolNames,
  translation: Translation,
): { system: Block[]; messages: Message[] } {
  const writer = new PartWriter(target, names, translation)
  const system = writer
    .items(request.system, 'user')
    .map(({ block }) => block)
    .filter((block) => isText(block, translation))
  const messages = new Pairing(translation).messages(
    sidesOf(resultsBehindCalls(request.turns), writer, target.capabilities.systemTurns === true, translation),
  )
  if (messages.length === 0 && system.length > 0) {
    translation.lose(
      'todo_approximated',
      translation.setting('system'),
      'the provider needs a message; the instructions are sent as one',
    )
    return { system: [], messages: [{ role: 'user', content: system }] }
  }
  if (messages.length === 0) throw translation.emptyConversation()
  if (messages[0]!.role === 'assistant') {
    translation.lose(
      'todo_approximated',
      translation.setting('conversation'),
      'the provider wants the user to speak first',
    )
    messages.unshift({
      role: 'user',
      content: [{ type: 'text', text: '(The conversation begins with the assistant.)' }],
    })
  }
  writePrefill(messages, target, translation)
  return { system, messages }
}

function isText(block: Block, translation: Translation): boolean {
  if (block.type === 'text') return true
  translation.lose('todo_dropped', translation.setting('system'), `instructions hold text only, not ${block.type}`)
  return false
}

function sidesOf(turns: Turn[], writer: PartWriter, systemTurns: boolean, translation: Translation): Side[] {
  const sides: Side[] = []
  for (const turn of turns) {
    const instructs = turn.role === 'system' || turn.role === 'developer'
    const last = sides.at(-1)
    // The results of a call come right behind it, so that nothing else can stand there.
    const stands =
      instructs && systemTurns && (last?.role !== 'assistant' || last.items.every(({ calls }) => calls === undefined))
    const role = turn.role === 'assistant' ? 'assistant' : stands ? 'system' : 'user'
    if (turn.name !== undefined && turn.role !== 'tool')
      translation.lose(
        'todo_dropped',
        translation.setting('conversation') /* name */,
        'the provider knows no names of speakers',
      )
    const items = writer.items(turn.parts, role === 'assistant' ? 'assistant' : 'user')
    const marked = instructs && role === 'user' ? items.map((item) => marker(item, turn.role, translation)) : items
    join(sides, { role, items: marked })
  }
  return sides.reduce<Side[]>((kept, side) => join(kept, withoutLastThoughts(side, translation)), [])
}

/** Anthropic refuses an answer that ends with thinking: one that was cut there, or whose calls were left behind. */
function withoutLastThoughts(side: Side, translation: Translation): Side {
  const end =
    side.role !== 'assistant'
      ? side.items.length
      : side.items.findLastIndex(({ block }) => block.type !== 'thinking' && block.type !== 'redacted_thinking') + 1
  if (end < side.items.length)
    translation.lose(
      'todo_dropped',
      translation.setting('conversation') /* thoughts */,
      'nothing follows it, and the provider refuses an answer that ends with it',
    )
  return { ...side, items: side.items.slice(0, end) }
}

/** Adds what a side says, to what the same side has just said where it has. */
function join(sides: Side[], { role, items }: Side): Side[] {
  const last = sides.at(-1)
  if (last?.role === role) for (const item of items) last.items.push(item)
  else if (items.length > 0) sides.push({ role, items })
  return sides
}

/**
 * Instructions in the middle stay where they are: moved to the top they would mean something else and spoil the cached
 * prefix.
 */
function marker(item: Item, role: string, translation: Translation): Item {
  if (item.block.type !== 'text') return item
  translation.lose(
    'todo_approximated',
    translation.setting('conversation') /* instruction of role */,
    'instructions in the middle of a conversation are sent as marked text of the user',
  )
  return { block: { ...item.block, text: `<system>\n${String(item.block.text)}\n</system>` } }
}

/** Brings calls and results together. */
class Pairing {
  readonly #translation: Translation
  /** How often each id was used: a conversation can be long, and one id can stand in all of it. */
  readonly #uses = new Map<string, number>()
  readonly #ids = new Set<string>()

  constructor(translation: Translation) {
    this.#translation = translation
  }

  messages(sides: Side[]): Message[] {
    const messages: Message[] = []
    let calls: { id: string; rawRequest: string }[] = []
    for (const side of sides) {
      if (side.role === 'user') {
        messages.push({ role: 'user', content: this.#answered(side.items, calls) })
        calls = []
        continue
      }
      if (calls.length > 0) messages.push({ role: 'user', content: this.#answered([], calls) })
      calls = side.items
        .filter(({ calls: id }) => id !== undefined)
        .map(({ calls: id }) => ({ id: id!, rawRequest: this.#wireId(id!) }))
      messages.push({ role: side.role, content: this.#ordered(side.items, calls) })
    }
    if (calls.length > 0) messages.push({ role: 'user', content: this.#answered([], calls) })
    return messages
  }

  /** Text behind a call is refused: it moves before the first one. */
  #ordered(items: Item[], calls: { rawRequest: string }[]): Block[] {
    const first = items.findIndex((item) => item.calls !== undefined)
    if (first < 0) return items.map(({ block }) => block)
    const late = new Set(items.filter((item, index) => index > first && item.block.type === 'text'))
    if (late.size > 0)
      this.#translation.lose(
        'todo_approximated',
        this.#translation.setting('conversation'),
        'text behind a tool call is sent before it',
      )
    let next = 0
    const renamed = ({ block, calls: id }: Item): Block =>
      id === undefined ? block : { ...block, id: calls[next++]!.rawRequest }
    return [...items.slice(0, first), ...late, ...items.slice(first).filter((item) => !late.has(item))].map(renamed)
  }

  /**
   * All results first, in the order of the calls; a call without one gets an error, a result without a call becomes
   * text.
   */
  #answered(items: Item[], calls: { id: string; rawRequest: string }[]): Block[] {
    const waiting = Map.groupBy(
      items.filter((item) => item.answers !== undefined),
      (item) => item.answers!,
    )
    for (const queue of waiting.values()) queue.reverse()
    const used = new Set<Item>()
    const results = calls.map(({ id, rawRequest }): Block => {
      const item = waiting.get(id)?.pop()
      if (item !== undefined) {
        used.add(item)
        return { ...item.block, tool_use_id: rawRequest }
      }
      this.#translation.lose(
        'todo_approximated',
        this.#translation.setting('conversation') /* call of id */,
        'a tool call without a result is answered with an error',
      )
      return {
        type: 'tool_result',
        tool_use_id: rawRequest,
        content: [{ type: 'text', text: 'No result was given for this call.' }],
        is_error: true,
      }
    })
    return [
      ...results,
      ...items
        .filter((item) => !used.has(item))
        .flatMap((item) => (item.answers === undefined ? [item.block] : this.#orphan(item))),
    ]
  }

  #orphan({ block, answers }: Item): Block[] {
    this.#translation.lose(
      'todo_approximated',
      this.#translation.setting('conversation') /* result of answers */,
      'a tool result without its call is sent as text',
    )
    const content = Array.isArray(block.content) ? (block.content as Block[]) : []
    return [{ type: 'text', text: `Result of the tool call ${answers}:` }, ...content]
  }

  /** An id within the grammar, alike for the same id, and never twice in a conversation. */
  #wireId(id: string): string {
    const base = TOOL_ID.test(id) ? id : `toolu_${shortHash(id)}`
    let uses = (this.#uses.get(base) ?? 0) + 1
    while (this.#ids.has(numbered(base, uses))) uses++
    this.#uses.set(base, uses)
    const rawRequest = numbered(base, uses)
    this.#ids.add(rawRequest)
    return rawRequest
  }
}

const numbered = (id: string, use: number): string => (use === 1 ? id : `${id}_${use}`)

/**
 * The beginning of an answer that the model is to continue: Anthropic refuses space at its end, and newer models refuse
 * it altogether.
 */
function writePrefill(messages: Message[], { capabilities }: Target, translation: Translation): void {
  const message = messages.at(-1)!
  if (message.role !== 'assistant') return
  if (capabilities.prefill === false) {
    translation.lose(
      'todo_approximated',
      translation.setting('conversation'),
      'the model continues no answer: the user asks it to',
    )
    messages.push({ role: 'user', content: [{ type: 'text', text: '(Continue your last answer where it ends.)' }] })
    return
  }
  const last = message.content.at(-1)
  if (last?.type !== 'text') return
  const text = String(last.text)
  if (text.trimEnd() === text) return
  translation.lose(
    'todo_approximated',
    translation.setting('conversation'),
    'space at the end of the answer to be continued is cut',
  )
  message.content[message.content.length - 1] = { ...last, text: text.trimEnd() }
}

/**
 * Whether a model with a thinking budget takes the conversation: the turn it continues has to begin with its thinking.
 */
export function mayThink(messages: Message[]): boolean {
  const last = messages.at(-1)
  if (last?.role === 'assistant') return false
  if (last?.content[0]?.type !== 'tool_result') return true
  const first = messages.at(-2)?.content[0]?.type
  return first === 'thinking' || first === 'redacted_thinking'
}
