import type { GenerationRequest } from '../generation/request.ts'
import { type BodyScan, Watched } from '../json/body-scan.ts'
import type { RawRequest, ScannedBody } from './protocol.ts'

/**
 * How requests of a protocol can be passed on to a provider of the same protocol without reading their conversation:
 * that is the provider's to judge, and by far the largest part of what agents send.
 */
export type UnreadRules = {
  /**
   * The members with the conversation and its tools, each with the JSON text that stands in for it while the settings
   * are read.
   */
  standIns: Readonly<Record<string, string>>
  /** Reports whether there is nothing in the conversation that Sluice must know or change. */
  mayPass(scan: BodyScan, bytes: Buffer): boolean
}

/** A request whose conversation has not been read. */
export type UnreadRequest = {
  /** The request with stand-ins in the place of its conversation. */
  settings: RawRequest
  /** Its settings; reading the conversation from it reads the whole body first. */
  request: GenerationRequest
  /** The whole request. Throws as `readRequest` does. */
  readWhole(): GenerationRequest
  hasTools: boolean
  /** The longest lifetime of a cache breakpoint; undefined without one. */
  cacheLifetime: '5m' | '1h' | undefined
}

/** Undefined where the conversation has to be read. Throws as `readRequest` does, for invalid settings. */
export function leaveUnread(
  rawRequest: RawRequest,
  { standIns, mayPass }: UnreadRules,
  readRequest: (rawRequest: RawRequest) => GenerationRequest,
): UnreadRequest | undefined {
  const { scanned, headers, model, stream } = rawRequest
  if (scanned === undefined || !mayPass(scanned.scan, scanned.bytes)) return undefined
  const text = withStandIns(scanned, standIns)
  const settings: RawRequest = {
    body: JSON.parse(text),
    text,
    headers,
    ...(model === undefined ? {} : { model, stream }),
  }
  const read = readRequest(settings)
  // Tools of other kinds than the stand-in's.
  if (read.tools.length > 0) return undefined
  let whole: GenerationRequest | undefined
  const readWhole = (): GenerationRequest => (whole ??= readRequest(rawRequest))
  const { members, seen, seenInTools, values } = scanned.scan
  return {
    settings,
    request: unread(read, readWhole),
    readWhole,
    hasTools: members.some(({ name, elements }) => name === 'tools' && elements > 0),
    cacheLifetime:
      ((seen | seenInTools) & Watched.cacheControl) === 0 ? undefined : values & Watched.oneHour ? '1h' : '5m',
  }
}

/** The text of the body with stand-ins for what its conversation has; other values are read as they are. */
function withStandIns({ bytes, scan }: ScannedBody, standIns: UnreadRules['standIns']): string {
  const texts = scan.members.map(({ name, nameAt, start, end, first, elements }) => {
    const standIn = standIns[name]
    const hasContent = (first === '[' && elements > 0) || (first === '"' && standIn?.startsWith('"') === true)
    return standIn !== undefined && hasContent
      ? bytes.toString('utf8', nameAt, start) + standIn
      : bytes.toString('utf8', nameAt, end)
  })
  return `{${texts.join(',')}}`
}

/** Own accessors, so that a copy of the request has the conversation, too. */
const unread = (settings: GenerationRequest, readWhole: () => GenerationRequest): GenerationRequest => ({
  ...settings,
  get system() {
    return readWhole().system
  },
  get turns() {
    return readWhole().turns
  },
  get tools() {
    return readWhole().tools
  },
  get extras() {
    return readWhole().extras
  },
})
