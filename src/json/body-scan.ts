import { exclusiveTurn } from './exclusive-turn.ts'
import { BINARY } from './body-scan.wasm.ts'
import { type BodyLimits, excess } from './weight.ts'

/** A member of the outermost object. `nameAt`: offset of the name's quote; `start` to `end`: the bytes of its value. */
export type BodyMember = {
  name: string
  nameAt: number
  start: number
  end: number
  /** Number of elements or members of the value. */
  elements: number
  /** Start and end of each element of a long array, in pairs; absent for one with very many elements. */
  spans?: Uint32Array
  /** First character of the value: `[`, `{`, `"`, ... */
  first: string
}

/** The findings of one pass over the bytes of a JSON object. */
export type BodyScan = {
  /** Members of the outermost object, in their order; no name is there twice. */
  members: readonly BodyMember[]
  /** Number of values in it, containers included. */
  elements: number
  /** See `BodyWeight`. */
  parts: number
  tools: number
  widest: number
  /** Commas in texts that begin like an object: the values in the arguments of calls, and in JSON results of tools. */
  embedded: number
  /** Watched names seen outside `tools`. */
  seen: number
  /** Watched names seen in the objects of `tools`, above their schemas. */
  seenInTools: number
  /** Watched texts that are the value of `type` in a tool, or of `ttl`. */
  values: number
}

type Scanned = BodyScan | string | undefined

/** Bits for groups of watched names, and of values of `type` and `ttl`. The first three are known to the scan, too. */
export const Watched = {
  tools: 1 << 0,
  type: 1 << 1,
  ttl: 1 << 2,
  function: 1 << 3,
  custom: 1 << 4,
  oneHour: 1 << 5,
  cacheControl: 1 << 6,
  media: 1 << 7,
  fileId: 1 << 8,
  /** Signatures and other opaque data that an issuer gave. */
  signature: 1 << 9,
  functionCall: 1 << 10,
  functionDeclarations: 1 << 11,
  /** A number of at least 16 characters, which a double may round. */
  longNumber: 1 << 30,
  /** A tool has another name, or another type, than the watched ones. */
  other: 1 << 31,
} as const

const NAMES: Readonly<Record<string, number>> = {
  tools: Watched.tools,
  type: Watched.type,
  ttl: Watched.ttl,
  function: Watched.function,
  custom: Watched.custom,
  '1h': Watched.oneHour,
  cache_control: Watched.cacheControl,
  image_url: Watched.media,
  video_url: Watched.media,
  input_audio: Watched.media,
  file: Watched.media,
  images: Watched.media,
  source: Watched.media,
  inlineData: Watched.media,
  inline_data: Watched.media,
  fileData: Watched.media,
  file_data: Watched.media,
  file_id: Watched.fileId,
  audio: Watched.fileId,
  signature: Watched.signature,
  data: Watched.signature,
  encrypted_index: Watched.signature,
  reasoning_details: Watched.signature,
  extra_content: Watched.signature,
  thoughtSignature: Watched.signature,
  thought_signature: Watched.signature,
  functionCall: Watched.functionCall,
  function_call: Watched.functionCall,
  functionDeclarations: Watched.functionDeclarations,
  function_declarations: Watched.functionDeclarations,
}

/** Results of the compiled scan. */
const DONE = 0
const MORE = 1

/** Arrays from this size on have their spans, if all arrays together have at most so many elements. */
export const LONG_ARRAY_BYTES = 4096
export const MAX_SPANS = 8192

/** Zero bytes that the scan needs behind the body. */
const PADDING = 8
const PAGE = 64 * 1024

type Exports = {
  memory: WebAssembly.Memory
  bodyAt(): number
  membersAt(): number
  spansAt(): number
  watch(length: number, bit: number): void
  begin(length: number, maxDepth: number): void
  scan(slice: number): number
}

const compiled = new WebAssembly.Module(Buffer.from(BINARY, 'base64'))

/** One instance of the compiled scan, with memory for bodies up to `maxBytes`. */
class Scanner {
  readonly #exports: Exports
  readonly #memory: Uint8Array
  readonly #numbers: Uint32Array
  readonly #bodyAt: number
  readonly #membersAt: number
  readonly #spansAt: number

