import type { Auth } from '../config/provider-settings.ts'
import type { Api } from '../config/provider-terms.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { Provider } from './catalogue.ts'

/** APIs that only some models of a provider have. */
const SPECIAL_APIS: readonly Api[] = ['images', 'predictions']

/** Capabilities that an API implies. */
export const API_CAPABILITIES: Partial<Record<Api, Capabilities>> = {
  images: { api: 'images', output: ['image'] },
  predictions: { api: 'predictions' },
}

/** The API for a model: the required one, else the preferred one, else the provider's first. */
export function apiOf(
  { apis }: Provider,
  required: Api | undefined,
  preferred: Api,
): Provider['apis'][number] | undefined {
  if (required !== undefined) return apis.find(({ protocol }) => protocol === required)
  const general = apis.filter(({ protocol }) => !SPECIAL_APIS.includes(protocol))
  return (general.length > 0 ? general : apis).find(({ protocol }) => protocol === preferred) ?? general[0] ?? apis[0]
}

/** The header with the key; empty without a key. */
export function credentials(auth: Auth, apiKey: string | undefined): Record<string, string> {
  if (apiKey === undefined || apiKey === '' || auth === 'none') return {}
  return auth === 'bearer' ? { authorization: `Bearer ${apiKey}` } : { [auth]: apiKey }
}
