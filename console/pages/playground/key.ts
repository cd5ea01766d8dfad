import { ask } from '../../api/ask.ts'

type PlaygroundKey = { text: string; expires_at: string }

/** `until`: Unix milliseconds, after which another one is asked for. */
type KeptKey = { key: Promise<PlaygroundKey>; until: number }

/** A key is not used for the last of its time. */
const LEAST_LEFT_MS = 60_000
/** Keys live in the memory of this page alone. Columns that begin together wait for the same one. */
const keys = new Map<string, KeptKey>()

/** A key of this user and account that ends within the hour. */
export async function playgroundKey(account: string): Promise<string> {
  const known = keys.get(account)
  const kept = known !== undefined && known.until > Date.now() ? known : askFor(account)
  return (await kept.key).text
}

function askFor(account: string): KeptKey {
  const kept: KeptKey = { key: ask('POST', '/playground/keys', { body: { account } }), until: Infinity }
  keys.set(account, kept)
  kept.key.then(
    ({ expires_at }) => {
      kept.until = Date.parse(expires_at) - LEAST_LEFT_MS
    },
    () => forgetPlaygroundKey(account),
  )
  return kept
}

/** After a refusal of the key: it was revoked, or has ended. */
export const forgetPlaygroundKey = (account: string): void => void keys.delete(account)
