/**
 * The only way to an address that somebody else named: a URL in a request, a webhook, a URL in a provider's answer.
 * Such a call
 * must not reach what only this machine or its network can reach (server-side request forgery).
 */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { GatewayError } from '../error.ts'
import { isPublicAddress } from './addresses.ts'
import { send } from './call.ts'
import type { Incoming, Outgoing } from './call.ts'
import type { CallSignal } from './connection.ts'

export type Outside = {
  /**
   * `host` or `host:port` in lower case, as URLs write it: may be reached although it is not public. A host alone
   * stands for all its ports.
   */
  private: readonly string[]
  /** Longest body of an answer. */
  maxBytes: number
  /** For everything: finding the host, connecting, redirects, reading. */
  totalMs: number
  signal?: CallSignal
  /** All addresses of a host name; the system's own where absent. */
  resolve?: (host: string) => Promise<string[]>
}

const MAX_URL_CHARACTERS = 4096
const MAX_REDIRECTS = 3
/**
 * Addresses of one host that are tried in each family, since a machine may have a way out for one only; and how long
 * each may take to accept a connection.
 */
const MAX_ADDRESSES = 2
const CONNECT_MS = 3_000
const REDIRECTS = new Set([301, 302, 303, 307, 308])

const NOT_PUBLIC = 'must be a public http:// or https:// URL'

/**
 * Names that mean this machine or its network wherever they are asked for, and those under which clouds tell a machine
 * its secrets.
 */
const LOCAL_NAME =
  /^(?:[^.]*|.*\.(?:localhost|localdomain|local|internal|home\.arpa)|metadata\.(?:goog|tencentyun\.com|packet\.net|platformequinix\.com))$/

/** Characters that URL parsers drop or read as others: two readers of such a URL may see two hosts. */
const UNCLEAR = /[\s\\\p{Cc}]/u

/**
 * GET, following at most three redirects. `url`: where the bytes came from in the end. `mediaType`: what the server
 * called them, without parameters;
 * not to be believed. Throws GatewayError invalid_request whose message says what the URL must be, without the
 * parameter's name and without any
 * address that was found; upstream_error where `signal` fired.
 */
export const fetchOutside = (
  url: string,
  options: Outside,
): Promise<{ bytes: Uint8Array; mediaType: string | undefined; url: string }> =>
  inTime(options, async (signal) => {
    let at = url
    for (let redirects = 0; ; redirects += 1) {
      const incoming = await call(at, { method: 'GET', headers: { accept: '*/*' } }, options, signal)
      const location = REDIRECTS.has(incoming.status) ? incoming.headers.get('location') : null
      if (location === null) {
        if (incoming.status !== 200) throw refused(incoming, `it answered with status ${incoming.status}`)
        const mediaType = incoming.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
        return { bytes: await readBytes(incoming, options.maxBytes), mediaType, url: at }
      }
      if (redirects === MAX_REDIRECTS) throw refused(incoming, `it redirects more than ${MAX_REDIRECTS} times`)
      incoming.body.cancel()
      at = URL.parse(location, at)?.href ?? ''
    }
  })

/**
 * POST, for webhooks. Resolves with the status, 3xx included: redirects are not followed. The answer's body is read up
 * to `maxBytes` and thrown away.
 * Throws as `fetchOutside` does.
 */
export const postOutside = (
  url: string,
  body: string,
  headers: Record<string, string>,
  options: Outside,
): Promise<number> =>
  inTime(options, async (signal) => {
    const incoming = await call(url, { method: 'POST', headers, body }, options, signal)
    // The status is the answer; a body that is too long or breaks off changes nothing about it.
    await readBytes(incoming, options.maxBytes).catch(() => incoming.body.cancel())
    return incoming.status
  })

/**
 * What is wrong with a URL as far as its text tells, or undefined. That it is right does not make its host public: only
 * a call finds that out.
 */
