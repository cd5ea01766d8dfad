import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { pathOf, SettingsProblems } from '../../pipeline/settings/build.ts'
import type { Edit } from '../../pipeline/settings/run-time-settings.ts'
import type { SetKind, StoredObject } from '../../pipeline/settings/set-object.ts'
import { checkVersion, nothing, unknown } from './answer.ts'
import { bodyTextOf } from './body.ts'
import { logChange } from './change-log.ts'
import type { ManagementRequest } from './route.ts'

/** Providers, models and plans that are set at run time: the rules that all three share. */

/** The text that is shown in the place of a secret. Sent back, it means the one that is stored. */
export const HIDDEN = '(hidden)'

const BODY_BYTES = 256 * 1024

/**
 * An object as it was set at run time, with the members that it would have in sluice.yaml. `hidden_by`: where else it
 * is set up, which wins. `problem`: why it is not in force.
 */
export type SetAnswer = {
  value: Record<string, unknown>
  at: string
  by: string
  hidden_by: string | null
  problem: string | null
}

/** The object as it was set, without secrets; null where it was not. */
export function shownSet({ runTime }: AppContext, kind: SetKind, name: string): SetAnswer | null {
  const found = runTime.find(kind, name)
  if (found === undefined) return null
  return {
    value: withoutSecrets(found.value) as Record<string, unknown>,
    at: new Date(found.at).toISOString(),
    by: found.by,
    hidden_by: runTime.setUpBy(kind, name) ?? null,
    problem: runTime.problemOf(kind, name) ?? null,
  }
}

/** The members that decide about the version of an object that can be set. */
export const versionOf = ({ runTime }: AppContext, kind: SetKind, name: string): object => {
  const { version = 0, at = 0 } = runTime.find(kind, name) ?? {}
  return { kind, name, version, at }
}

/** A copy with `(hidden)` for the values of headers and the texts of keys. */
export function withoutSecrets(value: unknown, name = ''): unknown {
  if (name === 'headers' && isObject(value))
    return Object.fromEntries(Object.keys(value).map((header) => [header, HIDDEN]))
  if ((name === 'key' || name === 'apiKey') && typeof value === 'string') return HIDDEN
  if (Array.isArray(value)) return value.map((one) => withoutSecrets(one))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([member, of]) => [member, withoutSecrets(of, member)]))
}

/** A copy with the stored secrets where the value has `(hidden)`. Keys of a list are found by their names. */
export function withSecrets(value: unknown, stored: unknown): unknown {
  if (Array.isArray(value)) {
    const known = Array.isArray(stored) ? stored : []
    return value.map((one) =>
      isObject(one)
        ? withSecrets(
            one,
            known.find((other) => isObject(other) && other.name === one.name),
          )
        : one,
    )
  }
  if (!isObject(value)) return value
  const known = isObject(stored) ? stored : {}
  return Object.fromEntries(
    Object.entries(value).map(([name, of]) => {
      const before = Object.hasOwn(known, name) ? known[name] : undefined
      if (of !== HIDDEN) return [name, withSecrets(of, before)]
      if (typeof before !== 'string')
        throw invalid(name, `is ${HIDDEN}, but nothing is stored for it at this address: send it`)
      return [name, before]
    }),
  )
}

/** A value changed by another one: members that are null are removed, all others replace, mappings one by one. */
export function patched(value: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const result: Record<string, unknown> = Object.assign(Object.create(null), isObject(value) ? value : {})
  for (const [name, member] of Object.entries(patch)) {
    if (member === null) delete result[name]
    else result[name] = patched(result[name], member)
  }
  return result
}

/** The body of a change, an object, which is validated with everything else that is set. */
export async function objectOf(inbound: ManagementRequest): Promise<Record<string, unknown>> {
  const value: unknown = JSON.parse(await bodyTextOf(inbound, BODY_BYTES))
  if (!isObject(value)) throw invalid('body', 'must be a JSON object')
  return value
}

