/**
 * The only way to an address that a third party chose: a URL in a request, a webhook, a URL in a provider's response.
 * Such a call must not reach anything that only this machine or its network can reach (server-side request forgery).
 */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { Deadline, deadlines } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { isPublicAddress } from './addresses.ts'
import { type IncomingResponse, type OutgoingRequest, send } from './call.ts'
import type { CallSignal } from './connection.ts'

export type GuardOptions = {
  /**
   * Hosts that may be reached although they are not public: `host` or `host:port` in lower case, as URLs write them. A
   * host without a port means all its ports.
   */
  private: readonly string[]
  /** Longest response body. */
  maxBytes: number
  /** Covers everything: DNS, connecting, redirects, reading. */
  totalMs: number
  signal?: CallSignal
  /** All addresses of a host name; the system resolver if absent. */
  resolve?: (host: string) => Promise<string[]>
}

const MAX_URL_CHARACTERS = 4096
/** No name in DNS is longer. */
const MAX_HOST_CHARACTERS = 255
const MAX_REDIRECTS = 3
/** Addresses of one host that are tried in each family, because a machine may have a route for only one family. */
const MAX_ADDRESSES_PER_FAMILY = 2
/** Connect timeout of one address. */
const CONNECT_MS = 3_000
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308])

const NOT_PUBLIC = 'must be a public http:// or https:// URL'

/** Host names of this machine and its network, and those at which clouds serve a machine its credentials. */
const LOCAL_NAME = new RegExp(
  String.raw`^(?:[^.]*|.*\.(?:localhost|localdomain|local|internal|home\.arpa)|` +
    String.raw`metadata\.(?:goog|tencentyun\.com|packet\.net|platformequinix\.com))$`,
)

/** URL parsers drop these or read them as other characters, so two parsers may see two hosts. */
const AMBIGUOUS_CHARACTER = /[\s\\\p{Cc}]/u

/**
 * GET, following at most three redirects. `url`: the last one. `mediaType`: as the server sent it, without parameters;
 * not trustworthy. Throws GatewayError invalid_request with a message that continues the parameter's name ("must be
 * ...") and contains no resolved address; upstream_error if `signal` aborted.
 */
export const guardedFetch = (
  url: string,
  options: GuardOptions,
): Promise<{ bytes: Uint8Array; mediaType: string | undefined; url: string }> =>
  withDeadline(options, async (signal) => {
    let currentUrl = url
    for (let redirects = 0; ; redirects += 1) {
      const response = await call(currentUrl, { method: 'GET', headers: { accept: '*/*' } }, options, signal)
      const location = REDIRECT_STATUSES.has(response.status) ? response.headers.get('location') : null
      if (location === null) {
        if (response.status !== 200) throw rejected(response, `it responded with status ${response.status}`)
        const mediaType = response.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
        return { bytes: await readBytes(response, options.maxBytes), mediaType, url: currentUrl }
      }
      if (redirects === MAX_REDIRECTS) throw rejected(response, `it redirects more than ${MAX_REDIRECTS} times`)
      response.body.cancel()
      currentUrl = URL.parse(location, currentUrl)?.href ?? ''
    }
  })

/**
 * POST, for webhooks. Resolves with the status, 3xx included: redirects are not followed. The response body is read up
 * to `maxBytes` and discarded. Throws as `guardedFetch` does.
 */
export const guardedPost = (
  url: string,
  body: string,
  headers: Record<string, string>,
  options: GuardOptions,
): Promise<number> =>
  withDeadline(options, async (signal) => {
    const response = await call(url, { method: 'POST', headers, body }, options, signal)
    // The status decides; a body that is too long or incomplete does not change it.
    await readBytes(response, options.maxBytes).catch(() => response.body.cancel())
    return response.status
  })

/**
 * The problem with a URL as far as its text shows, or undefined. A host name without a problem may still resolve to an
 * address that is not public, which only a call finds out.
 */
