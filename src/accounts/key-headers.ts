import { GatewayError } from '../error.ts'

/** A header that may have a key. */
export type KeyHeader = { name: string; keyOf: (value: string) => string | undefined }

/** The Anthropic SDK sends the second header, the Google SDK the third. */
export const KEY_HEADERS: readonly KeyHeader[] = [
  { name: 'authorization', keyOf: (value) => /^bearer +(\S+)$/i.exec(value)?.[1] },
  { name: 'x-api-key', keyOf: (value) => value },
  { name: 'x-goog-api-key', keyOf: (value) => value },
]

/** Beginnings of keys that providers give out, which clients have in the same environment variables. */
const PROVIDER_KEY = /^(?:sk-(?:ant|proj|svcacct|admin|or|lf)-|AIza|gsk_|xai-|r8_|hf_|pplx-|fw_|nvapi-|AKIA)/

/** The error for a request without an active key in any of its headers. */
export function invalidKey(headers: Headers): GatewayError {
  const texts = KEY_HEADERS.flatMap(({ name, keyOf }) => keyOf(headers.get(name) ?? '') || [])
  return new GatewayError(
    'invalid_api_key',
    `${reasonOf(texts, headers.has('authorization'))}, in the header "Authorization: Bearer KEY", "x-api-key" or ` +
      '"x-goog-api-key".',
    { headers: { 'www-authenticate': 'Bearer' } },
  )
}

/**
 * The reason that the texts themselves reveal. Unknown, expired and revoked keys have the same one, so that nothing can
 * be learned about which keys exist.
 */
function reasonOf(texts: readonly string[], hasAuthorization: boolean): string {
  const [start] = texts.flatMap((text) => PROVIDER_KEY.exec(text) ?? [])
  if (start !== undefined)
    return `A key that begins with "${start}" is one of a model provider: send a key of this Sluice`
  if (texts.length > 0) return 'The API key is unknown, expired or revoked: send a valid one'
  return `${hasAuthorization ? 'The Authorization header has no Bearer key' : 'There is no API key'}: send one`
}