export function wrongOutsideUrl(url: string, options: Pick<Outside, 'private'>): string | undefined {
  if (url.length > MAX_URL_CHARACTERS) return `must be a URL of at most ${MAX_URL_CHARACTERS} characters`
  const parsed = URL.parse(url)
  if (UNCLEAR.test(url)) return `${NOT_PUBLIC} without spaces, control characters and backslashes`
  if (parsed === null || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')) return NOT_PUBLIC
  if (parsed.username !== '' || parsed.password !== '') return `${NOT_PUBLIC} without a user name and a password`
  if (isExempt(parsed, options.private)) return undefined
  if (parsed.port !== '' && parsed.port !== '80' && parsed.port !== '443') return `${NOT_PUBLIC} on port 80 or 443`
  const host = bare(parsed)
  const isLocal = isIP(host) === 0 ? LOCAL_NAME.test(host.replace(/\.+$/, '')) : !isPublicAddress(host)
  return isLocal ? NOT_PUBLIC : undefined
}

const isExempt = (url: URL, exempt: readonly string[]): boolean =>
  exempt.includes(url.hostname) || exempt.includes(hostAndPort(url))

/** `host:port` of a URL, as `Outside.private` names hosts. */
export const hostAndPort = ({ protocol, hostname, port }: URL): string =>
  `${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`

const bare = ({ hostname }: URL): string => (hostname.startsWith('[') ? hostname.slice(1, -1) : hostname)

/** One call to the first address that accepts a connection, all of them checked before. */
async function call(
  url: string,
  request: Pick<Outgoing, 'method' | 'headers' | 'body'>,
  options: Outside,
  signal: CallSignal,
): Promise<Incoming> {
  const addresses = await addressesOf(url, options, signal)
  const timeouts = {
    connectMs: CONNECT_MS,
    firstByteMs: options.totalMs,
    idleMs: options.totalMs,
    totalMs: options.totalMs,
  }
  let failure: unknown
  const tried = [...Map.groupBy(addresses, isIP).values()].flatMap((family) => family.slice(0, MAX_ADDRESSES))
  for (const address of tried) {
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
 * Where a URL leads: never empty. Says the same of a host that is unknown and of one that is not public, since which of
 * both it is tells of our network.
 */
async function addressesOf(url: string, options: Outside, signal: CallSignal): Promise<string[]> {
  const wrong = wrongOutsideUrl(url, options)
  if (wrong !== undefined) throw new GatewayError('invalid_request', wrong)
  const parsed = new URL(url)
  const host = bare(parsed)
  const found =
    isIP(host) === 0
      ? await Promise.race([(options.resolve ?? systemAddresses)(host).catch(() => []), left(signal)])
      : [host]
  if (found.length > 0 && (isExempt(parsed, options.private) || found.every(isPublicAddress))) return found
  throw new GatewayError('invalid_request', `${NOT_PUBLIC} whose host has public addresses only`)
}

const systemAddresses = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address)

const left = (signal: CallSignal): Promise<never> =>
  new Promise((_, reject) => {
    const leave = () =>
      reject(new GatewayError('upstream_error', 'The call was cancelled while its host was looked up.'))
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
  })

async function readBytes(incoming: Incoming, maxBytes: number): Promise<Uint8Array> {
  const tooLong = `it is larger than ${maxBytes} bytes`
  if (Number(incoming.headers.get('content-length') ?? 0) > maxBytes) throw refused(incoming, tooLong)
  const chunks: Uint8Array[] = []
  let length = 0
  for (let chunk = await incoming.body.read(); chunk !== undefined; chunk = await incoming.body.read()) {
    length += chunk.length
    if (length > maxBytes) throw refused(incoming, tooLong)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

const unusable = (why: string, cause?: unknown): GatewayError =>
  new GatewayError('invalid_request', `${NOT_PUBLIC} that can be read, but ${why}`, { cause })

const refused = (incoming: Incoming, why: string): GatewayError => {
  incoming.body.cancel()
  return unusable(why)
}

/**
 * Ends `work` after `totalMs` or when the caller's signal fires, and puts whatever went wrong into words for who named
 * the URL.
 */
async function inTime<T>({ totalMs, signal }: Outside, work: (signal: CallSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const leave = () => controller.abort()
  const timer = setTimeout(leave, totalMs)
  if (signal?.aborted === true) leave()
  else signal?.addEventListener('abort', leave, { once: true })
  try {
    return await work(controller.signal)
  } catch (error) {
    if (signal?.aborted === true || (error instanceof GatewayError && error.code === 'invalid_request')) throw error
    throw unusable(controller.signal.aborted ? `it did not answer in ${totalMs} ms` : 'it could not be reached', error)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', leave)
  }
}
