import { type Listed, LinkedSet } from '../collections/linked-set.ts'
import { type LongArray, longArrays, ScanMemory } from '../json/scan-memory.ts'
import { remember } from './element-memory.ts'
import type { ScannedBody } from './protocol.ts'

/**
 * Memory of an array besides its bytes, measured: its values, the turns that were read of them, and the items that were
 * written for one target, with their text. `byte`: for each of its bytes; `value`, `part`: for each of those in it.
 */
const WEIGHT = { byte: 2.4, value: 140, part: 250 }

/** A body of at most so many times the bytes of an array is kept for it: a copy would cost each turn more. */
const MOST_OTHERS = 4

/** Keys of arrays that came once: about a hundred bytes each. */
const MOST_SEEN = 4096

/** Elements at the start of an array by which a conversation is recognised: instructions, and the first message. */
const KEY_ELEMENTS = 2

/** The array that does not grow, and is the same in many conversations: all of it is its key. */
const WHOLE = 'tools'

type KnownArray = Listed & { key: string; bytes: Buffer; spans: Uint32Array; values: unknown[]; weight: number }
type FoundArray = { member: LongArray; key: string; known: KnownArray | undefined }

/**
 * Remembers conversations that came more than once, because agents send a growing conversation again with every turn.
 * Only elements with the same bytes as before are reused, and only for the same account.
 */
export class ConversationMemory {
  readonly #limitBytes: number
  /** By account, name and hashes. */
  readonly #known = new Map<string, KnownArray>()
  /** The array used last is at the end. */
  readonly #used = new LinkedSet<KnownArray>()
  /** Keys of arrays that came once. */
  readonly #seen = new Set<string>()
  #bytes = 0

  /** The scans of bodies, with their bytes. */
  readonly scans: ScanMemory

  /** `limitBytes`: of all remembered conversations together; a quarter of it more is for their bytes. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
    this.scans = new ScanMemory(limitBytes / 4)
  }

  /** Memory that the conversations take, estimated. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * The value of a body, equal to that of JSON.parse. Elements of long arrays may be shared with other requests and
   * must not be changed.
   */
  parse(accountId: string, scanned: ScannedBody): Record<string, unknown> {
    const { bytes } = scanned
    const again = this.#find(accountId, scanned).filter(
      ({ key, known }) => known !== undefined || this.#comesAgain(key),
    )
    if (again.length === 0) return JSON.parse(bytes.toString()) as Record<string, unknown>
    const emptied = withEmptied(
      bytes,
      again.map(({ member }) => member),
    )
    const body = JSON.parse(emptied) as Record<string, unknown>
    for (const { member, key, known } of again) {
      const values = elementsOf(bytes, member, known)
      remember(values, known?.values)
      this.#remember(known?.values === values ? known : knownArray(key, scanned, member, values))
      body[member.name] = values
    }
    return body
  }

  /**
   * The number of bytes of a body besides elements that are remembered, and arrays that `parse` would remember because
   * they have come before. Arrays that come for the first time are noted as in `parse`.
   */
  newBytes(accountId: string, scanned: ScannedBody): number {
    const { bytes } = scanned
    let count = bytes.length
    for (const { member, key, known } of this.#find(accountId, scanned)) {
      const { spans } = member
      if (known === undefined && !this.#seen.has(key)) this.#note(key)
      else {
        const same = known === undefined ? spans.length / 2 : sharedElements(bytes, spans, known.bytes, known.spans)
        if (same > 0) count -= spans[2 * same - 1]! - spans[0]!
      }
    }
    return count
  }

  /** The long arrays of a body, with what is remembered of them. */
  #find(accountId: string, { bytes, scan }: ScannedBody): FoundArray[] {
    const long = longArrays(scan)
    const hashes = hashesOf(bytes, long)
    return long.map((member) => {
      const key = `${accountId} ${member.name} ${member.name === WHOLE ? hashOf(bytes, member) : hashes}`
      return { member, key, known: this.#known.get(key) }
    })
  }

  /** Reports whether an array has come before; only then is it worth remembering. */
  #comesAgain(key: string): boolean {
    if (this.#seen.delete(key)) return true
    this.#note(key)
    return false
  }

  #note(key: string): void {
    this.#seen.add(key)
    if (this.#seen.size > MOST_SEEN) this.#seen.delete(this.#seen.keys().next().value!)
  }

  /** A key that goes on is not deleted in between: see `LinkedSet`. */
  #remember(array: KnownArray): void {
    const before = this.#known.get(array.key)
    if (before !== undefined) this.#remove(before)
    this.#known.set(array.key, array)
    this.#used.add(array)
    this.#bytes += array.weight
    while (this.#bytes > this.#limitBytes) {
      const oldest = this.#used.first!
      this.#remove(oldest)
      this.#known.delete(oldest.key)
    }
  }

  #remove(array: KnownArray): void {
    this.#used.delete(array)
    this.#bytes -= array.weight
  }
}

// Bytes are compared before anything is shared, so that a collision only costs an array its memory.
const hashOf = (bytes: Buffer, { spans }: LongArray, elements = spans.length / 2): number =>
  Bun.hash.xxHash32(bytes.subarray(spans[0], spans[2 * Math.min(elements, spans.length / 2) - 1]))

/** The key of a conversation: how each of its arrays begins. */
const hashesOf = (bytes: Buffer, long: readonly LongArray[]): string =>
  long.map((member) => hashOf(bytes, member, KEY_ELEMENTS)).join(' ')

/** An array to remember, with the bytes of its body, or a copy of its own where those are many more. */
function knownArray(
  key: string,
  { bytes, scan }: ScannedBody,
  { start, end, spans }: LongArray,
  values: unknown[],
): KnownArray {
  const length = end - start
  const share = length / bytes.length
  const made = length * WEIGHT.byte + share * (scan.elements * WEIGHT.value + scan.parts * WEIGHT.part)
  if (bytes.length <= MOST_OTHERS * length) return { key, bytes, spans, values, weight: bytes.length + made }
  const own = Buffer.from(bytes.subarray(start, end))
  return { key, bytes: own, spans: spans.map((at) => at - start), values, weight: length + made }
}

/** The text of the body, with these arrays empty. */
function withEmptied(bytes: Buffer, long: readonly LongArray[]): string {
  let text = ''
  let from = 0
  for (const { start, end } of long) {
    text += bytes.toString('utf8', from, start) + '[]'
    from = end
  }
  return text + bytes.toString('utf8', from)
}

/** The elements of an array: those that the known one begins with, too, and the others parsed. */
function elementsOf(bytes: Buffer, { spans, end }: LongArray, known: KnownArray | undefined): unknown[] {
  const shared = known === undefined ? 0 : sharedElements(bytes, spans, known.bytes, known.spans)
  if (shared === spans.length / 2 && shared === known!.values.length) return known!.values
  const parsed =
    shared === spans.length / 2 ? [] : (JSON.parse(`[${bytes.toString('utf8', spans[2 * shared], end)}`) as unknown[])
  return shared === 0 ? parsed : [...known!.values.slice(0, shared), ...parsed]
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
