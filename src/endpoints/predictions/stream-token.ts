import { timingSafeEqual } from 'node:crypto'
import type { Keys } from '../../accounts/keys.ts'

/** Bytes of the part of a token that only this server can make. */
const SEAL_BYTES = 32

type Owned = { accountId: string; id: string }

const sealOf = (keys: Keys, text: string): Buffer => keys.derive('prediction stream', text)

/**
 * The last segment of a prediction's `urls.stream`, which is asked for without a key: whoever has it may follow this
 * prediction, and nobody can guess it.
 */
export function streamToken(keys: Keys, { accountId, id }: Owned): string {
  const text = `${id} ${accountId}`
  return Buffer.concat([sealOf(keys, text), Buffer.from(text)]).toString('base64url')
}

/** Which prediction a token is for. Undefined for one that this server did not make. */
export function readStreamToken(keys: Keys, token: string): Owned | undefined {
  const bytes = Buffer.from(token, 'base64url')
  const text = bytes.subarray(SEAL_BYTES).toString()
  if (bytes.length < SEAL_BYTES || !timingSafeEqual(sealOf(keys, text), bytes.subarray(0, SEAL_BYTES))) return undefined
  const [id = '', accountId = ''] = text.split(' ')
  return { id, accountId }
}
