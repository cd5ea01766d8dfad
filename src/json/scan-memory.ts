import { type Listed, LinkedSet } from '../collections/linked-set.ts'
import {
  type BodyMember,
  type BodyScan,
  LONG_ARRAY_BYTES,
  MAX_SPANS,
  scanBody,
  scanShort,
  SHARED_BYTES,
} from './body-scan.ts'
import { type BodyLimits, excess } from './weight.ts'

/** Shorter bodies are scanned almost as fast as they are found. Those that are scanned in slices are not remembered. */
const LEAST_BYTES = 16 * 1024

/** The bytes by which bodies are found, and how many that begin with the same ones are compared. */
const KEY_BYTES = 512
const MOST_ALIKE = 16

/** Keys of bodies that came once. */
const MOST_SEEN = 4096

/** A conversation has fewer long arrays, with shorter names. Each is compared and hashed, and its name may be kept. */
const MOST_ARRAYS = 8
const LONGEST_NAME = 64

export type LongArray = BodyMember & { spans: Uint32Array }
type Known = Listed & { key: string; bytes: Buffer; scan: BodyScan; depth: number; arrays: readonly LongArray[] }
/** A known body, and the array whose elements a later body has with others behind them. */
type Beginning = { known: Known; array: LongArray }

/** Values in the text that is scanned for the new elements, beside these: the object, the array, its first element. */
const FRAME_VALUES = 3

/**
 * Remembers scans of bodies that grow, as those of agents do with every turn. A body that differs from a known one only
 * by elements added to a long array is not scanned again: the new elements are, and their counts are added. The
 * result is always that of `scanBody`.
 */
export class ScanMemory {
  readonly #limitBytes: number
  readonly #byKey = new Map<string, Known[]>()
  /** The one used last is at the end. */
  readonly #known = new LinkedSet<Known>()
  readonly #seen = new Set<string>()
  #bytes = 0

  /** `limitBytes`: of all remembered bodies together. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Memory that the bodies take. */
  get bytes(): number {
    return this.#bytes
  }

  /** `scanBody` for a body of this owner, whose bytes must not be changed later. */
  scan(owner: string, bytes: Buffer, limits: BodyLimits): ReturnType<typeof scanBody> {
    if (bytes.length < LEAST_BYTES || bytes.length > SHARED_BYTES) return scanBody(bytes, limits)
    const key = `${owner} ${Bun.hash.xxHash32(bytes.subarray(0, KEY_BYTES))}`
    const beginning = this.#beginningOf(key, bytes, limits.depth)
    const grown = beginning === undefined ? undefined : scanGrown(beginning, bytes, limits)
    const scan = grown ?? scanShort(bytes, limits)
    if (typeof scan !== 'object') return scan
    if (beginning !== undefined || this.#comesAgain(key)) {
      const arrays = longArrays(scan)
      this.#remember({ key, bytes, scan, depth: limits.depth, arrays }, beginning?.known)
    }
    return scan
  }

  #beginningOf(key: string, bytes: Buffer, depth: number): Beginning | undefined {
    for (const known of this.#byKey.get(key) ?? [])
      if (known.depth === depth)
        for (const array of known.arrays) if (isGrown(known.bytes, array, bytes)) return { known, array }
    return undefined
  }

  /** One that comes once would only cost. */
  #comesAgain(key: string): boolean {
    if (this.#seen.has(key)) return true
    this.#seen.add(key)
    if (this.#seen.size > MOST_SEEN) this.#seen.delete(this.#seen.values().next().value!)
    return false
  }

  /** `before`: what it grew from, which is forgotten. */
  #remember(known: Known, before: Known | undefined): void {
    const { key, bytes, arrays } = known
    const others = (this.#byKey.get(key) ?? []).filter((one) => one !== before)
    if (before !== undefined) this.#remove(before)
    if (arrays.length > 0 && bytes.length <= this.#limitBytes) {
      if (others.length === MOST_ALIKE) this.#remove(others.shift()!)
      others.push(known)
      this.#known.add(known)
      this.#bytes += bytes.length
    }
    this.#keep(key, others)
    while (this.#bytes > this.#limitBytes) this.#forget(this.#known.first!)
  }

  #forget(known: Known): void {
    this.#remove(known)
    this.#keep(
      known.key,
      this.#byKey.get(known.key)!.filter((one) => one !== known),
    )
  }

