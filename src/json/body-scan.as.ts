/**
 * One pass over the bytes of a JSON body, in AssemblyScript (TypeScript for WebAssembly), because checking and parsing
 * its text costs three times as much. `npm run scan` compiles it into `body-scan.wasm.ts`; `body-scan.ts` calls it.
 *
 * The bytes, which must be valid UTF-8, are in memory from BODY on, with 8 bytes of zero behind them. What this scan
 * cannot judge (a suspected duplicate name, an escape in a name, very many names) is UNSURE, like everything that is
 * invalid: the caller then checks the text in another way. DONE means a JSON object without duplicate names. The counts
 * go up to where the body is invalid, so that an expensive one is refused before anything else is done with it.
 */
import { countCommas, QUOTE, skipNumber, skipString, special } from './body-tokens.as.ts'

/** Results of `scan`. MORE: the slice is used up; call again to go on. */
const DONE: i32 = 0
const MORE: i32 = 1
const UNSURE: i32 = 2

/** Names of one object that are compared one by one. */
const MAX_NAMES: u32 = 128
const MAX_MEMBERS: u32 = 64

/**
 * Memory layout, for at most 256 levels. RESULTS: elements (values, containers included), members, seen, seenInTools,
 * values, spans, parts, tools, widest, embedded. STACK: the kind of each open container; BASES: where its names begin;
 * COUNTS: how many it has. NAMES: hashes of the names in all open objects. MEMBERS: six u32 for each member of the
 * outermost object. WATCHED: slots of a hash and a bit. SPANS: start and end of the elements of its members that are
 * arrays.
 */
const RESULTS: usize = 0
const STACK: usize = 1024
const BASES: usize = 1536
const COUNTS: usize = 2624
const NAMES: usize = 4096
const MEMBERS: usize = NAMES + 65 * 129 * 8
const WATCHED: usize = MEMBERS + 64 * 24
const WATCHED_SLOTS: u32 = 256
const SPANS: usize = WATCHED + <usize>WATCHED_SLOTS * 16
const MAX_SPANS: u32 = 8192
const BODY: usize = 192 * 1024

/** States: the token that may come next. */
const VALUE: u32 = 0
const VALUE_OR_END: u32 = 1
const NAME_OR_END: u32 = 2
const NAME: u32 = 3
const COMMA_OR_END: u32 = 4
const ONLY_SPACE: u32 = 5

/** The state between two slices. */
let position: usize = BODY
let end: usize = BODY
let expected: u32 = VALUE
let depth: u32 = 0
let maxDepth: u32 = 0
let names: usize = NAMES
/** Something could not be judged: from there on, values are only counted. */
let unsure: bool = false

let elements: u32 = 0
let members: u32 = 0
/** Spans written; of more than MAX_SPANS elements, the last have none. */
let spans: u32 = 0
/** Watched names seen outside the tools, and in the first levels of the tools. */
let seen: u32 = 0
let seenInTools: u32 = 0
/** Watched texts that are values of `type` in a tool, or of `ttl`. */
let values: u32 = 0
/** Objects in the arrays of the conversation: messages, contents, calls. */
let parts: u32 = 0
/** Objects in the arrays of the tools, above their schemas. */
let tools: u32 = 0
/** Names in the object that has the most. */
let widest: u32 = 0
/** Commas in texts that begin like an object. */
let embedded: u32 = 0
/** In `seen`: a number of at least 16 characters, which a double may round. */
const LONG_NUMBER: u32 = 1 << 30
/** Any other name or type of a tool. */
const OTHER: u32 = 1 << 31

/** The bits of the watched names that the scan itself knows. */
const TOOLS: u32 = 1 << 0
const TYPE: u32 = 1 << 1
const TTL: u32 = 1 << 2

/** Deepest names in the tools that are looked at: below are the schemas, whose names mean nothing here. */
const TOOL_DEPTH: u32 = 5

/** Deepest arrays whose objects are parts of a conversation (the content of a tool result), or tools. */
const PARTS_DEPTH: u32 = 6
const DECLARATIONS_DEPTH: u32 = 4

/** The scan is inside the tools. */
let inTools: bool = false
/** The bit of the last name, if its value is looked at: TYPE in a tool, or TTL; otherwise 0. */
let matters: u32 = 0

export function bodyAt(): usize {
  return BODY
}

export function membersAt(): usize {
  return MEMBERS
}

export function spansAt(): usize {
  return SPANS
}

/** Begins the scan of `length` bytes with at most `levels` levels. */
export function begin(length: u32, levels: u32): void {
  maxDepth = levels
  position = BODY
  end = BODY + length
  expected = VALUE
  depth = 0
  names = NAMES
  unsure = false
  elements = 0
  members = 0
  spans = 0
  seen = 0
  seenInTools = 0
  values = 0
  parts = 0
  tools = 0
  widest = 0
  embedded = 0
  inTools = false
  matters = 0
}

