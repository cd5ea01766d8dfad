import { GatewayError } from '../error.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import type { Origin } from './connection.ts'

/** A body: a text, or bytes and texts one after the other. */
export type RequestBody = string | readonly (Uint8Array | string)[]

/** The parts of an outgoing request that are written. `address`: see OutgoingRequest. */
type RequestHead = {
  method: string
  headers: Record<string, string>
  body?: RequestBody
  address?: string
}

/** A request as it is written, head first. `length`: in bytes. */
export type EncodedRequest = { pieces: readonly (Uint8Array | string)[]; length: number }

type RequestTarget = { origin: Origin; path: string; host: string }

/**
 * Parsed URLs of providers. They are few, and parsing one costs 5 % of proxying a small request. The limit is for
 * catalogues with very many models whose names are part of the URL.
 */
const knownTargets = new BoundedMap<string, RequestTarget>(1024)

export const knownTarget = (url: string): RequestTarget => {
  const known = knownTargets.get(url)
  if (known !== undefined) return known
  const target = parseTarget(url)
  knownTargets.set(url, target)
  return target
}

export const parseTarget = (url: string, address?: string): RequestTarget => {
  const { protocol, hostname, port, pathname, search, host } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new GatewayError('internal_error', 'The URL of a provider must begin with http:// or https://.')
  const secure = protocol === 'https:'
  const portNumber = port === '' ? (secure ? 443 : 80) : Number(port)
  const origin: Origin = {
    host: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
    port: portNumber,
    secure,
    name: `${hostname}:${portNumber}`,
  }
  if (address !== undefined) origin.address = address
  return { origin, path: pathname + search, host }
}

/** Headers of the connection and the framing: set here, never by the caller. */
const CONNECTION_HEADERS = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'accept-encoding',
  'expect',
  'upgrade',
])

const HEADER_LINE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e]*\r\n$/

export const encodeRequest = (request: RequestHead, { path, host }: RequestTarget): EncodedRequest => {
  const { method, headers, body, address } = request
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\naccept-encoding: identity\r\n`
  if (address !== undefined) head += 'connection: close\r\n'
  for (const name in headers) head += headerLine(name, headers[name]!)
  const bodyBytes = body === undefined ? 0 : lengthOf(body)
  if (body !== undefined || method === 'POST') head += `content-length: ${bodyBytes}\r\n`
  head += '\r\n'
  const length = head.length + bodyBytes
  if (body === undefined) return { pieces: [head], length }
  return { pieces: typeof body === 'string' ? [head, body] : [head, ...body], length }
}

/** The last line of each header: most requests to providers have the same. `line`: empty for one of the connection. */
type KnownLine = { value: string; line: string }

/** Names come from clients, too. */
const knownLines = new BoundedMap<string, KnownLine>(256)

function headerLine(name: string, value: string): string {
  const known = knownLines.get(name)
  if (known === undefined) {
    const line = CONNECTION_HEADERS.has(name.toLowerCase()) ? '' : writtenLine(name, value)
    knownLines.set(name, { value, line })
    return line
  }
  // The trace of a request is in no other one: its line must not cost more than to write it.
  if (known.value !== value) {
    if (known.line !== '') known.line = writtenLine(name, value)
    known.value = value
  }
  return known.line
}

function writtenLine(name: string, value: string): string {
  const line = `${name}: ${value}\r\n`
  if (!HEADER_LINE.test(line))
    throw new GatewayError('internal_error', `The header "${name}" has a character that HTTP does not allow.`)
  return line
}

/** The number of bytes of a body. */
export const lengthOf = (body: RequestBody): number => {
  if (typeof body === 'string') return Buffer.byteLength(body)
  let length = 0
  for (const piece of body) length += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length
  return length
}

/** Writes pieces into `data`. */
export const joinPieces = (pieces: Exclude<RequestBody, string>, data: Buffer): void => {
  let at = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') at += data.write(piece, at)
    else {
      data.set(piece, at)
      at += piece.length
    }
  }
}

/** A body as text, for a provider in this process and for people. */
export const bodyText = (body: RequestBody): string => {
  if (typeof body === 'string') return body
  const data = Buffer.alloc(lengthOf(body))
  joinPieces(body, data)
  return data.toString()
}
