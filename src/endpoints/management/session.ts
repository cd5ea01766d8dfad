import { version } from '../../../package.json'
import { passwordProblem } from '../../accounts/passwords.ts'
import type { Role } from '../../accounts/roles.ts'
import { endOf, sessionTimes } from '../../accounts/sessions.ts'
import type { LinkKind } from '../../accounts/sign-in.ts'
import { emailProblem, userNameProblem } from '../../accounts/users.ts'
import { object, string } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { checkOwnHost, checkOwnOrigin, hostOf, isLoopbackHost } from '../../http/own-origin.ts'
import type { User } from '../../store/store.ts'
import { answer, nothing, time, unknown } from './answer.ts'
import { bodyOf } from './body.ts'
import type { ManagementRequest } from './route.ts'
import { setCookie } from './session-cookie.ts'

/** The caller. `user` is null for a management key, which has no session that could expire. */
export type SessionAnswer = {
  user: { id: string; name: string; email: string | null } | null
  roles: Role[]
  expires_at: string | null
  version: string
}

/** A link before it is used. `user`: null for the first owner. */
export type LinkPreview = { kind: LinkKind; user: { name: string; email: string | null } | null }

const link = string({ what: 'the text of a link', pattern: /^[\w-]{1,100}$/ })

export const PREVIEW = object({ link }, { required: ['link'] })

export const SIGN_IN = object({
  link,
  name: string({ what: 'a name', check: userNameProblem }),
  email: string({ what: 'an e-mail address', check: emailProblem }),
  password: string({ what: 'a password' }),
})

/** `POST /v1/management/session/preview`: the kind of a link, which is not used up. */
export async function previewLink(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  checkBrowser(app, inbound)
  const { link: text } = await bodyOf(inbound, PREVIEW)
  const { kind, user } = await app.people.signIn.preview(text!)
  return answer({
    kind,
    user: user === undefined ? null : { name: user.name, email: user.email },
  } satisfies LinkPreview)
}

/** `POST /v1/management/session`: signs in with a link, or with e-mail address and password. */
export async function beginSession(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  checkBrowser(app, inbound)
  const { request, clientAddress } = inbound
  const { user, how } = await signedIn(app, inbound)
  const times = sessionTimes(isLoopbackHost(hostOf(request)), app.config.console.sessionHours)
  const place = { address: clientAddress, client: request.headers.get('user-agent') }
  const { session, text } = await app.people.sessions.begin(user, place, times)
  await app.people.changes.add(
    { id: user.id, name: user.name, address: place.address },
    { action: 'session.begin', target: user.id, after: { how, session: session.id } },
  )
  const { id, name, email } = user
  const roles = await app.people.users.rolesOf(id)
  const response = answer(sessionAnswer({ user: { id, name, email }, roles, endsAt: endOf(session) }), 201)
  response.headers.append('set-cookie', setCookie(app, request, text, session.endsAt))
  return response
}

/** Other sites must not sign a browser in as another user, either. */
function checkBrowser({ config }: AppContext, { request }: ManagementRequest): void {
  if (!config.console.enabled) throw unknown('route: console.enabled is false')
  checkOwnHost(request, config)
  checkOwnOrigin(request)
}

async function signedIn(app: AppContext, inbound: ManagementRequest): Promise<{ user: User; how: string }> {
  const { link: text, name, email, password } = await bodyOf(inbound, SIGN_IN)
  const { signIn } = app.people
  if (text === undefined) {
    if (email === undefined || password === undefined) throw invalid('body', 'must have a link, or email and password')
    return { user: await signIn.withPassword(email, password, inbound.clientAddress), how: 'password' }
  }
  const weak = password === undefined ? undefined : passwordProblem(password)
  if (weak !== undefined) throw invalid('password', weak)
  const { user, kind } = await signIn.withLink(text, { name, password })
  return { user, how: `${kind} link` }
}

/** `GET /v1/management/session`: who the caller is, and with which roles. */
export function getSession(_app: AppContext, { caller: { user, roles } }: ManagementRequest): Response {
  const shown = user === undefined ? undefined : { id: user.id, name: user.name, email: user.email }
  return answer(sessionAnswer({ user: shown, roles, endsAt: user?.sessionEndsAt }))
}

const sessionAnswer = (of: {
  user: SessionAnswer['user'] | undefined
  roles: readonly Role[]
  endsAt: number | undefined
}): SessionAnswer => ({
  user: of.user ?? null,
  roles: [...of.roles],
  expires_at: of.endsAt === undefined ? null : time(of.endsAt),
  version,
})

/** `DELETE /v1/management/session`: signs out. */
export async function endSession(app: AppContext, { caller: { user }, request }: ManagementRequest): Promise<Response> {
  if (user === undefined) throw new GatewayError('invalid_request', 'A management key has no session to end.')
  await app.people.sessions.end(user.id, user.sessionId)
  const response = nothing()
  response.headers.append('set-cookie', setCookie(app, request, ''))
  return response
}
