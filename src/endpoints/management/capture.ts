import type { Caller } from '../../accounts/caller.ts'
import { INSTALLATION } from '../../accounts/roles.ts'
import { name, object } from '../../config/shape.ts'
import { CAPTURE_MODES, type CaptureMode } from '../../config/terms.ts'
import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import type { CaptureSwitch } from '../../pipeline/bodies/capture-rules.ts'
import { checkVersion, timeOrNull, versioned } from './answer.ts'
import { bodyOf } from './body.ts'
import { changeLogged } from './change-log.ts'
import { namesOf } from './names.ts'
import type { ManagementRequest } from './route.ts'
import { instantShape, nullable } from './shapes.ts'

/** The captured bodies of a key, an account or the installation, and the end of it; null: for good. */
export type CaptureAnswer = { mode: 'off' | 'errors' | 'all'; until: string | null }

/** The most that sluice.yaml allows to be captured, and the switches that are on. */
export type CapturesAnswer = { most: 'off' | 'errors' | 'all'; on: CaptureOnAnswer[] }

/** A switch that is on. */
export type CaptureOnAnswer = CaptureAnswer & {
  kind: 'key' | 'account' | 'installation'
  id: string
  name: string | null
}

/** The switch of all keys and accounts without one of their own; null leaves the decision to `capture.default`. */
export type InstallationCaptureAnswer = { capture: CaptureAnswer | null }

/** The member `capture` of a key and of an account; null leaves the decision to what is further away. */
export const captureShape = nullable(
  object({ mode: name(CAPTURE_MODES), until: nullable(instantShape('End of it')) }, { required: ['mode'] }),
)

export const CHANGE = object({ capture: captureShape }, { required: ['capture'] })

type Given = { mode?: CaptureMode | undefined; until?: number | null | undefined } | null

/** Refuses more than sluice.yaml allows to be captured. Throws invalid_request (400). */
export function checkMost({ bodies }: AppContext, mode: CaptureMode, path: string): void {
  const most = bodies.rules.problemOf(mode)
  if (most !== undefined) throw invalid(path, `must be at most '${most}': sluice.yaml has capture.most`)
}

/** The switch that a body asks for; undefined where it says nothing. Throws invalid_request (400). */
export function readSwitch(app: AppContext, given: Given | undefined): CaptureSwitch | null | undefined {
  if (given == null) return given
  const { mode = 'off', until = null } = given
  checkMost(app, mode, 'capture.mode')
  if (until !== null && until <= app.clock.now()) throw invalid('capture.until', 'must be in the future')
  return { mode, until }
}

export async function setSwitch(
  { bodies }: AppContext,
  { caller }: ManagementRequest,
  id: string,
  value: CaptureSwitch | null | undefined,
): Promise<void> {
  const by = caller.user?.name ?? caller.key?.keyName ?? caller.id ?? ''
  if (value !== undefined) await bodies.rules.set(id, value, by)
}

/** The switch of a key, an account or the installation itself. */
export function captureOf({ bodies }: AppContext, id: string): CaptureAnswer | null {
  const found = bodies.rules.find(id)
  return found === undefined ? null : { mode: found.mode, until: timeOrNull(found.until) }
}

/** The same once `value` is set; undefined where it stays. */
export function switchAfter(
  app: AppContext,
  id: string,
  value: CaptureSwitch | null | undefined,
): CaptureAnswer | null {
  if (value === undefined) return captureOf(app, id)
  return value === null ? null : { mode: value.mode, until: timeOrNull(value.until) }
}

/** Switches that are on, of the installation, and of the keys and accounts that the caller may see. */
export async function capturesOf(app: AppContext, caller: Caller): Promise<CapturesAnswer> {
  const { most } = app.config.capture
  const on = app.bodies.isOff ? [] : [...app.bodies.rules.on()]
  if (on.length === 0) return { most, on: [] }
  const names = await namesOf(app)
  const shown = await Promise.all(
    on.map(async ({ id, mode, until }): Promise<CaptureOnAnswer[]> => {
      const of = { id, mode, until: timeOrNull(until) }
      if (id === INSTALLATION) return [{ ...of, kind: 'installation', name: null }]
      if (names.accounts.has(id))
        return caller.may('keys.read', id) ? [{ ...of, kind: 'account', name: names.accounts.get(id) ?? null }] : []
      const key = await app.store.accounts.keyWithId(id)
      const isSeen =
        key !== undefined && key.revokedAt === null && caller.may('keys.read', key.accountId, caller.owns(key))
      return isSeen ? [{ ...of, kind: 'key', name: key.name }] : []
    }),
  )
  return { most, on: shown.flat() }
}

/** `GET /v1/management/settings/capture`. */
export function getCapture(app: AppContext): Response {
  const body: InstallationCaptureAnswer = { capture: captureOf(app, INSTALLATION) }
  return versioned(body, body)
}

/** `PATCH /v1/management/settings/capture`. */
export async function changeCapture(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { capture: given = null } = await bodyOf(inbound, CHANGE)
  const before: InstallationCaptureAnswer = { capture: captureOf(app, INSTALLATION) }
  checkVersion(inbound, before)
  const capture = readSwitch(app, given) ?? null
  await changeLogged(app, inbound, () => [setSwitch(app, inbound, INSTALLATION, capture)], {
    action: 'settings.capture',
    target: INSTALLATION,
    before,
    after: { capture: switchAfter(app, INSTALLATION, capture) },
  })
  return getCapture(app)
}
