import { version } from '../../../package.json'
import { Caller } from '../../accounts/caller.ts'
import { passwordProblem } from '../../accounts/passwords.ts'
import type { Role } from '../../accounts/roles.ts'
import { endOf, sessionTimes } from '../../accounts/sessions.ts'
import type { Admission, LinkKind } from '../../accounts/sign-in.ts'
import { emailProblem, userNameProblem } from '../../accounts/users.ts'
import { object, string } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { checkOwnHost, checkOwnOrigin, hostOf, isLoopbackHost } from '../../http/own-origin.ts'
import { allOf } from '../../store/refused.ts'
import { answer, nothing, timeOrNull, unknown } from './answer.ts'
import { bodyOf } from './body.ts'
import { capturesOf, type CapturesAnswer } from './capture.ts'
import { withMemberRequests } from './member-requests.ts'
import type { ManagementRequest } from './route.ts'
import { setCookie } from './session-cookie.ts'

/**
 * The caller. `user` is null for a management key, which has no session that could expire. `capture`: of bodies, of
 * keys and accounts that the caller may see.
 */
export type SessionAnswer = {
  user: { id: string; name: string; email: string | null } | null
  roles: Role[]
  expires_at: string | null
  version: string
  capture: CapturesAnswer
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
  const { user, how, writes } = await admitted(app, inbound)
  const times = sessionTimes(isLoopbackHost(hostOf(request)), app.config.console.sessionHours)
  const client = { address: clientAddress, client: request.headers.get('user-agent') }
  const { sessions, changes } = app.people
  const { session, text } = sessions.create(user, client, times)
  const actor = { id: user.id, name: user.name, address: client.address }
  const entry = { action: 'session.begin', target: user.id, after: { how, session: session.id } }
  await allOf(app.store.together(() => [...writes(), sessions.begin(session), changes.add(actor, entry)]))
  const { id, name, email } = user
  const roles = await app.people.users.rolesOf(id)
  const endsAt = endOf(session)
  const signedIn = Caller.ofUser({ id, name, email, sessionId: session.id, sessionEndsAt: endsAt }, roles)
  const caller = await withMemberRequests(app, signedIn)
  const response = answer(await sessionAnswer(app, caller), 201)
  response.headers.append('set-cookie', setCookie(app, request, text, session.endsAt))
  return response
}

/** Other sites must not sign a browser in as another user, either. */
function checkBrowser({ config }: AppContext, { request }: ManagementRequest): void {
  if (!config.console.enabled) throw unknown('route: console.enabled is false')
  checkOwnHost(request, config)
  checkOwnOrigin(request)
}

async function admitted(app: AppContext, inbound: ManagementRequest): Promise<Admission & { how: string }> {
  const { link: text, name, email, password } = await bodyOf(inbound, SIGN_IN)
  const { signIn } = app.people
  if (text === undefined) {
    if (email === undefined || password === undefined) throw invalid('body', 'must have a link, or email and password')
    return { ...(await signIn.withPassword(email, password, inbound.clientAddress)), how: 'password' }
  }
  const weak = password === undefined ? undefined : passwordProblem(password)
  if (weak !== undefined) throw invalid('password', weak)
  const admission = await signIn.withLink(text, { name, password })
  return { ...admission, how: `${admission.kind} link` }
}

/** `GET /v1/management/session`: who the caller is, and with which roles. */
export async function getSession(app: AppContext, { caller }: ManagementRequest): Promise<Response> {
  return answer(await sessionAnswer(app, caller))
}

async function sessionAnswer(app: AppContext, caller: Caller): Promise<SessionAnswer> {
  const { user, roles } = caller
  return {
    user: user === undefined ? null : { id: user.id, name: user.name, email: user.email },
    roles: [...roles],
    expires_at: timeOrNull(user?.sessionEndsAt),
    version,
    capture: await capturesOf(app, caller),
  }
}

/** `DELETE /v1/management/session`: signs out. */
export async function endSession(app: AppContext, { caller: { user }, request }: ManagementRequest): Promise<Response> {
  if (user === undefined) throw new GatewayError('invalid_request', 'A management key has no session to end.')
  await app.people.sessions.end(user.id, { only: user.sessionId })
  const response = nothing()
  response.headers.append('set-cookie', setCookie(app, request, ''))
  return response
}
