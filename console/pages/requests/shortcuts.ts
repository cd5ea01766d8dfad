import { useEffect, useRef } from 'react'
import { isTyping } from '../../app/keyboard.tsx'

/** Keys of a list: `j`, `k`, `enter`, `c`, `esc`, `[`, `]`. */
export type ListKeys = {
  move(by: number): void
  open(): void
  copy(): void
  close(): void
  step(by: number): void
}

export function useListKeys(keys: ListKeys): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event)) return
      const act = ACTS[event.key]
      if (act === undefined || isOwnKey(event)) return
      act(latest.current)
      if (event.key !== 'Escape') event.preventDefault()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
}

/** A button or link acts on Enter itself. */
const isOwnKey = ({ key, target }: KeyboardEvent): boolean =>
  key === 'Enter' && (target as HTMLElement).closest('button, a, summary') !== null

const ACTS: Record<string, ((keys: ListKeys) => void) | undefined> = {
  j: ({ move }) => move(1),
  k: ({ move }) => move(-1),
  ArrowDown: ({ move }) => move(1),
  ArrowUp: ({ move }) => move(-1),
  Enter: ({ open }) => open(),
  c: ({ copy }) => copy(),
  Escape: ({ close }) => close(),
  '[': ({ step }) => step(-1),
  ']': ({ step }) => step(1),
}
