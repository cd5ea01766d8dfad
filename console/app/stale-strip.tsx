import { notifyManager, type Query, useQueryClient } from '@tanstack/react-query'
import { useCallback, useSyncExternalStore } from 'react'
import { ApiError } from '../api/ask.ts'
import { adviceFor } from '../parts/fault.tsx'
import { Icon } from '../parts/icons.tsx'
import { Id } from '../parts/id.tsx'
import { secondText } from '../parts/when.ts'
import { useZone } from '../parts/when.tsx'

/** An error of a question of the page that no part of it shows: older data are there, or it is asked again. */
function hiddenError({ state }: Query): Error | undefined {
  const error = state.fetchFailureReason ?? state.error
  return error !== null && (state.data !== undefined || state.fetchStatus !== 'idle') ? error : undefined
}

/** Why what the page shows is not of now, on every page, until all of it could be read again. */
export function StaleStrip() {
  const client = useQueryClient()
  const cache = client.getQueryCache()
  const zone = useZone()
  const failing = (): Query[] => cache.getAll().filter((query) => query.isActive() && hiddenError(query) !== undefined)
  useSyncExternalStore(
    useCallback((changed) => cache.subscribe(notifyManager.batchCalls(changed)), [cache]),
    () =>
      failing()
        .map(({ queryHash, state }) => `${queryHash} ${state.dataUpdatedAt}`)
        .join(),
  )
  const queries = failing()
  const error = queries.map(hiddenError).find((one) => one !== undefined)
  if (error === undefined) return null
  const since = Math.min(...queries.map(({ state }) => state.dataUpdatedAt).filter((at) => at > 0))
  const id = error instanceof ApiError ? error.requestId : null
  return (
    <div className="strip" role="status">
      <Icon name="alert" size={15} />
      <span className="strip-text">
        {error.message} {adviceFor(error, true)}
        {Number.isFinite(since) && ` What is shown is as of ${secondText(since, zone)}.`}
      </span>
      {id !== null && <Id id={id} />}
      <button
        type="button"
        className="link"
        onClick={() => void client.refetchQueries({ predicate: (query) => hiddenError(query) !== undefined })}
      >
        Retry
      </button>
    </div>
  )
}
