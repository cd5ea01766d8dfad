import type { AppContext } from '../../context.ts'
import { PART_NAMES, type RecordedPart } from '../../pipeline/bodies/record.ts'
import type { RequestRow, StoredBodies } from '../../store/store.ts'
import { isInScope } from '../../store/request-filter.ts'
import { accountFor, answer, nothing, time, unknown } from './answer.ts'
import { changeLoggedOnce, logChange } from './change-log.ts'
import { idIn, scopeOf } from './filters.ts'
import type { ManagementRequest } from './route.ts'

/** One body. `bytes`: on the wire; `cut`: of those, what is left out. The text from `from` on came at `at_ms`. */
export type BodyAnswer = {
  name: 'client_request' | 'provider_request' | 'provider_answer' | 'client_answer'
  url: string | null
  status: number | null
  headers: { name: string; value: string }[]
  bytes: number
  cut: number
  text: string
  times: { from: number; at_ms: number }[]
}

/** The bodies of a request, in the order in which they were sent. */
export type BodiesAnswer = { request: string; expires_at: string; parts: BodyAnswer[] }

/** The bodies of a request as it shows them itself. `why_not`: null where they are stored. */
export type BodiesOfRequest = {
  stored: boolean
  parts: { name: string; bytes: number; cut: number }[]
  why_not: string | null
}

/** `GET /v1/management/requests/{id}/bodies`. */
export async function getBodies(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { stored, parts } = await readBodies(app, inbound)
  const body: BodiesAnswer = { request: stored.id, expires_at: time(stored.expiresAt), parts: parts.map(shown) }
  return answer(body)
}

/** `GET /v1/management/requests/{id}/bodies/{part}`: the text of one. */
export async function getBody(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const name = PART_NAMES.find((one) => one === inbound.params[1])
  if (name === undefined) throw unknown('body', 'part')
  const { stored, parts } = await readBodies(app, inbound)
  const part = parts.find((one) => one.name === name)
  if (part === undefined) throw unknown('body', 'part')
  return new Response(part.text, {
    headers: {
      'content-type': 'text/plain; charset=utf-8',
      'content-disposition': `attachment; filename="${stored.id}-${name}.txt"`,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    },
  })
}

/** `DELETE /v1/management/requests/{id}/bodies`. */
export async function removeBodies(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const stored = await storedFor(app, inbound)
  const entry = { action: 'bodies.delete', target: stored.id, accountId: stored.accountId }
  if (!(await changeLoggedOnce(app, inbound, () => [app.bodies.remove(stored)], entry)))
    throw unknown('request with bodies', 'id')
  return nothing()
}

/** `DELETE /v1/management/accounts/{id}/bodies`: all of them, by deleting the key that they are encrypted with. */
export async function removeAccountBodies(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const account = await accountFor(app, inbound, inbound.params[0] ?? '', 'bodies.read')
  if (!inbound.caller.may('bodies.read', account.id)) inbound.caller.refuse('bodies.read')
  const entry = { action: 'bodies.delete', target: account.id, accountId: account.id }
  await changeLoggedOnce(app, inbound, () => [app.bodies.removeAccount(account.id)], entry)
  return nothing()
}

/** Every view is in the change log before it is answered. */
async function readBodies(
  app: AppContext,
  inbound: ManagementRequest,
): Promise<{ stored: StoredBodies; parts: RecordedPart[] }> {
  const stored = await storedFor(app, inbound)
  const parts = await app.bodies.read(stored)
  if (parts === undefined) throw unknown('request with bodies', 'id')
  await logChange(app, inbound, { action: 'bodies.read', target: stored.id, accountId: stored.accountId })
  return { stored, parts }
}

/** Throws not_found (404), also where the caller may not see them. */
async function storedFor(app: AppContext, inbound: ManagementRequest): Promise<StoredBodies> {
  const id = idIn(inbound.params[0] ?? '')
  const scope = await scopeOf(app, inbound, 'bodies.read')
  const stored = id === undefined ? undefined : await app.bodies.find(id)
  if (stored === undefined || !isInScope(scope, stored)) throw unknown('request with bodies', 'id')
  return stored
}

const shown = ({ headers, times, ...part }: RecordedPart): BodyAnswer => ({
  ...part,
  headers: headers.map(([name, value]) => ({ name, value })),
  times: times.map(({ from, atMs }) => ({ from, at_ms: atMs })),
})

const NOT_STORED =
  'None are stored: capture was off for the key and account, the client sent x-sluice-capture: off, ' +
  'or they expired or were deleted.'

/** The member `bodies` of a request. */
export async function bodiesOf(
  { bodies }: AppContext,
  { id, outcome, api, keyId }: RequestRow,
): Promise<BodiesOfRequest> {
  const stored = await bodies.find(id)
  if (stored !== undefined) return { stored: true, parts: stored.parts, why_not: null }
  const reason =
    api === 'predictions'
      ? 'Predictions keep their input and output themselves.'
      : bodies.isOff
        ? 'Bodies are not captured: capture.most is off. The line "capture: { most: all }" in sluice.yaml allows it.'
        : outcome === 'open'
          ? 'They are stored once the request has ended.'
          : keyId === null
            ? 'Requests without a valid key are not captured.'
            : NOT_STORED
  return { stored: false, parts: [], why_not: reason }
}
