import type { RequestSettings } from '../generation/request.ts'
import { type BodyScan, Watched } from '../json/body-scan.ts'
import { omit } from './media.ts'
import type { Protocol, RawRequest, ScannedBody } from './protocol.ts'

/**
 * Rules for passing requests of a protocol on to a provider of the same protocol without reading their conversation,
 * which is the provider's to judge and by far the largest part of what agents send.
 */
export type UnreadRules = {
  /**
   * The members with the conversation and its tools, each with the JSON text that replaces it while the settings are
   * read.
   */
  placeholders: Readonly<Record<string, string>>
  /** Reports whether nothing in the conversation refers to a file, a URL or an object that a provider stores. */
  refersToNothing(scan: BodyScan): boolean
  /** Reports whether there is nothing in the conversation that Sluice must know or change. */
  mayPass(scan: BodyScan, bytes: Buffer): boolean
}

/** A request whose conversation has not been read. */
export type UnreadRequest = {
  /** The request with placeholders in the place of its conversation. */
  settings: RawRequest
  request: RequestSettings
  hasTools: boolean
  /** The longest lifetime of a cache breakpoint; undefined without one. */
  cacheLifetime: '5m' | '1h' | undefined
}

/** Undefined where the conversation has to be read. Throws as `readRequest` does, for invalid settings. */
export function leaveUnread(
  rawRequest: RawRequest,
  { unread: rules, readRequest, references }: Protocol['serve'],
): UnreadRequest | undefined {
  const { scanned, headers, model, stream } = rawRequest
  if (scanned === undefined || rules?.mayPass(scanned.scan, scanned.bytes) !== true) return undefined
  const text = withPlaceholders(scanned, rules.placeholders)
  const settings: RawRequest = {
    body: JSON.parse(text),
    text,
    headers,
    ...(model === undefined ? {} : { model, stream }),
  }
  const read = readRequest(settings)
  // Settings may name stored objects, and define tools of their own.
  if (read.tools.length > 0 || (references?.(settings.body) ?? []).length > 0) return undefined
  const { members, seen, seenInTools, values } = scanned.scan
  return {
    settings,
    request: read,
    hasTools: members.some(({ name, elements }) => name === 'tools' && elements > 0),
    cacheLifetime:
      ((seen | seenInTools) & Watched.cacheControl) === 0 ? undefined : values & Watched.oneHour ? '1h' : '5m',
  }
}

/** The references of a request, without a search of the conversation where that has none. */
export function referencesOf(
  { references, unread: rules }: Protocol['serve'],
  { body, inserted, scanned }: RawRequest,
): ReturnType<NonNullable<typeof references>> {
  if (references === undefined) return []
  if (scanned === undefined || rules?.refersToNothing(scanned.scan) !== true) return references(body, inserted)
  return references(omit(body, ...Object.keys(rules.placeholders)))
}

/** The text of the body with placeholders for the members that have content of their own. */
function withPlaceholders({ bytes, scan }: ScannedBody, placeholders: UnreadRules['placeholders']): string {
  let text = ''
  let from = 0
  for (const { name, start, end, first, elements } of scan.members) {
    const placeholder = Object.hasOwn(placeholders, name) ? placeholders[name] : undefined
    if (
      placeholder === undefined ||
      !((first === '[' && elements > 0) || (first === '"' && placeholder.startsWith('"')))
    )
      continue
    text += bytes.toString('utf8', from, start) + placeholder
    from = end
  }
  return text + bytes.toString('utf8', from)
}
