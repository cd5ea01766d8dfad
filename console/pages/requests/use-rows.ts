import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react'
import { ask, type Query } from '../../api/ask.ts'
import type { RequestRow } from '../../api/answers.ts'
import { follow, type StreamState } from '../../api/stream.ts'
import { RowStore, type RowPage, type RowsState } from './row-store.ts'

const PAGE_ROWS = 100
/** After rows were left out by the server, the newest page is read again. */
const CATCH_UP_MS = 3000

export type Rows = { store: RowStore; stream: StreamState | undefined }

/** The state of the rows, for the parts that show it: the page around them is not drawn with it. */
export const useRowsState = ({ store }: Rows): RowsState => useSyncExternalStore(store.subscribe, store.state)

/**
 * The rows of a question. Those of the former one stay until there are new ones. `range`: part of the question for
 * pages, not for the stream, which begins now.
 */
export function useRows(filters: Query, range: Query, isLive: boolean): Rows {
  const key = JSON.stringify([filters, range])
  const store = useMemo(
    () =>
      new RowStore((cursor, signal) =>
        ask<RowPage>('GET', '/requests', { query: { ...filters, ...range, limit: PAGE_ROWS, cursor }, signal }),
      ),
    [key],
  )
  const [shown, setShown] = useState(store)
  useEffect(() => {
    store.restart()
    const forget = store.subscribe(() => {
      if (!store.state().isLoading) setShown(store)
    })
    return () => {
      forget()
      store.close()
    }
  }, [store])
  const stream = useStream(store, filters, isLive)
  return { store: shown, stream }
}

function useStream(store: RowStore, filters: Query, isLive: boolean): StreamState | undefined {
  const [stream, setStream] = useState<StreamState>()
  const catchUp = useCatchUp(store)
  useEffect(() => {
    if (!isLive) return setStream(undefined)
    const ended = new AbortController()
    let hasGap = false
    const onState = (state: StreamState): void => {
      if (ended.signal.aborted) return
      setStream(state)
      // Events from before a connection are not repeated.
      if (state === 'open' && (hasGap || !store.state().isLoading)) void store.refresh()
      hasGap ||= state !== 'connecting'
    }
    const onEvent = ({ event, data }: { event: string; data: unknown }): void => {
      if (event === 'dropped') {
        store.drop((data as { count: number }).count)
        catchUp()
      } else if (event === 'opened' || event === 'closed' || event === 'refused') store.put(data as RequestRow)
    }
    void follow('/requests/stream', filters, { onEvent, onState }, ended.signal)
    return () => ended.abort()
  }, [store, isLive, catchUp])
  return stream
}

function useCatchUp(store: RowStore): () => void {
  const timer = useMemo(() => ({ id: undefined as ReturnType<typeof setTimeout> | undefined }), [store])
  useEffect(() => () => clearTimeout(timer.id), [timer])
  return useCallback(() => {
    timer.id ??= setTimeout(() => {
      timer.id = undefined
      if (store.isAtTop) void store.refresh()
    }, CATCH_UP_MS)
  }, [store, timer])
}