  #remove(known: Known): void {
    this.#known.delete(known)
    this.#bytes -= known.bytes.length
  }

  /** A key that goes on is not deleted in between: see `LinkedSet`. */
  #keep(key: string, alike: Known[]): void {
    if (alike.length > 0) this.#byKey.set(key, alike)
    else this.#byKey.delete(key)
  }
}

/** The long arrays of a conversation; none of a body that has too many for one. */
export function longArrays({ members }: BodyScan): LongArray[] {
  const long = members.filter(isLong)
  return long.length > MOST_ARRAYS ? [] : long
}

const isLong = (member: BodyMember): member is LongArray =>
  member.spans !== undefined && member.name.length <= LONGEST_NAME

const lengthOf = ({ start, end }: BodyMember): number => end - start

/** Reports whether a body has all bytes of a known one, and others only behind the last element of this array of it. */
function isGrown(known: Buffer, { spans, end }: LongArray, bytes: Buffer): boolean {
  const elementsEnd = spans.at(-1)!
  const behind = known.length - end
  return (
    bytes.length - behind > elementsEnd &&
    bytes.compare(known, 0, elementsEnd, 0, elementsEnd) === 0 &&
    bytes.compare(known, end, known.length, bytes.length - behind) === 0
  )
}

/** Undefined where the whole body has to be scanned. */
function scanGrown({ known, array }: Beginning, bytes: Buffer, limits: BodyLimits): BodyScan | undefined {
  const { scan } = known
  const elementsEnd = array.spans.at(-1)!
  const moved = bytes.length - known.bytes.length
  // An empty text in place of the elements before: nothing that follows it can be a part of it.
  const begin = `{"${array.name}":[""`
  const middle = bytes.subarray(elementsEnd, array.end + moved)
  const added = scanShort(Buffer.concat([Buffer.from(begin), middle, CLOSE]), limits, 0)
  // The array may end in the middle, where other members follow it.
  if (typeof added !== 'object' || added.members.length !== 1) return undefined
  const more = added.members[0]!
  if (more.spans === undefined) return undefined
  const spans = joinSpans(array.spans, more.spans.subarray(2), elementsEnd - Buffer.byteLength(begin))
  const grown = addScans(scan, added)
  grown.members = scan.members.map((member) =>
    member === array
      ? {
          ...member,
          end: member.end + moved,
          elements: member.elements + more.elements - 1,
          spans,
        }
      : member.start > array.start
        ? movedBy(member, moved)
        : member,
  )
  const hasAllSpans = grown.members.reduce((sum, { first, elements }) => sum + (first === '[' ? elements : 0), 0)
  const isLong = lengthOf(array) + moved >= LONG_ARRAY_BYTES
  return hasAllSpans <= MAX_SPANS && isLong && excess(grown, limits) === undefined ? grown : undefined
}

const CLOSE = Buffer.from('}')

function addScans(one: BodyScan, other: BodyScan): BodyScan & { members: BodyMember[] } {
  return {
    members: [],
    elements: one.elements + other.elements - FRAME_VALUES,
    parts: one.parts + other.parts,
    tools: one.tools + other.tools,
    widest: Math.max(one.widest, other.widest),
    embedded: one.embedded + other.embedded,
    seen: (one.seen | other.seen) >>> 0,
    seenInTools: (one.seenInTools | other.seenInTools) >>> 0,
    values: (one.values | other.values) >>> 0,
  }
}

function joinSpans(spans: Uint32Array, more: Uint32Array, offset: number): Uint32Array {
  const joined = new Uint32Array(spans.length + more.length)
  joined.set(spans)
  for (let i = 0; i < more.length; i++) joined[spans.length + i] = more[i]! + offset
  return joined
}

function movedBy(member: BodyMember, moved: number): BodyMember {
  const { nameAt, start, end, spans } = member
  return {
    ...member,
    nameAt: nameAt + moved,
    start: start + moved,
    end: end + moved,
    ...(spans === undefined ? {} : { spans: spans.map((at) => at + moved) }),
  }
}
