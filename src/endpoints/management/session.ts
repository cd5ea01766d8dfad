import { version } from '../../../package.json'
import type { Role } from '../../accounts/roles.ts'
import type { AppContext } from '../../context.ts'
import { answer } from './answer.ts'
import type { ManagementRequest } from './route.ts'

/** The caller. `user` is null for a management key, which has no session that could expire. */
export type SessionAnswer = {
  user: { id: string; name: string } | null
  roles: Role[]
  expires_at: string | null
  version: string
}

/** `GET /v1/management/session`: who the caller is, and with which roles. */
export function getSession(_app: AppContext, { caller }: ManagementRequest): Response {
  const { user, roles } = caller
  const session: SessionAnswer = {
    user: user === undefined ? null : { id: user.id, name: user.name },
    roles: [...roles],
    expires_at: null,
    version,
  }
  return answer(session)
}