/** Watches a text, which is in memory from BODY on, under a bit; those of `tools`, `type` and `ttl` are given above. */
export function watch(length: u32, bit: u32): void {
  store<u8>(BODY + length, QUOTE)
  hashString(BODY)
  let slot = <u32>hash & (WATCHED_SLOTS - 1)
  while (load<u64>(WATCHED + (slot << 4)) != 0) slot = (slot + 1) & (WATCHED_SLOTS - 1)
  store<u64>(WATCHED + (slot << 4), hash)
  store<u32>(WATCHED + (slot << 4) + 8, bit)
}

/** The bit of a watched text; 0 for any other. */
function bitOf(hashed: u64): u32 {
  let slot = <u32>hashed & (WATCHED_SLOTS - 1)
  while (true) {
    const known = load<u64>(WATCHED + (slot << 4))
    if (known == hashed) return load<u32>(WATCHED + (slot << 4) + 8)
    if (known == 0) return 0
    slot = (slot + 1) & (WATCHED_SLOTS - 1)
  }
}

/** The hash of the string that `hashString` read last. */
let hash: u64 = 0

/** Hashes a string from its first character to its quote. Returns the address behind the quote; 0 for an escape. */
function hashString(from: usize): usize {
  let at = from
  let mixed: u64 = 0
  while (true) {
    const word = load<u64>(at)
    const found = special(word)
    if (found == 0) {
      mixed = (mixed ^ word) * 0x9e3779b97f4a7c15
      mixed ^= mixed >> 29
      at += 8
      continue
    }
    const bits = ctz(found) & 56
    at += <usize>bits >> 3
    if (load<u8>(at) != QUOTE) return 0
    mixed = (mixed ^ (word & (((<u64>1) << bits) - 1))) * 0x9e3779b97f4a7c15
    mixed = (mixed ^ (mixed >> 32) ^ (at - from)) * 0xbf58476d1ce4e5b9
    hash = (mixed ^ (mixed >> 29)) | 1
    return at + 1
  }
}

/** The address behind a literal or number; 0 if it is invalid. */
function skipScalar(at: usize): usize {
  const word = load<u32>(at)
  if (word == 0x65757274 || word == 0x6c6c756e) return at + 4
  if (word == 0x736c6166 && load<u8>(at + 4) == 101) return at + 5
  const behind = skipNumber(at)
  if (behind >= at + 16) seen |= LONG_NUMBER
  return behind
}

/** Reports whether the innermost object has the name of `hash` already, or too many names; adds it. */
function isSuspect(): bool {
  const base = load<u32>(BASES + (depth << 2))
  if (names - base >= MAX_NAMES * 8 || names >= MEMBERS) return true
  for (let at: usize = base; at < names; at += 8) if (load<u64>(at) == hash) return true
  store<u64>(names, hash)
  names += 8
  return false
}

/**
 * Where the member that is being read has its numbers: offsets in the body of the start and end of its name without
 * quotes, and of its value; the number of elements in it; its first character. The spans of its elements follow those
 * of the member before.
 */
function memberAt(): usize {
  return MEMBERS + (members - 1) * 24
}

/** The address of the first character at or behind `at` that is not whitespace. */
function skipSpace(at: usize): usize {
  let c = load<u8>(at)
  while (c <= 32 && (c == 32 || c == 10 || c == 13 || c == 9)) c = load<u8>(++at)
  return at
}

/** Reads a name and its colon, `from` being behind the name's quote. Returns the address of the value; 0: invalid. */
function readName(from: usize): usize {
  const count = load<u32>(COUNTS + (depth << 2)) + 1
  store<u32>(COUNTS + (depth << 2), count)
  if (count > widest) widest = count
  const hashed = hashString(from)
  const behind = hashed == 0 ? skipString(from) : hashed
  if (behind == 0) return 0
  const bit = hashed == 0 ? 0 : bitOf(hash)
  if (!unsure && (hashed == 0 || isSuspect() || (depth == 1 && members == MAX_MEMBERS))) unsure = true
  const colon = skipSpace(behind)
  if (load<u8>(colon) != 58) return 0
  const at = skipSpace(colon + 1)
  if (depth == 1) {
    // A name with an escape may be any, so that the lower limit counts.
    inTools = hashed == 0 || bit == TOOLS
    if (unsure) return at
    members++
    const member = memberAt()
    store<u32>(member, <u32>(from - BODY))
    store<u32>(member + 4, <u32>(behind - 1 - BODY))
    store<u32>(member + 8, <u32>(at - BODY))
    store<u32>(member + 16, 0)
    store<u32>(member + 20, <u32>load<u8>(at))
    seen |= bit
  } else if (!inTools) {
    seen |= bit
    matters = bit & TTL
  } else if (depth <= TOOL_DEPTH) {
    seenInTools |= depth == 3 && bit == 0 ? OTHER : bit
    matters = bit & (depth == 3 ? TTL | TYPE : TTL)
  }
  return at
}

