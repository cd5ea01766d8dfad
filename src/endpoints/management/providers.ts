import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { isLoopback } from '../../http/addresses.ts'
import { hostAndPort, publicUrlProblem } from '../../http/ssrf-guard.ts'
import type { Edit } from '../../pipeline/settings/run-time-settings.ts'
import { nothing } from './answer.ts'
import { getProvider } from './catalogue.ts'
import { checkKey } from './provider-keys.ts'
import type { ManagementRequest } from './route.ts'
import { changeObject, objectOf, patched, removeObject, withoutSecrets, withSecrets } from './set-objects.ts'

type Members = Record<string, unknown>

/** `PUT /v1/management/providers/{id}`: takes the value of `providers.<id>` in sluice.yaml. */
export const putProvider = (app: AppContext, inbound: ManagementRequest): Promise<Response> =>
  change(app, inbound, (_, body) => body)

/** `PATCH /v1/management/providers/{id}`: members that are null are removed. */
export const patchProvider = (app: AppContext, inbound: ManagementRequest): Promise<Response> =>
  change(app, inbound, (stored, body) => patched(stored, body) as Members)

/** `DELETE /v1/management/providers/{id}`, with its key. */
export async function removeProvider(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const [id = ''] = inbound.params
  await removeObject(app, inbound, 'provider', id, [{ kind: 'provider-key', name: id, value: undefined }])
  return nothing()
}

async function change(
  app: AppContext,
  inbound: ManagementRequest,
  valueOf: (stored: unknown, body: Members) => Members,
): Promise<Response> {
  const [name = ''] = inbound.params
  const { apiKey, ...body } = await objectOf(inbound)
  await changeObject(app, inbound, {
    kind: 'provider',
    name,
    action: 'provider.set',
    edits: (stored) => {
      const before = stored?.value as Members | undefined
      const next = valueOf(withoutSecrets(before), body)
      // A secret is not sent to an address that it was not set for: who changes one would learn the other.
      const isSame = next.baseUrl === before?.baseUrl
      if (!isSame && apiKey === undefined && app.runTime.find('provider-key', name) !== undefined)
        throw invalid('apiKey', 'is required where baseUrl changes: the stored key is not sent to another address')
      const value = withSecrets(next, isSame ? before : undefined) as Members
      checkBaseUrl(app, value.baseUrl)
      return keyEdits(app, name, value, apiKey)
    },
  })
  return getProvider(app, inbound)
}

/** The one key of a provider is stored apart from it, so that it stays when the rest changes; null removes it. */
function keyEdits(app: AppContext, name: string, value: Members, apiKey: unknown): Edit[] {
  if (apiKey === undefined) return [{ kind: 'provider', name, value }]
  // The reader of the whole has a message for a value that is no key.
  if (apiKey !== null && (typeof apiKey !== 'string' || !/^[\x21-\x7e]+$/.test(apiKey)))
    return [{ kind: 'provider', name, value: { ...value, apiKey } }]
  if (apiKey !== null && value.baseUrl === undefined && value.enabled !== false) checkKey(app, name, apiKey)
  return [
    { kind: 'provider', name, value },
    { kind: 'provider-key', name, value: apiKey ?? undefined },
  ]
}

/**
 * Refuses the address of a machine that only this network reaches, unless the file allows it: the console must not be a
 * way around it. Loopback is allowed where Sluice listens on loopback alone.
 */
function checkBaseUrl({ config }: AppContext, baseUrl: unknown): void {
  const url = typeof baseUrl === 'string' ? URL.parse(baseUrl) : null
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return
  const { private: hosts } = config.fetch
  if (hosts.includes(url.hostname) || hosts.includes(hostAndPort(url))) return
  if (isLoopback(withoutBrackets(url.hostname)) && isLoopback(withoutBrackets(config.listen.host))) return
  const onAnyPort = new URL(url)
  onAnyPort.port = ''
  if (publicUrlProblem(onAnyPort.href, { private: [] }) === undefined) return
  throw invalid(
    'baseUrl',
    `must be a public address; to allow this one, add to sluice.yaml: fetch: { private: ['${hostAndPort(url)}'] }`,
  )
}

const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, '')
