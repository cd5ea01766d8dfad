import type { ProtocolName } from '../../generation/request.ts'
import type { ConversationMemory } from '../../protocols/conversation-memory.ts'
import { protocols } from '../../protocols/index.ts'
import type { ScannedBody } from '../../protocols/protocol.ts'
import type { ReceivedBody } from '../../protocols/raw-request.ts'
import { isImagesApi } from '../images-api.ts'

/**
 * From these weights on, reading and writing a request would hold up the event loop for more than about 20 ms.
 * `elements`: values in the body, of which EMBEDDED in the text of a call count as one. `unscanned`: bytes of a body
 * that the scan could not judge, for example because an object has very many members. `settings`: bytes besides the
 * conversation and its tools. `answer`: characters of a response in one piece.
 */
export const HEAVY = {
  bytes: 1024 * 1024,
  elements: 8_000,
  unscanned: 64 * 1024,
  settings: 64 * 1024,
  answer: 256 * 1024,
}

/** Protocols that have the arguments of calls as objects parse them, which costs so much less than reading values. */
const EMBEDDED = 4

/**
 * Times the weight up to which the server itself reads a conversation that comes again. One of which nothing can be
 * reused holds up the event loop for less than 50 ms, too.
 */
const CONTINUED = 2

/** Reports whether a request has to be read and written in another process. Those for images are short or one text. */
export function isHeavy(body: ReceivedBody, api: { protocol: ProtocolName }): boolean {
  return !isImagesApi(api) && weighs(body, 1)
}

const weighs = ({ bytes, scan }: ReceivedBody, times: number): boolean =>
  scan === undefined
    ? bytes.length >= HEAVY.unscanned
    : bytes.length >= times * HEAVY.bytes || scan.elements + scan.embedded / EMBEDDED >= times * HEAVY.elements

/** Reports whether the server itself reads a heavy request, because most of its conversation came before. */
export const comesAgain = (body: ReceivedBody, conversations: ConversationMemory, accountId: string): boolean =>
  isScanned(body) && !weighs(body, CONTINUED) && conversations.newBytes(accountId, body) < HEAVY.unscanned

const isScanned = (body: ReceivedBody): body is ReceivedBody & ScannedBody => body.scan !== undefined

/** Reports whether a request is heavy even without its conversation. */
export function hasHeavySettings({ bytes, scan }: ReceivedBody, protocol: ProtocolName): boolean {
  const placeholders = protocols[protocol].serve.unread?.placeholders ?? {}
  const conversation = (scan?.members ?? []).filter(({ name }) => Object.hasOwn(placeholders, name))
  return bytes.length - conversation.reduce((sum, { start, end }) => sum + end - start, 0) >= HEAVY.settings
}

/** Thrown while a request is read: what it refers to makes it heavy. `api`: the loaded part of that; see `Given`. */
export class TooHeavy extends Error {
  readonly api: unknown

  constructor(api?: unknown) {
    super('the request refers to a lot')
    this.api = api
  }
}
