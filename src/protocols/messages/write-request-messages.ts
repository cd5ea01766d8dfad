import { createHash } from 'node:crypto'
import type { Part, Turn } from '../../generation/request.ts'
import { jsonInstruction } from '../json-instruction.ts'
import { rememberWritten, writeTurns } from '../pieces.ts'
import type { ToolNames } from '../tool-names.ts'
import { orderToolResults } from '../tool-results.ts'
import { BEGUN_BY_ASSISTANT, type Translation } from '../translation.ts'
import { type Block, TOOL_ID } from './shapes.ts'
import { type Item, PartWriter } from './write-request-parts.ts'

type Message = { role: 'user' | 'assistant' | 'system'; content: Block[] }

/** A message with the parts that its content was written from. */
type Written = { json: Message; first: Part; last: Part }

/** Turns of one role in a row, which become one message. */
type Side = { role: Message['role']; items: Item[] }

/**
 * The conversation as Anthropic accepts it: the user begins, roles alternate, each call is answered at the start of the
 * next message, ids match its pattern, and nothing is empty.
 */
export function writeConversation(
  names: ToolNames,
  translation: Translation,
): { system: Block[]; messages: Message[] } {
  const writer = new PartWriter(names, translation)
  const system = writeSystem(writer, translation)
  const written: Written[] = []
  let pairing: CallPairing | undefined
  writeTurns(translation, written, (turns) => {
    pairing ??= new CallPairing(written, translation)
    pairing.add(sidesOf(orderToolResults(turns, translation), writer, translation))
  })
  const messages = written.map(({ json }) => json)
  const [first] = written
  const last = written.at(-1)
  if (first === undefined || last === undefined) {
    if (system.length === 0) throw translation.emptyConversation()
    translation.lose(
      'instructions_moved',
      translation.setting('system'),
      'the provider requires a message: the instructions are sent as one',
    )
    return { system: [], messages: [{ role: 'user', content: system }] }
  }
  const isBegun = first.json.role === 'assistant'
  if (isBegun) {
    translation.lose('turn_added', translation.at(first.first), 'the provider requires that the user begins')
    messages.unshift(userMessage(BEGUN_BY_ASSISTANT))
  }
  writePrefill(messages, last.last, translation)
  return { system, messages: rememberWritten(translation, messages, isBegun ? 1 : 0) }
}

const userMessage = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }] })

function writeSystem(writer: PartWriter, translation: Translation): Block[] {
  const { system, outputFormat } = translation.request
  // Objects are closed in this protocol, so that no schema allows any JSON object.
  const isDescribed = outputFormat?.type === 'json'
  if (isDescribed)
    translation.lose(
      'format_described',
      translation.setting('outputFormat'),
      'the provider enforces JSON only with a schema: the prompt asks for it',
    )
  return writer.items(isDescribed ? [...system, jsonInstruction()] : system, 'user').flatMap(({ block, part }) => {
    if (block.type === 'text') return [block]
    translation.lose('content_dropped', translation.at(part), 'instructions can contain only text')
    return []
  })
}

function sidesOf(turns: Turn[], writer: PartWriter, translation: Translation): Side[] {
  const { systemTurns } = translation.target.capabilities
  const sides: Side[] = []
  for (const turn of turns) {
    const instructs = turn.role === 'system' || turn.role === 'developer'
    const last = sides.at(-1)
    // The results of a call come right after it, so that instructions cannot be in between.
    const followsCall = last?.role === 'assistant' && last.items.some(({ callId }) => callId !== undefined)
    const role =
      turn.role === 'assistant' ? 'assistant' : instructs && systemTurns === true && !followsCall ? 'system' : 'user'
    if (turn.name !== undefined && turn.role !== 'tool')
      translation.lose('unsupported_field', translation.at(turn, 'name'))
    const items = writer.items(turn.parts, role === 'assistant' ? 'assistant' : 'user')
    addSide(sides, { role, items: instructs && role === 'user' ? asUserText(items, translation) : items })
  }
  return sides.reduce<Side[]>((kept, side) => addSide(kept, withoutLastReasoning(side, translation)), [])
}

/** Anthropic refuses a message that ends with reasoning: a response that was cut there, or whose calls were removed. */
function withoutLastReasoning({ role, items }: Side, translation: Translation): Side {
  if (role !== 'assistant') return { role, items }
  const isReasoning = ({ block }: Item): boolean => block.type === 'thinking' || block.type === 'redacted_thinking'
  const end = items.findLastIndex((item) => !isReasoning(item)) + 1
  for (const { part } of items.slice(end))
    translation.lose('reasoning_dropped', translation.at(part), 'no content follows it')
  return { role, items: items.slice(0, end) }
}

/** Appends to the last side where that is of the same role; an empty side is left out. */
function addSide(sides: Side[], { role, items }: Side): Side[] {
  const last = sides.at(-1)
  if (last?.role === role) for (const item of items) last.items.push(item)
  else if (items.length > 0) sides.push({ role, items })
  return sides
}

/** Instructions inside the conversation keep their position: at its top they would change the cached prefix. */
const asUserText = (items: Item[], translation: Translation): Item[] =>
  items.map((item) => {
    if (item.block.type !== 'text') return item
    translation.lose('instructions_moved', translation.at(item.part))
    return { ...item, block: { ...item.block, text: `<system>\n${String(item.block.text)}\n</system>` } }
  })

/** A tool call of the conversation and the id that the provider is sent. */
type Call = { item: Item; sentId: string }

