import { createHash } from 'node:crypto'
import type { Extras, Fields } from './fields.ts'
import type { Translation } from './translation.ts'

/** OpenAI's limit on the id of an end user and on a cache key, in characters. */
const LENGTH_MAX = 64

const FIELDS = { user: 'user', cacheKey: 'prompt_cache_key' } as const

/** The end user of a request in one of OpenAI's protocols: `safety_identifier` is the newer name of `user`. */
export function readUser(body: Fields, extras: Extras): string | undefined {
  const user = body.string('user'),
    safety = body.string('safety_identifier')
  if (user !== undefined && safety !== undefined && user !== safety) extras.safety_identifier = safety
  return user ?? safety
}

/**
 * The end user and the cache key as OpenAI's protocols accept them: a longer one is replaced by its hash, the same in
 * every request. Claude Code sends user ids of 150 characters.
 */
export function writeUserIds(translation: Translation): Record<string, string> {
  const written: Record<string, string> = {}
  for (const setting of ['user', 'cacheKey'] as const) {
    const id = translation.request[setting]
    if (id === undefined) continue
    const tooLong = id.length > LENGTH_MAX
    written[FIELDS[setting]] = tooLong ? createHash('sha256').update(id).digest('hex') : id
    if (tooLong)
      translation.lose(
        'value_hashed',
        translation.setting(setting),
        `longer than ${LENGTH_MAX} characters: sent as a hash`,
      )
  }
  return written
}