  constructor(maxBytes: number) {
    this.#exports = new WebAssembly.Instance(compiled).exports as Exports
    const { memory } = this.#exports
    this.#bodyAt = this.#exports.bodyAt()
    this.#membersAt = this.#exports.membersAt() / 4
    this.#spansAt = this.#exports.spansAt() / 4
    memory.grow(Math.max(0, Math.ceil((this.#bodyAt + maxBytes + PADDING - memory.buffer.byteLength) / PAGE)))
    this.#memory = new Uint8Array(memory.buffer)
    this.#numbers = new Uint32Array(memory.buffer)
    for (const name in NAMES) {
      this.#memory.set(Buffer.from(name), this.#bodyAt)
      this.#exports.watch(name.length, NAMES[name]!)
    }
  }

  /** Takes a part of a body. */
  copy(bytes: Uint8Array, from: number, to: number): void {
    this.#memory.set(bytes.subarray(from, to), this.#bodyAt + from)
  }

  /** Begins the scan of a body that was copied. */
  begin(length: number, maxDepth: number): void {
    const end = this.#bodyAt + length
    this.#memory.fill(0, end, end + PADDING)
    this.#exports.begin(length, maxDepth)
  }

  /** Scans about this many bytes more; true where that was not all. */
  step(slice: number): boolean {
    this.#verdict = this.#exports.scan(slice)
    return this.#verdict === MORE
  }

  #verdict = MORE

  /** A text: what is wrong. Undefined where the body could not be judged. */
  result(bytes: Buffer, limits: BodyLimits, longBytes = LONG_ARRAY_BYTES): Scanned {
    const numbers = this.#numbers
    const weight = { elements: numbers[0]!, parts: numbers[6]!, tools: numbers[7]!, widest: numbers[8]! }
    const problem = excess(weight, limits)
    if (problem !== undefined) return problem
    if (this.#verdict !== DONE) return undefined
    const members: BodyMember[] = []
    let spanAt = this.#spansAt
    const spansEnd = spanAt + 2 * numbers[5]!
    for (let i = 0, at = this.#membersAt; i < numbers[1]!; i++, at += 6) {
      const member: BodyMember = {
        name: bytes.toString('utf8', numbers[at]!, numbers[at + 1]!),
        nameAt: numbers[at]! - 1,
        start: numbers[at + 2]!,
        end: numbers[at + 3]!,
        elements: numbers[at + 4]!,
        first: String.fromCharCode(numbers[at + 5]!),
      }
      members.push(member)
      if (member.first !== '[') continue
      const next = spanAt + 2 * member.elements
      if (member.elements > 0 && next <= spansEnd && member.end - member.start >= longBytes)
        member.spans = numbers.slice(spanAt, next)
      spanAt = next
    }
    return {
      members,
      ...weight,
      embedded: numbers[9]!,
      seen: numbers[2]!,
      seenInTools: numbers[3]!,
      values: numbers[4]!,
    }
  }
}

/** Bodies up to this size share one scanner, and are scanned in one turn of the event loop: 2 ms. */
export const SHARED_BYTES = 4 * 1024 * 1024
/** A longer one is scanned in slices of this size, and copied in slices of the other: new memory is slow. */
const SLICE_BYTES = 1024 * 1024
const COPIED_BYTES = 4 * 1024 * 1024
let shared: Scanner | undefined

/** `scanBody` for a body of at most SHARED_BYTES. `longBytes`: the length from which on arrays have their spans. */
export function scanShort(bytes: Buffer, limits: BodyLimits, longBytes?: number): Scanned {
  shared ??= new Scanner(SHARED_BYTES)
  shared.copy(bytes, 0, bytes.length)
  shared.begin(bytes.length, limits.depth)
  shared.step(bytes.length)
  return shared.result(bytes, limits, longBytes)
}

/** The same for a longer one, in slices between which other requests are served. */
async function scanLong(bytes: Buffer, limits: BodyLimits): Promise<Scanned> {
  const scanner = new Scanner(bytes.length)
  for (let at = 0; at < bytes.length; at += COPIED_BYTES) {
    await exclusiveTurn()
    scanner.copy(bytes, at, at + COPIED_BYTES)
  }
  scanner.begin(bytes.length, limits.depth)
  do await exclusiveTurn()
  while (scanner.step(SLICE_BYTES))
  // A long text is one step: what follows has a turn of its own.
  await exclusiveTurn()
  return scanner.result(bytes, limits)
}

/**
 * Scans a body, which must be valid UTF-8. A text says which limit it exceeds, whatever else is wrong with it.
 * Undefined: it is no JSON object, or one that only `checkJson` and JSON.parse can judge. The result is a promise only
 * for a long body.
 */
export const scanBody = (bytes: Buffer, limits: BodyLimits): Scanned | Promise<Scanned> =>
  bytes.length <= SHARED_BYTES ? scanShort(bytes, limits) : scanLong(bytes, limits)
