import { tryParse, stringOf, objectOf } from '../../json/parse.ts'
import type { Json } from './shapes.ts'

/** Writes a frame of a type. */
type Emit = (type: string, fields: Json) => void

/** An item that was added. Item and parts are JSON texts; `part`: the one that is open, with its index. */
type OpenItem = { item: string; parts: string[]; part?: { index: number; text: string } | undefined }

/** The items of a response that were passed on and have not ended, so that it can be ended early. */
export class OpenItems {
  readonly #items = new Map<number, OpenItem>()
  /** The text of the open part, or the arguments of the open call. */
  #text = ''

  append(text: string): void {
    this.#text += text
  }

  /** A frame about an item or a part. `index`: of the item; `value`: the item or the part. */
  record(type: string, index: number, value: string | undefined): void {
    if (value === undefined) return
    const open = this.#items.get(index)
    switch (type) {
      case 'response.output_item.added':
        this.#items.set(index, { item: value, parts: [] })
        break
      case 'response.output_item.done':
        this.#items.delete(index)
        break
      case 'response.content_part.added':
      case 'response.reasoning_summary_part.added':
        if (open !== undefined) open.part = { index: open.parts.length, text: value }
        break
      case 'response.content_part.done':
      case 'response.reasoning_summary_part.done':
        open?.parts.push(value)
        if (open !== undefined) open.part = undefined
        break
      default:
        return
    }
    this.#text = ''
  }

  /** Ends all items as a provider does at the output limit. Gives each with its index. */
  end(emit: Emit): [index: number, item: Json][] {
    return [...this.#items].map(([index, open]) => {
      const item = objectOf(tryParse(open.item))
      const position = { item_id: item.id, output_index: index }
      const ended = { ...item, ...this.#contentOf(item, open, position, emit), ...statusOf(item) }
      emit('response.output_item.done', { output_index: index, item: ended })
      return [index, ended]
    })
  }

  /** The members of an item in which it differs from the one that was added. */
  #contentOf(item: Json, open: OpenItem, position: Json, emit: Emit): Json {
    const text = this.#text
    switch (item.type) {
      case 'function_call':
        emit('response.function_call_arguments.done', { ...position, name: item.name, arguments: text })
        return { arguments: text }
      case 'custom_tool_call':
        emit('response.custom_tool_call_input.done', { ...position, input: text })
        return { input: text }
      case 'message':
      case 'reasoning':
        return this.#partsOf(item, open, position, emit)
      default:
        return {}
    }
  }

  #partsOf(item: Json, { parts, part: last }: OpenItem, position: Json, emit: Emit): Json {
    const ended = parts.map((part) => objectOf(tryParse(part)))
    if (last === undefined) return ended.length === 0 ? {} : { [memberOf(ended[0]!)]: ended }
    const begun = objectOf(tryParse(last.text))
    const isSummary = memberOf(begun) === 'summary'
    const isRefusal = begun.type === 'refusal'
    const at = { ...position, [isSummary ? 'summary_index' : 'content_index']: last.index }
    const part = { ...begun, [isRefusal ? 'refusal' : 'text']: this.#text }
    if (isRefusal) emit('response.refusal.done', { ...at, refusal: this.#text })
    else
      emit(`response.${TEXT_NAMES[stringOf(begun.type)] ?? 'output_text'}.done`, {
        ...at,
        text: this.#text,
        ...(item.type === 'message' ? { logprobs: [] } : {}),
      })
    emit(`response.${isSummary ? 'reasoning_summary' : 'content'}_part.done`, { ...at, part })
    return { [memberOf(begun)]: [...ended, part] }
  }
}

/** The names of text parts in the types of frames. */
const TEXT_NAMES: Record<string, string> = { summary_text: 'reasoning_summary_text', reasoning_text: 'reasoning_text' }

/** The member of an item that has such parts. */
const memberOf = ({ type }: Json): string => (type === 'summary_text' ? 'summary' : 'content')

/** Reasoning has no status at OpenAI. */
const statusOf = ({ status }: Json): Json => (status === undefined ? {} : { status: 'incomplete' })
