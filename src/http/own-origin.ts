import { GatewayError } from '../error.ts'

/** Checks that keep other sites away from what a browser's cookie opens. */

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** The host that a request names, without its port, in lower case. */
export const hostOf = ({ headers }: Request): string => (headers.get('host') ?? '').toLowerCase().replace(/:\d+$/, '')

export const isLoopbackHost = (host: string): boolean => LOOPBACK.test(host)

/** `publicUrl`: its host is one of ours. `hosts`: further ones. */
type OwnHosts = { listen: { host: string; publicUrl?: string }; console: { hosts: readonly string[] } }

/**
 * Refuses a name that a third party may have pointed at this server (DNS rebinding). Throws misdirected_request (421).
 */
export function checkOwnHost(request: Request, { listen, console: { hosts } }: OwnHosts): void {
  const host = hostOf(request)
  const known = [listen.host, ...hosts].map((name) =>
    name.includes(':') && !name.startsWith('[') ? `[${name}]` : name,
  )
  if (isLoopbackHost(host) || known.some((name) => name.toLowerCase() === host)) return
  if (listen.publicUrl !== undefined && new URL(listen.publicUrl).hostname === host) return
  throw new GatewayError(
    'misdirected_request',
    `The console does not answer for the host ${host.slice(0, 100)}: set listen.publicUrl, or add it to console.hosts.`,
  )
}

const HEADER = 'x-sluice-console'

/**
 * Refuses what another site made a browser send. Browsers say where a request comes from; where they do not, on plain
 * http beyond loopback, its Origin or a header that other sites cannot send must show it. Throws permission_denied.
 */
export function checkOwnOrigin(request: Request): void {
  const { headers, method } = request
  const [site, origin] = [headers.get('sec-fetch-site'), headers.get('origin')]
  const isOwn =
    site !== null
      ? site === 'same-origin'
      : origin !== null
        ? origin.replace(/^https?:\/\//, '') === headers.get('host')
        : headers.get(HEADER) === '1'
  const changes = method !== 'GET' && method !== 'HEAD'
  if (!isOwn || (changes && (origin === 'null' || headers.get(HEADER) !== '1')))
    throw new GatewayError(
      'permission_denied',
      `A request with a session must come from the console itself, with the header ${HEADER}: 1.`,
    )
}

/** True where browsers reach this server over https. */
export const isSecure = (request: Request, { listen: { publicUrl } }: OwnHosts): boolean =>
  publicUrl?.startsWith('https:') === true && new URL(publicUrl).hostname === hostOf(request)
