import { hostOf } from './own-origin.ts'

/** The value of a cookie; undefined where the request has none of this name. */
export function cookieOf({ headers }: Request, name: string): string | undefined {
  for (const pair of (headers.get('cookie') ?? '').split(';')) {
    const at = pair.indexOf('=')
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/** Cookies are shared by the ports of a host, so that the one without https is named after its port. */
export const sessionCookieName = (request: Request, isSecure: boolean): string =>
  isSecure ? '__Host-sluice' : `sluice_${(request.headers.get('host') ?? '').slice(hostOf(request).length + 1) || '80'}`

/** The header that sets a cookie of ours; an empty `value` removes it. */
export const sessionCookie = (name: string, value: string, seconds: number, isSecure: boolean): string =>
  `${name}=${value}; ${isSecure ? 'Secure; ' : ''}HttpOnly; SameSite=Strict; Path=/; ` +
  `Max-Age=${value === '' ? 0 : seconds}`
