import type { ProtocolName } from '../../generation/request.ts'
import { protocols } from '../../protocols/index.ts'
import type { ReceivedBody } from '../../protocols/raw-request.ts'

/**
 * From these weights on, reading and writing a request would hold up the event loop for more than about 20 ms.
 * `elements`: values in the body. `unscanned`: bytes of a body that the scan could not judge, for example because an
 * object has very many members. `settings`: bytes besides the conversation and its tools. `answer`: characters of a
 * response in one piece.
 */
export const HEAVY = {
  bytes: 1024 * 1024,
  elements: 8_000,
  unscanned: 64 * 1024,
  settings: 64 * 1024,
  answer: 256 * 1024,
}

/** Reports whether a request has to be read and written in another process. Those for images are short or one text. */
export function isHeavy({ bytes, scan }: ReceivedBody, { protocol }: { protocol: ProtocolName }): boolean {
  if (protocol === 'images') return false
  return scan === undefined
    ? bytes.length >= HEAVY.unscanned
    : bytes.length >= HEAVY.bytes || scan.elements >= HEAVY.elements
}

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