export function publicUrlProblem(url: string, options: Pick<GuardOptions, 'private'>): string | undefined {
  if (url.length > MAX_URL_CHARACTERS) return `must be a URL of at most ${MAX_URL_CHARACTERS} characters`
  const parsed = URL.parse(url)
  if (AMBIGUOUS_CHARACTER.test(url)) return `${NOT_PUBLIC} without spaces, control characters and backslashes`
  if (parsed === null || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')) return NOT_PUBLIC
  if (parsed.username !== '' || parsed.password !== '') return `${NOT_PUBLIC} without a user name and password`
  if (isExempt(parsed, options.private)) return undefined
  if (parsed.port !== '' && parsed.port !== '80' && parsed.port !== '443') return `${NOT_PUBLIC} on port 80 or 443`
  const host = withoutBrackets(parsed)
  // To strip the dots at the end of a host takes quadratic time for many in its middle.
  if (host.length > MAX_HOST_CHARACTERS) return NOT_PUBLIC
  const isLocal = isIP(host) === 0 ? LOCAL_NAME.test(host.replace(/\.+$/, '')) : !isPublicAddress(host)
  return isLocal ? NOT_PUBLIC : undefined
}

const isExempt = (url: URL, privateHosts: readonly string[]): boolean =>
  privateHosts.includes(url.hostname) || privateHosts.includes(hostAndPort(url))

/** `host:port` of a URL, as `GuardOptions.private` names hosts. */
export const hostAndPort = ({ protocol, hostname, port }: URL): string =>
  `${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`

const withoutBrackets = ({ hostname }: URL): string => (hostname.startsWith('[') ? hostname.slice(1, -1) : hostname)

/** One call to the first address that accepts a connection. All addresses are checked before the first is tried. */
async function call(
  url: string,
  request: Pick<OutgoingRequest, 'method' | 'headers' | 'body'>,
  options: GuardOptions,
  signal: CallSignal,
): Promise<IncomingResponse> {
  const addresses = await addressesOf(url, options, signal)
  // All else is covered by the deadline of the guard, whose message is the one to give.
  const timeouts = { connectMs: CONNECT_MS, firstByteMs: Infinity, idleMs: Infinity, totalMs: Infinity }
  const candidates = [...Map.groupBy(addresses, isIP).values()].flatMap((family) =>
    family.slice(0, MAX_ADDRESSES_PER_FAMILY),
  )
  let failure: unknown
  for (const address of candidates) {
    let isSent = false
    try {
      return await send({
        ...request,
        url,
        address,
        headers: { 'user-agent': 'sluice', ...request.headers },
        timeouts,
        signal,
        onSent: () => {
          isSent = true
        },
      })
    } catch (error) {
      if (isSent || signal.aborted) throw error
      failure = error
    }
  }
  throw failure
}

/**
 * Never empty. An unknown host and one that is not public get the same message, because the difference would show which
 * names exist in our network.
 */
async function addressesOf(url: string, options: GuardOptions, signal: CallSignal): Promise<string[]> {
  const problem = publicUrlProblem(url, options)
  if (problem !== undefined) throw new GatewayError('invalid_request', problem)
  const parsed = new URL(url)
  const host = withoutBrackets(parsed)
  const addresses =
    isIP(host) === 0
      ? await Promise.race([(options.resolve ?? systemAddresses)(host).catch(() => []), rejectOnAbort(signal)])
      : [host]
  if (addresses.length > 0 && (isExempt(parsed, options.private) || addresses.every(isPublicAddress))) return addresses
  throw new GatewayError('invalid_request', `${NOT_PUBLIC} whose host has only public addresses`)
}

const systemAddresses = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address)

const rejectOnAbort = (signal: CallSignal): Promise<never> =>
  new Promise((_, reject) => {
    const onAbort = () => reject(new GatewayError('upstream_error', 'The call was cancelled during the DNS lookup.'))
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })

async function readBytes(response: IncomingResponse, maxBytes: number): Promise<Uint8Array> {
  const tooLong = `it is larger than ${maxBytes} bytes`
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) throw rejected(response, tooLong)
  const chunks: Uint8Array[] = []
  let length = 0
  for (let chunk = await response.body.read(); chunk !== undefined; chunk = await response.body.read()) {
    length += chunk.length
    if (length > maxBytes) throw rejected(response, tooLong)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

const unusable = (reason: string, cause?: unknown): GatewayError =>
  new GatewayError('invalid_request', `cannot be used: ${reason}`, { cause })

const rejected = (response: IncomingResponse, reason: string): GatewayError => {
  response.body.cancel()
  return unusable(reason)
}

/**
 * Aborts `work` after `totalMs` or when the caller's signal aborts. Every failure becomes an error for the party that
 * chose the URL, without details of our network.
 */
async function withDeadline<T>(
  { totalMs, signal }: GuardOptions,
  work: (signal: CallSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const abort = () => controller.abort()
  const deadline = new Deadline({ onDeadline: abort })
  deadlines.set(deadline, totalMs)
  if (signal?.aborted === true) abort()
  else signal?.addEventListener('abort', abort, { once: true })
  try {
    return await work(controller.signal)
  } catch (error) {
    if (signal?.aborted === true || (error instanceof GatewayError && error.code === 'invalid_request')) throw error
    throw unusable(
      controller.signal.aborted ? `it did not respond within ${totalMs} ms` : 'it could not be reached',
      error,
    )
  } finally {
    deadlines.clear(deadline)
    signal?.removeEventListener('abort', abort)
  }
}
