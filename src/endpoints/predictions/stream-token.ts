import { timingSafeEqual } from 'node:crypto'
import type { Keys } from '../../accounts/keys.ts'

/** The part of a token that only this server can compute. */
const SIGNATURE_BYTES = 32

type Owned = { accountId: string; id: string }

const signatureOf = (keys: Keys, text: string): Buffer => keys.derive('prediction stream', text)

/**
 * The last segment of a prediction's `urls.stream`, which is requested without a key: anyone who has it may follow this
 * prediction, and no one can guess it.
 */
export function streamToken(keys: Keys, { accountId, id }: Owned): string {
  const text = `${id} ${accountId}`
  return Buffer.concat([signatureOf(keys, text), Buffer.from(text)]).toString('base64url')
}

/** The prediction that a token is for. Undefined for a token that this server did not make. */
export function readStreamToken(keys: Keys, token: string): Owned | undefined {
  const bytes = Buffer.from(token, 'base64url')
  const text = bytes.subarray(SIGNATURE_BYTES).toString()
  if (bytes.length < SIGNATURE_BYTES || !timingSafeEqual(signatureOf(keys, text), bytes.subarray(0, SIGNATURE_BYTES)))
    return undefined
  const [id = '', accountId = ''] = text.split(' ')
  return { id, accountId }
}
