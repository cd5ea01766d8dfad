import { ask } from '../../api/ask.ts'

type PlaygroundKey = { text: string; expires_at: string }

/** Made anew when it has less than this left. */
const LEAST_LEFT_MS = 60_000
/** Keys live in the memory of this page alone. */
const keys = new Map<string, PlaygroundKey>()

/** A key of this user and account that ends within the hour. */
export async function playgroundKey(account: string): Promise<string> {
  const known = keys.get(account)
  if (known !== undefined && Date.parse(known.expires_at) - Date.now() > LEAST_LEFT_MS) return known.text
  const made = await ask<PlaygroundKey>('POST', '/playground/keys', { body: { account } })
  keys.set(account, made)
  return made.text
}

/** After a refusal of the key: it was revoked, or has ended. */
export const forgetPlaygroundKey = (account: string): void => void keys.delete(account)
