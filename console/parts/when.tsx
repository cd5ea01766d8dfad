/** Times, always in the zone that the bar shows. */
import { useEffect, useState, useSyncExternalStore } from 'react'
import { agoText, whenText, type Zone } from './when.ts'

const STORED = 'sluice-zone'
const BROWSER_ZONE: Zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'
const listeners = new Set<() => void>()
let zone = storedZone()

function storedZone(): Zone {
  try {
    return localStorage.getItem(STORED) === 'UTC' ? 'UTC' : BROWSER_ZONE
  } catch {
    return BROWSER_ZONE
  }
}

export function setZone(next: 'UTC' | 'browser'): void {
  zone = next === 'UTC' ? 'UTC' : BROWSER_ZONE
  try {
    localStorage.setItem(STORED, next)
  } catch {}
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** The chosen zone: also the `tz` of questions about usage. */
export const useZone = (): Zone => useSyncExternalStore(subscribe, () => zone)
export const browserZone = BROWSER_ZONE

export function When({ at }: { at: string | null }) {
  const chosen = useZone()
  if (at === null) return <span className="dim">-</span>
  return (
    <time className="number" dateTime={at} title={at}>
      {whenText(Date.parse(at), chosen, Date.now())}
    </time>
  )
}

/** The time, once a second while something is shown that runs. */
export function useNow(isRunning: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isRunning) return
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [isRunning])
  return now
}

/** The distance from now, as of when it was drawn: for columns such as "last used". */
export function Ago({ at, never = 'never' }: { at: string | null; never?: string }) {
  if (at === null) return <span className="dim">{never}</span>
  return (
    <time className="number" dateTime={at} title={at}>
      {agoText(Date.parse(at), Date.now())}
    </time>
  )
}
