import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import type { GenerationHooks } from '../../pipeline/hooks.ts'
import { expandStored, type NeededItems, storedTexts } from './heavy.ts'

/**
 * Hooks of `POST /v1/responses/compact`: puts stored conversations into the request. The compacted conversation is the
 * client's to send again, so it is not stored.
 */
export const compactionHooks = (app: AppContext, { identity }: AuthenticatedRequest): GenerationHooks => ({
  async beforeRead(rawRequest) {
    await expandStored(app, identity.accountId, rawRequest)
  },
  supply: (needed) =>
    storedTexts(app.store.responses, identity.accountId, needed as NeededItems, app.config.limits.bodyBytes),
})
