import { createHash } from 'node:crypto'
import type { GenerationRequest } from '../generation/request.ts'
import type { Loss } from './protocol.ts'

/** Characters that OpenAI takes in the id of an end user and in the key of a cache. */
const LONGEST = 64

const NAMES = { user: 'user', cacheKey: 'prompt_cache_key' } as const

/**
 * The user and the cache's key as OpenAI's protocols take them: a longer one becomes a hash of itself, the same in
 * every request. Claude Code names its user in 150 characters.
 */
export function writeLabels(request: GenerationRequest, losses: Loss[]): Record<string, string> {
  const written: Record<string, string> = {}
  for (const field of ['user', 'cacheKey'] as const) {
    const responseIdentity = request[field]
    if (responseIdentity === undefined) continue
    written[NAMES[field]] =
      responseIdentity.length <= LONGEST
        ? responseIdentity
        : createHash('sha256').update(responseIdentity).digest('hex')
    if (responseIdentity.length > LONGEST)
      losses.push({
        field,
        what: 'approximated',
        why: `longer than ${LONGEST} characters, it becomes a hash of itself`,
      })
  }
  return written
}
