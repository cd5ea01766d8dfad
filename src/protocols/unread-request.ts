import type { RequestSettings } from '../generation/request.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
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

/** Settings of a request as they were read. Requests with the same settings share them, so they are frozen. */
type ReadSettings = { body: Record<string, unknown>; request: RequestSettings }

/** Settings that are kept, and their longest text: agents send the same ones with every turn. */
const KEPT_MAX = 1_000
const KEPT_LENGTH = 2_000

/** By the rules of their protocol: what was read of a text with placeholders; null where the conversation is read. */
const KEPT = new WeakMap<UnreadRules, BoundedMap<string, ReadSettings | null>>()

/** Undefined where the conversation has to be read. Throws as `readRequest` does, for invalid settings. */
export function leaveUnread(rawRequest: RawRequest, serve: Protocol['serve']): UnreadRequest | undefined {
  const { scanned, headers, model, stream } = rawRequest
  const { unread: rules } = serve
  if (scanned === undefined || rules?.mayPass(scanned.scan, scanned.bytes) !== true) return undefined
  const text = withPlaceholders(scanned, rules.placeholders)
  const fromPath = model === undefined ? {} : { model, stream }
  const read = keptSettings(model === undefined ? text : `${stream} ${model}\n${text}`, rules, () =>
    readSettings({ body: JSON.parse(text), text, headers, ...fromPath }, serve),
  )
  if (read === null) return undefined
  const { members, seen, seenInTools, values } = scanned.scan
  return {
    settings: { body: read.body, text, headers, ...fromPath },
    request: read.request,
    hasTools: members.some(({ name, elements }) => name === 'tools' && elements > 0),
    cacheLifetime:
      ((seen | seenInTools) & Watched.cacheControl) === 0 ? undefined : values & Watched.oneHour ? '1h' : '5m',
  }
}

function keptSettings(key: string, rules: UnreadRules, read: () => ReadSettings | null): ReadSettings | null {
  let kept = KEPT.get(rules)
  if (kept === undefined) KEPT.set(rules, (kept = new BoundedMap(KEPT_MAX)))
  const known = kept.get(key)
  if (known !== undefined) return known
  const settings = read()
  if (key.length <= KEPT_LENGTH) kept.set(key, frozen(settings))
  return settings
}

/** Null where the settings name stored objects, or define tools of their own. */
function readSettings(settings: RawRequest, { readRequest, references }: Protocol['serve']): ReadSettings | null {
  const request = readRequest(settings)
  if (request.tools.length > 0 || (references?.(settings.body) ?? []).length > 0) return null
  return { body: settings.body, request }
}

/** Freezes a value with all its members. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const member of Object.values(Object.freeze(value))) frozen(member)
  return value
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