/** A change of one object. `edits`: all that are made with it, from what is stored; `action` for the change log. */
type ObjectChange = {
  kind: SetKind
  name: string
  action: string
  edits: (before: StoredObject | undefined) => Edit[]
}

/** The name of who makes a change. */
export const byOf = ({ caller: { user, key, id } }: ManagementRequest): string => user?.name ?? key?.keyName ?? id ?? ''

/** Makes a change, logs it, and gives errors the paths of the request's body. */
export async function changeObject(
  app: AppContext,
  inbound: ManagementRequest,
  { kind, name, action, edits }: ObjectChange,
): Promise<void> {
  const { runTime } = app
  let [before, after]: (object | undefined)[] = []
  const edit = (): Edit[] => {
    const setIn = runTime.setUpBy(kind, name)
    if (setIn !== undefined) throw setInFile(name, setIn)
    const stored = runTime.find(kind, name)
    // An object that was not set yet has no version that a caller could have missed.
    if (kind !== 'provider-key' && (stored !== undefined || inbound.request.headers.has('if-match')))
      checkVersion(inbound, versionOf(app, kind, name))
    const made = edits(stored)
    before = shown(kind, stored?.value)
    after = made.map((one) => shown(one.kind, one.value)).reduce((all, one) => ({ ...one, ...all }))
    return made
  }
  try {
    await runTime.change(byOf(inbound), edit, () => logChange(app, inbound, { action, target: name, before, after }))
  } catch (error) {
    throw error instanceof SettingsProblems ? refusal(error, pathOf(kind, name)) : error
  }
}

/** For the change log. */
function shown(kind: SetKind, value: unknown): object | undefined {
  if (kind === 'provider-key') return { key: value === undefined ? null : HIDDEN }
  return value === undefined ? undefined : (withoutSecrets(value) as object)
}

const setInFile = (name: string, where: string): GatewayError =>
  new GatewayError('set_in_file', `${name} is set up by ${where}: change it there.`)

/** The first problem with its path in the body, and all of them in the error's metadata. */
export function refusal({ problems }: SettingsProblems, base: string): GatewayError {
  const own = problems.map(({ path, message }) => ({
    path: path === base ? '' : path.startsWith(`${base}.`) ? path.slice(base.length + 1) : path,
    message,
  }))
  const [{ path, message } = { path: '', message: 'is not valid' }] = own
  return invalid(path === '' ? 'body' : path, message).with({ metadata: { problems: own } })
}

/** Routes that replace and remove an object of a kind. `after`: its answer. */
export const routesOf = (
  kind: 'model' | 'plan',
  after: (app: AppContext, inbound: ManagementRequest) => Promise<Response> | Response,
  checkRemoval: (app: AppContext, name: string) => Promise<void> = async () => {},
) => ({
  put: async (app: AppContext, inbound: ManagementRequest): Promise<Response> => {
    const [name = ''] = inbound.params
    const value = await objectOf(inbound)
    await changeObject(app, inbound, { kind, name, action: `${kind}.set`, edits: () => [{ kind, name, value }] })
    return after(app, inbound)
  },
  remove: async (app: AppContext, inbound: ManagementRequest): Promise<Response> => {
    const [name = ''] = inbound.params
    await checkRemoval(app, name)
    await removeObject(app, inbound, kind, name)
    return nothing()
  },
})

/** Removes an object that was set. Throws not_found (404). */
export const removeObject = (
  app: AppContext,
  inbound: ManagementRequest,
  kind: SetKind,
  name: string,
  also: Edit[] = [],
): Promise<void> =>
  changeObject(app, inbound, {
    kind,
    name,
    action: `${kind}.remove`,
    edits: (stored) => {
      if (stored === undefined) throw unknown(`${kind} that was set in the console`)
      return [{ kind, name, value: undefined }, ...also]
    },
  })