/** Notes the value at `at`, which is that of `type` in a tool or of `ttl`. */
function noteValue(at: usize): void {
  const bit: u32 = load<u8>(at) == QUOTE && hashString(at + 1) != 0 ? bitOf(hash) : 0
  values |= bit == 0 && matters == TYPE ? OTHER : bit
  matters = 0
}

/** Scans on, until at least `slice` bytes more are read, and writes the results. */
export function scan(slice: u32): i32 {
  const verdict = readTokens(slice)
  store<u32>(RESULTS, elements)
  store<u32>(RESULTS + 4, members)
  store<u32>(RESULTS + 8, seen)
  store<u32>(RESULTS + 12, seenInTools)
  store<u32>(RESULTS + 16, values)
  store<u32>(RESULTS + 20, spans)
  store<u32>(RESULTS + 24, parts)
  store<u32>(RESULTS + 28, tools)
  store<u32>(RESULTS + 32, widest)
  store<u32>(RESULTS + 36, embedded)
  return verdict
}

function readTokens(slice: u32): i32 {
  let at = position
  const last = end
  const pause = at + slice
  let next = expected
  while (true) {
    at = skipSpace(at)
    if (at >= last) return next == ONLY_SPACE && !unsure ? DONE : UNSURE
    const c = load<u8>(at)
    if (next == COMMA_OR_END) {
      if (c != 44) {
        at = closeContainer(at, c)
        if (at == 0) return UNSURE
        if (depth == 0) next = ONLY_SPACE
        continue
      }
      at++
      next = load<u8>(STACK + depth) == 123 ? NAME : VALUE
      if (at < pause) continue
      position = at
      expected = next
      return MORE
    }
    if (next == NAME || (next == NAME_OR_END && c != 125)) {
      if (c != QUOTE) return UNSURE
      at = readName(at + 1)
      if (at == 0) return UNSURE
      next = VALUE
      continue
    }
    if (next == NAME_OR_END || (c == 93 && next == VALUE_OR_END)) {
      next = COMMA_OR_END
      continue
    }
    if (next == ONLY_SPACE) return UNSURE
    elements++
    if (depth == 2 && !unsure) beginElement(at)
    if (matters != 0) noteValue(at)
    if (c == 123 || c == 91) {
      // A body that is no object, or too deep.
      if (depth == maxDepth || (depth == 0 && c != 123)) return UNSURE
      if (c == 123) countObject()
      depth++
      store<u8>(STACK + depth, c)
      store<u32>(BASES + (depth << 2), <u32>names)
      store<u32>(COUNTS + (depth << 2), 0)
      next = c == 123 ? NAME_OR_END : VALUE_OR_END
      at++
      continue
    }
    at = c == QUOTE ? skipText(at + 1) : skipScalar(at)
    if (at == 0 || depth == 0) return UNSURE
    next = COMMA_OR_END
    if (!unsure) endValue(at)
  }
}

/** `skipString` for a value, with what is embedded in it. */
function skipText(at: usize): usize {
  const behind = skipString(at)
  if (behind != 0 && load<u8>(skipSpace(at)) == 123) embedded += countCommas(at, behind)
  return behind
}

/** Counts an object that begins, if it is an element of an array. */
function countObject(): void {
  if (load<u8>(STACK + depth) != 91) return
  if (!inTools) {
    if (depth <= PARTS_DEPTH) parts++
  } else if (depth <= DECLARATIONS_DEPTH) tools++
}

function beginElement(at: usize): void {
  store<u32>(memberAt() + 16, load<u32>(memberAt() + 16) + 1)
  if (spans < MAX_SPANS && load<u8>(STACK + 2) == 91) store<u32>(SPANS + (spans << 3), <u32>(at - BODY))
}

/** Ends a value, whose container is open, before `at`. */
function endValue(at: usize): void {
  if (depth == 1) store<u32>(memberAt() + 12, <u32>(at - BODY))
  else if (depth == 2) endElement(at)
}

function endElement(at: usize): void {
  if (spans >= MAX_SPANS || load<u8>(STACK + 2) != 91) return
  store<u32>(SPANS + (spans << 3) + 4, <u32>(at - BODY))
  spans++
}

/** Ends the innermost container with the bracket `c`. Returns the address behind it; 0: UNSURE. */
function closeContainer(at: usize, c: u8): usize {
  // The closing bracket has the code of the opening one, plus 2.
  if (c != load<u8>(STACK + depth) + 2) return 0
  names = load<u32>(BASES + (depth << 2))
  depth--
  if (!unsure) endValue(at + 1)
  return at + 1
}
