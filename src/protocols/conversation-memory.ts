import type { BodyMember } from '../json/body-scan.ts'
import { remember } from './element-memory.ts'
import type { ScannedBody } from './protocol.ts'

/** Memory of a conversation for each of its bytes, measured: the bytes, their values, and what was made of them. */
const WEIGHT = 12

/** Keys of conversations that came once: about a hundred bytes each. */
const MOST_SEEN = 4096

/** Elements at the start of an array by which a conversation is recognised: instructions, and the first message. */
const KEY_ELEMENTS = 2

type LongMember = BodyMember & { spans: Uint32Array }
type KnownArray = { spans: Uint32Array; values: unknown[] }
type KnownConversation = { bytes: Buffer; arrays: ReadonlyMap<string, KnownArray>; weight: number }

/**
 * Remembers conversations that came more than once, because agents send a growing conversation again with every turn.
 * Only elements with the same bytes as before are reused, and only for the same account.
 */
export class ConversationMemory {
  readonly #limitBytes: number
  /** By account and first elements; the conversation used last is at the end. */
  readonly #known = new Map<string, KnownConversation>()
  /** Keys of conversations that came once. */
  readonly #seen = new Set<string>()
  #bytes = 0

  /** `limitBytes`: of all remembered conversations together. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Memory that the conversations take, estimated. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * The value of a body, equal to that of JSON.parse. Elements of long arrays may be shared with other requests and
   * must not be changed.
   */
  parse(accountId: string, { bytes, scan }: ScannedBody): Record<string, unknown> {
    const long = scan.members.filter((member): member is LongMember => member.spans !== undefined)
    if (long.length === 0) return JSON.parse(bytes.toString()) as Record<string, unknown>
    const key = keyOf(accountId, bytes, long)
    const known = this.#known.get(key)
    if (known === undefined && !this.#comesAgain(key)) return JSON.parse(bytes.toString()) as Record<string, unknown>
    const body = JSON.parse(withEmptied(bytes, long)) as Record<string, unknown>
    const arrays = new Map<string, KnownArray>()
    for (const member of long) {
      const values = elementsOf(bytes, member, known)
      remember(values)
      arrays.set(member.name, { spans: member.spans, values })
      body[member.name] = values
    }
    this.#remember(key, { bytes, arrays, weight: bytes.length * WEIGHT })
    return body
  }

  /** Reports whether a conversation has come before; only then is it worth remembering. */
  #comesAgain(key: string): boolean {
    if (this.#seen.delete(key)) return true
    this.#seen.add(key)
    if (this.#seen.size > MOST_SEEN) this.#seen.delete(this.#seen.keys().next().value!)
    return false
  }

  #remember(key: string, conversation: KnownConversation): void {
    this.#forget(key)
    if (conversation.weight > this.#limitBytes) return
    this.#known.set(key, conversation)
    this.#bytes += conversation.weight
    for (const oldest of this.#known.keys()) {
      if (this.#bytes <= this.#limitBytes) return
      this.#forget(oldest)
    }
  }

  #forget(key: string): void {
    const known = this.#known.get(key)
    if (known === undefined) return
    this.#known.delete(key)
    this.#bytes -= known.weight
  }
}

function keyOf(accountId: string, bytes: Buffer, long: readonly LongMember[]): string {
  let key = accountId
  for (const { name, spans } of long) {
    const last = Math.min(KEY_ELEMENTS, spans.length / 2) - 1
    // Bytes are compared before anything is shared, so that a collision only costs a conversation its memory.
    key += ` ${name} ${Bun.hash.xxHash32(bytes.subarray(spans[0], spans[2 * last + 1]))}`
  }
  return key
}

/** The text of the body, with its long arrays empty. */
function withEmptied(bytes: Buffer, long: readonly LongMember[]): string {
  let text = ''
  let from = 0
  for (const { start, end } of long) {
    text += bytes.toString('utf8', from, start) + '[]'
    from = end
  }
  return text + bytes.toString('utf8', from)
}

/** The elements of an array: those that the known conversation begins with, too, and the others parsed. */
function elementsOf(bytes: Buffer, member: LongMember, known: KnownConversation | undefined): unknown[] {
  const { spans, end } = member
  const before = known?.arrays.get(member.name)
  const shared = before === undefined ? 0 : sharedElements(bytes, spans, known!.bytes, before.spans)
  if (shared === spans.length / 2 && shared === before!.values.length) return before!.values
  const parsed =
    shared === spans.length / 2 ? [] : (JSON.parse(`[${bytes.toString('utf8', spans[2 * shared], end)}`) as unknown[])
  return shared === 0 ? parsed : [...before!.values.slice(0, shared), ...parsed]
}

/** The number of elements with which both arrays begin, whitespace between them included. */
function sharedElements(bytes: Buffer, spans: Uint32Array, other: Buffer, otherSpans: Uint32Array): number {
  const [start = 0, otherStart = 0] = [spans[0], otherSpans[0]]
  const isShared = (count: number): boolean => {
    const length = spans[2 * count - 1]! - start
    return (
      otherSpans[2 * count - 1]! - otherStart === length &&
      bytes.compare(other, otherStart, otherStart + length, start, start + length) === 0
    )
  }
  let [low, high] = [0, Math.min(spans.length, otherSpans.length) / 2]
  if (high > 0 && isShared(high)) return high
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (isShared(middle)) low = middle
    else high = middle
  }
  return low
}
