import { Button, Skeleton } from '@mantine/core'
import { type ReactNode, useEffect, useState } from 'react'
import { ApiError } from '../api/ask.ts'
import { Icon } from './icons.tsx'
import { Id } from './id.tsx'

/** The next step after an error, by its status. `isRead`: of something that the page shows, not of a change. */
export function adviceFor(error: Error, isRead: boolean): string | undefined {
  if (!(error instanceof ApiError)) return 'Load the page again: the console may have been updated since it was opened.'
  if (error.status === 0) return 'The page tries again. If the server was stopped, start it with npm start.'
  if (error.status === 403) return 'Ask an admin of this installation for the role that it names.'
  if (error.code === 'model_not_found') return 'The page Models lists those that are on.'
  if (error.status === 404 && isRead)
    return 'It was deleted, is older than what is kept, or belongs to an account of others.'
  if (error.status === 409 && error.code === 'conflict') return 'Load the page again, and repeat the change.'
  if (error.status === 422 || error.status === 429) return 'Wait a moment, then retry.'
  if (error.status < 500) return undefined
  return error.requestId === null
    ? 'The log of the server, or of a proxy before it, has the cause.'
    : 'The log of the server has the cause under this request id.'
}

/** An error in place of the part that failed: the sentence, what to do, the id of the request, a button to retry. */
export function Fault({ error, retry }: { error: Error; retry?: () => unknown }) {
  const id = error instanceof ApiError ? error.requestId : null
  const advice = adviceFor(error, retry !== undefined)
  return (
    <div className="fault" role="alert">
      <span className="fault-icon">
        <Icon name="alert" size={18} />
      </span>
      <div>
        <p className="fault-text">{error.message}</p>
        {advice !== undefined && <p className="fault-advice">{advice}</p>}
        <div className="fault-foot">
          {retry !== undefined && (
            <Button size="compact-sm" variant="default" onClick={() => void retry()}>
              Retry
            </Button>
          )}
          {id !== null && <Id id={id} />}
        </div>
      </div>
    </div>
  )
}

const SKELETON_AFTER_MS = 150

/** Space of the final size, which begins to show after a moment: a quick answer draws nothing before it. */
export function Loading({ height, lines = 1 }: { height: number; lines?: number }) {
  const [shown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), SKELETON_AFTER_MS)
    return () => clearTimeout(timer)
  }, [])
  const each = lines === 1 ? height : height / lines - 12
  return (
    <div role="status" className="loading" style={{ minHeight: height }} aria-busy="true" aria-label="Loading">
      {shown && Array.from({ length: lines }, (_, index) => <Skeleton key={index} height={each} radius={4} />)}
    </div>
  )
}

type Asked<T> = { data: T | undefined; error: Error | null; refetch(): unknown }

/** The state of a question: its data, the space for them, or its error. Older data stay while new ones come. */
export function Loaded<T>({
  asked,
  height = 120,
  lines = 1,
  children,
}: {
  asked: Asked<T>
  height?: number
  lines?: number
  children: (data: T) => ReactNode
}) {
  if (asked.data !== undefined) return <>{children(asked.data)}</>
  if (asked.error !== null) return <Fault error={asked.error} retry={asked.refetch} />
  return <Loading height={height} lines={lines} />
}
