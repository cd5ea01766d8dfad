import type { AppContext } from '../../context.ts'
import type { FilePosition } from '../../store/store.ts'
import { answer, cursorAfter, limitOf, nothing, positionOf, time, timeOrNull, unknown, type Page } from './answer.ts'
import { scopeOf } from './filters.ts'
import { namedIn, namesOf, type Named } from './names.ts'
import { changeLoggedOnce } from './change-log.ts'
import type { ManagementRequest } from './route.ts'

export type FileAnswer = {
  id: string
  account: Named | null
  filename: string
  purpose: string | null
  media_type: string
  bytes: number
  created_at: string
  expires_at: string | null
}

/** `GET /v1/management/files`: the newest first. */
export async function listAllFiles(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const limit = limitOf(inbound)
  const { accountIds } = await scopeOf(app, inbound, 'requests.read')
  const names = await namesOf(app)
  const rows = await app.store.reports.files(accountIds, app.clock.now(), positionOf<FilePosition>(inbound), limit + 1)
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const page: Page<FileAnswer> = {
    data: rows.slice(0, limit).map(({ accountId, mediaType, createdAt, expiresAt, ...row }) => ({
      ...row,
      account: namedIn(names.accounts, accountId),
      media_type: mediaType,
      created_at: time(createdAt),
      expires_at: timeOrNull(expiresAt),
    })),
    next: last === undefined ? null : cursorAfter(inbound, { createdAt: last.createdAt, id: last.id }),
    scanned_to: null,
  }
  return answer(page)
}

/** `DELETE /v1/management/files/{id}`. */
export async function removeFile(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const id = inbound.params[0]!
  const accounts = await app.store.accounts.list()
  for (const account of accounts) {
    if (!inbound.caller.may('files.change', account.id)) continue
    const file = await app.files.find(account.id, id)
    if (file === undefined) continue
    const before = { filename: file.filename, bytes: file.bytes }
    const entry = { action: 'file.delete', target: id, accountId: account.id, before }
    const remove = async (): Promise<boolean> => (await app.files.delete(account.id, id)) !== undefined
    if (!(await changeLoggedOnce(app, inbound, () => [remove()], entry))) break
    return nothing()
  }
  throw unknown('file', 'id')
}