/** Puts each tool result first in the message after its call, and gives every call an id of its own. */
class CallPairing {
  readonly #translation: Translation
  readonly #messages: Written[]
  /** The number of uses of each id: a long conversation may use one id everywhere. */
  readonly #uses = new Map<string, number>()
  readonly #sentIds = new Set<string>()

  constructor(messages: Written[], translation: Translation) {
    this.#messages = messages
    this.#translation = translation
    for (const { json } of messages)
      for (const block of json.content) if (block.type === 'tool_use') this.#sentIds.add(block.id as string)
  }

  add(sides: readonly Side[]): void {
    let calls: Call[] = []
    for (const { role, items } of sides) {
      if (role === 'user') {
        this.#push(role, this.#withResults(items, calls), items)
        calls = []
        continue
      }
      if (calls.length > 0) this.#addMissing(calls)
      calls = items.flatMap((item) =>
        item.callId === undefined ? [] : [{ item, sentId: this.#uniqueId(item.callId) }],
      )
      this.#push(role, this.#withCalls(items, calls), items)
    }
    if (calls.length > 0) this.#addMissing(calls)
  }

  #addMissing(calls: readonly Call[]): void {
    this.#push(
      'user',
      this.#withResults([], calls),
      calls.map(({ item }) => item),
    )
  }

  #push(role: Message['role'], content: Block[], items: readonly Item[]): void {
    this.#messages.push({ json: { role, content }, first: items[0]!.part, last: items.at(-1)!.part })
  }

  /** Anthropic refuses text after a call: it moves before the first one. */
  #withCalls(items: readonly Item[], calls: readonly Call[]): Block[] {
    const first = items.findIndex(({ callId }) => callId !== undefined)
    if (first < 0) return items.map(({ block }) => block)
    const late = new Set(items.filter(({ block }, index) => index > first && block.type === 'text'))
    for (const { part } of late)
      this.#translation.lose(
        'turn_reordered',
        this.#translation.at(part),
        'the provider requires text before the tool calls',
      )
    const sentIds = new Map(calls.map(({ item, sentId }) => [item, sentId]))
    const ordered = [...items.slice(0, first), ...late, ...items.slice(first).filter((item) => !late.has(item))]
    return ordered.map((item) => (sentIds.has(item) ? { ...item.block, id: sentIds.get(item) } : item.block))
  }

  /** The results in the order of the calls, then the other items. */
  #withResults(items: readonly Item[], calls: readonly Call[]): Block[] {
    const waiting = Map.groupBy(
      items.filter(({ resultOf }) => resultOf !== undefined),
      ({ resultOf }) => resultOf!,
    )
    for (const queue of waiting.values()) queue.reverse()
    const used = new Set<Item>()
    const results = calls.map(({ item, sentId }): Block => {
      const result = waiting.get(item.callId!)?.pop()
      if (result === undefined) return this.#missingResult(item, sentId)
      used.add(result)
      return { ...result.block, tool_use_id: sentId }
    })
    const others = items
      .filter((item) => !used.has(item))
      .flatMap((item) => (item.resultOf === undefined ? [item.block] : this.#asText(item)))
    return [...results, ...others]
  }

  #missingResult({ part }: Item, sentId: string): Block {
    this.#translation.lose(
      'result_added',
      this.#translation.at(part),
      'the provider requires a result for each tool call: an error is sent',
    )
    return {
      type: 'tool_result',
      tool_use_id: sentId,
      content: [{ type: 'text', text: 'No result was given for this call.' }],
      is_error: true,
    }
  }

  #asText({ block, part, resultOf }: Item): Block[] {
    this.#translation.lose('content_as_text', this.#translation.at(part), 'its tool call is missing: sent as text')
    const content = Array.isArray(block.content) ? (block.content as Block[]) : []
    return [{ type: 'text', text: `Result of the tool call ${resultOf}:` }, ...content]
  }

  /** An id that matches the pattern; the first use of an id is the same in every request, and no id is sent twice. */
  #uniqueId(id: string): string {
    const base = TOOL_ID.test(id) ? id : `toolu_${createHash('sha256').update(id).digest('hex').slice(0, 12)}`
    const numbered = (use: number): string => (use === 1 ? base : `${base}_${use}`)
    let uses = (this.#uses.get(base) ?? 0) + 1
    while (this.#sentIds.has(numbered(uses))) uses++
    this.#uses.set(base, uses)
    this.#sentIds.add(numbered(uses))
    return numbered(uses)
  }
}

/**
 * The beginning of a response that the model is to continue: Anthropic refuses whitespace at its end, and newer models
 * refuse it altogether. `part`: the last one of the conversation.
 */
function writePrefill(messages: Message[], part: Part, translation: Translation): void {
  const { role, content } = messages.at(-1)!
  if (role !== 'assistant') return
  if (translation.target.capabilities.prefill === false) {
    translation.lose('prefill_unsupported', translation.at(part), 'the user asks the model to continue it')
    messages.push(userMessage('(Continue your last answer where it ends.)'))
    return
  }
  const last = content.at(-1)!
  const text = last.type === 'text' ? String(last.text) : ''
  if (text.trimEnd() === text) return
  translation.lose('value_adjusted', translation.at(part), 'whitespace at the end of a begun response is removed')
  messages[messages.length - 1] = { role, content: content.with(-1, { ...last, text: text.trimEnd() }) }
}

/** Reasoning with a budget is possible: the turn to be continued begins with reasoning, or with the user. */
export function allowsThinking(messages: readonly Message[]): boolean {
  const last = messages.at(-1)
  if (last?.role === 'assistant') return false
  if (last?.content[0]?.type !== 'tool_result') return true
  const first = messages.at(-2)?.content[0]?.type
  return first === 'thinking' || first === 'redacted_thinking'
}
