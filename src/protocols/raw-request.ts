import { invalid } from '../error.ts'
import type { MemoryBudget } from '../http/memory-budget.ts'
import { readBody } from '../http/serve.ts'
import type { BodyScan, scanBody } from '../json/body-scan.ts'
import { checkJson } from '../json/scan.ts'
import type { ScanMemory } from '../json/scan-memory.ts'
import { syntaxProblem } from '../json/syntax-error.ts'
import type { BodyLimits } from '../json/weight.ts'
import type { RawRequest, ScannedBody } from './protocol.ts'

/** Members of a request that its URL path has in place of the body. */
export type FromPath = Pick<RawRequest, 'model' | 'stream' | 'compaction'>

type ReadingServices = {
  config: { limits: BodyLimits & { bodyBytes: number } }
  memory: MemoryBudget
  conversations: { scans: ScanMemory }
}
type ReceivedRequest = {
  request: Request
  identity: { accountId: string }
  /** Records the body. */
  capture?: { clientRequest(bytes: Uint8Array): void } | undefined
}

/** The value of a body that was scanned. */
export type ParseBody = (scanned: ScannedBody) => Record<string, unknown>

/** Reads a request body. Malformed, ambiguous or too much JSON is a 400. */
export async function readRawRequest(
  services: ReadingServices,
  received: ReceivedRequest,
  fromPath?: FromPath,
): Promise<RawRequest> {
  return rawRequestOf(await receiveBody(services, received), received.request.headers, fromPath)
}

/** A body, and what the scan found in it: undefined where only `checkJson` and JSON.parse can judge it. */
export type ReceivedBody = { bytes: Buffer; scan: BodyScan | undefined; maxDepth: number }

/** Reads and scans a request body. Too much of it is a 400. */
export async function receiveBody(
  { config: { limits }, memory, conversations }: ReadingServices,
  { request, identity: { accountId }, capture }: ReceivedRequest,
): Promise<ReceivedBody> {
  const bytes = await readBody(request, limits.bodyBytes, memory, accountId)
  capture?.clientRequest(bytes)
  const scanning = conversations.scans.scan(accountId, bytes, limits)
  return receivedBody(bytes, scanning instanceof Promise ? await scanning : scanning, limits)
}

/** The same for a body that was read and scanned. */
export function receivedBody(
  bytes: Buffer,
  scan: Awaited<ReturnType<typeof scanBody>>,
  limits: BodyLimits,
): ReceivedBody {
  if (typeof scan === 'string') throw invalid('body', scan)
  return { bytes, scan, maxDepth: limits.depth }
}

/** The request with this body. `parse`: for a body that is read later on. */
export const rawRequestOf = (
  { bytes, scan, maxDepth }: ReceivedBody,
  headers: Headers,
  fromPath?: FromPath,
  parse?: ParseBody,
): RawRequest =>
  scan === undefined
    ? parseRawRequest(bytes.toString(), headers, fromPath, maxDepth)
    : new ScannedRequest({ bytes, scan }, headers, fromPath, parse)

/** The length of a body as it is now, in bytes. */
export const bodyBytes = (rawRequest: RawRequest): number =>
  rawRequest.scanned?.bytes.length ?? Buffer.byteLength(rawRequest.text)

/** The same for the text of a body. */
export function parseRawRequest(text: string, headers: Headers, fromPath?: FromPath, maxDepth?: number): RawRequest {
  // Checked before JSON.parse, which blocks the event loop for seconds on millions of open brackets.
  const problem = checkJson(text, maxDepth)
  if (problem !== undefined) throw invalid('body', problem)
  const body = parse(text)
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('body', 'must be a JSON object')
  return { body: body as Record<string, unknown>, text, headers, ...fromPath }
}

function parse(text: string): unknown {
  if (text.trim() === '') throw invalid('body', 'is empty: send a JSON object')
  try {
    return JSON.parse(text)
  } catch (error) {
    throw invalid('body', syntaxProblem(text, error))
  }
}

const NO_HEADERS = new Headers()

/** A request whose body is known to be a valid JSON object: text and values exist once something reads them. */
class ScannedRequest implements RawRequest {
  headers: Headers
  readonly model?: string
  readonly stream?: boolean
  readonly compaction?: true
  scanned: ScannedBody | undefined
  readonly #parse: ParseBody | undefined
  #text: string | undefined
  #body: Record<string, unknown> | undefined

  constructor(scanned: ScannedBody, headers: Headers, fromPath: FromPath | undefined, parse: ParseBody | undefined) {
    this.scanned = scanned
    this.headers = headers
    this.#parse = parse
    if (fromPath !== undefined) Object.assign(this, fromPath)
  }

  get text(): string {
    return (this.#text ??= this.scanned!.bytes.toString())
  }

  /** Replaces text or body; the bytes do not count any more. */
  set text(text: string) {
    void this.body
    this.#text = text
    this.scanned = undefined
  }

  get body(): Record<string, unknown> {
    return (this.#body ??=
      this.#parse === undefined || this.scanned === undefined
        ? (JSON.parse(this.text) as Record<string, unknown>)
        : this.#parse(this.scanned))
  }

  set body(body: Record<string, unknown>) {
    void this.text
    this.#body = body
    this.scanned = undefined
  }

  free(): void {
    if (this.scanned !== undefined) this.#text = this.#body = undefined
    // They were for the provider.
    this.headers = NO_HEADERS
  }
}
