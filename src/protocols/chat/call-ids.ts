import { createHash } from 'node:crypto'
import type { Quirks } from '../quirks.ts'

/** The longest id of a tool call that OpenAI accepts. */
const LONGEST = 64

/** A call id that the provider accepts, another one as a hash; the same for a call and its result. */
export function acceptedId(id: string, { callIds }: Quirks): string {
  if (callIds !== 'alphanumeric-9')
    return id !== '' && id.length <= LONGEST ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`
  return /^[a-zA-Z0-9]{9}$/.test(id)
    ? id
    : createHash('sha256')
        .update(id)
        .digest('base64')
        .replace(/[^a-zA-Z0-9]/g, '')
        .slice(0, 9)
}
