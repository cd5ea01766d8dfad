import type { AppContext } from '../../context.ts'
import { cookieOf, sessionCookie, sessionCookieName } from '../../http/cookies.ts'
import { isSecure } from '../../http/own-origin.ts'

/** The text of the request's session, if it has one. */
export const sessionTextOf = ({ config }: AppContext, request: Request): string | undefined =>
  config.console.enabled ? cookieOf(request, sessionCookieName(request, isSecure(request, config))) : undefined

/** The `Set-Cookie` of a session until it ends. Without a text it removes the cookie. */
export function setCookie({ config, clock }: AppContext, request: Request, text: string, endsAt = 0): string {
  const secure = isSecure(request, config)
  const seconds = Math.max(0, Math.ceil((endsAt - clock.now()) / 1000))
  return sessionCookie(sessionCookieName(request, secure), text, seconds, secure)
}
