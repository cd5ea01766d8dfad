import type { GenerationRequest, Part } from '../generation/request.ts'
import type { BodyMember } from '../json/body-scan.ts'
import { protocols } from '../protocols/index.ts'
import type { RequestContext, ScannedBody } from '../protocols/protocol.ts'
import type { RequestPaths } from '../protocols/request-paths.ts'

/**
 * The identity of a conversation of one account, by which it is sent where its prompt is cached: the client's name of
 * it, else the hash of what all its requests begin with. Undefined for a request that another process read.
 */
export function conversationOf(
  accountId: string,
  { request, settings, rawRequest }: RequestContext,
  sessionId: string | undefined,
): string | undefined {
  const named = sessionId ?? request.cacheKey
  if (named !== undefined) return `${accountId} ${named}`
  const hash =
    settings === undefined
      ? hashOfRequest(request as GenerationRequest)
      : rawRequest.scanned === undefined
        ? undefined
        : hashOfBody(rawRequest.scanned, protocols[request.protocol].serve.paths)
  return hash === undefined ? undefined : `${accountId} #${hash}`
}

/** System instructions, names of tools, and the turns up to the first one of the user. */
function hashOfRequest({ system, tools, turns }: GenerationRequest): string {
  let hash = 0n
  const add = (text: string): void => void (hash = BigInt(Bun.hash(text, hash)))
  const addPart = (part: Part): void => {
    if ('text' in part) add(part.text)
    else if ('source' in part && part.source.type === 'data') add(part.source.data.slice(0, HASHED_MEDIA))
  }
  system.forEach(addPart)
  for (const tool of tools) if ('name' in tool) add(tool.name)
  for (const { role, parts } of turns) {
    parts.forEach(addPart)
    if (role === 'user') break
  }
  return hash.toString(36)
}

const HASHED_MEDIA = 4_096

/** Instructions and tools stay the same throughout a conversation, whose own member grows. */
function hashOfBody({ bytes, scan }: ScannedBody, { settings: { conversation, system } }: RequestPaths): string {
  let hash = 0n
  for (const member of scan.members) {
    const { name, start, end } = member
    if (conversation?.includes(name)) hash = BigInt(Bun.hash(beginningOf(bytes, member), hash))
    else if (name === 'tools' || system?.includes(name)) hash = BigInt(Bun.hash(bytes.subarray(start, end), hash))
  }
  return hash.toString(36)
}

const INSTRUCTION = /"role"\s*:\s*"(?:system|developer)"/

/** The first element, with those before it that are instructions. A text is the first turn as a whole. */
function beginningOf(bytes: Buffer, { start, end, first }: BodyMember): Buffer {
  if (first !== '[') return bytes.subarray(start, end)
  let from = start + 1
  for (let elements = 0; elements < 4; elements++) {
    const to = elementEnd(bytes, from, end)
    if (!INSTRUCTION.test(bytes.toString('latin1', from, Math.min(to, from + 200)))) return bytes.subarray(start, to)
    from = to + 1
  }
  return bytes.subarray(start, from)
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]

/** The end of an element: the comma behind it, or the end of the array. The bytes are valid JSON. */
function elementEnd(bytes: Buffer, from: number, end: number): number {
  let depth = 0
  for (let at = from; at < end - 1; at++) {
    const byte = bytes[at]!
    if (byte === QUOTE) {
      for (at++; bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++
    } else if (byte === 0x7b || byte === 0x5b) depth++
    else if (byte === 0x7d || byte === 0x5d) depth--
    else if (byte === COMMA && depth === 0) return at
  }
  return end - 1
}
