import { GatewayError } from '../error.ts'

/** A header that may have a key. */
export type KeyHeader = { name: string; keyOf: (value: string) => string | undefined }

/** The Anthropic SDK sends the second header, the Google SDK the third. */
export const KEY_HEADERS: readonly KeyHeader[] = [
  { name: 'authorization', keyOf: (value) => /^bearer +(\S+)$/i.exec(value)?.[1] },
  { name: 'x-api-key', keyOf: (value) => value },
  { name: 'x-goog-api-key', keyOf: (value) => value },
]

/**
 * The error for a request without an active key in any of its headers: the same one whatever is wrong, so that nothing
 * can be learned about which keys exist.
 */
export const invalidKey = (): GatewayError =>
  new GatewayError(
    'invalid_api_key',
    'A key of this Sluice is required, in the header "Authorization: Bearer KEY", "x-api-key" or "x-goog-api-key". ' +
      'The key is missing, malformed, unknown, expired or revoked, or one of a model provider.',
    { headers: { 'www-authenticate': 'Bearer' } },
  )
