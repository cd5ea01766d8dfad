import { createHash } from 'node:crypto'
import type { Translation } from './translation.ts'

/** Characters that OpenAI takes in the id of an end user and in the key of a cache. */
const LONGEST = 64

const NAMES = { user: 'user', cacheKey: 'prompt_cache_key' } as const

/**
 * The user and the cache's key as OpenAI's protocols take them: a longer one becomes a hash of itself, the same in
 * every request. Claude Code names its user in 150 characters.
 */
export function writeUserIds(translation: Translation): Record<string, string> {
  const written: Record<string, string> = {}
  for (const setting of ['user', 'cacheKey'] as const) {
    const id = translation.request[setting]
    if (id === undefined) continue
    const tooLong = id.length > LONGEST
    written[NAMES[setting]] = tooLong ? createHash('sha256').update(id).digest('hex') : id
    if (tooLong)
      translation.lose(
        'value_hashed',
        translation.setting(setting),
        `longer than ${LONGEST} characters: sent as a hash`,
      )
  }
  return written
}
