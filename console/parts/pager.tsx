import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Query } from '../api/ask.ts'

/** The cursors of the turned pages of a question. Another question begins with its first page. */
export function useCursors(question: Query): [cursors: readonly string[], turn: (cursors: readonly string[]) => void] {
  const key = JSON.stringify(question)
  const [turned, setTurned] = useState<{ key: string; cursors: readonly string[] }>({ key, cursors: [] })
  return [turned.key === key ? turned.cursors : [], (cursors) => setTurned({ key, cursors })]
}

type Props = {
  /** Where the next page begins; null at the end. */
  next: string | null
  /** Where the pages up to this one begin, without the first. */
  cursors: readonly string[]
  onTurn(cursors: string[]): void
}

/** Turns the pages of a list that is read by cursor; nothing where all is on one page. */
export function Pager({ next, cursors, onTurn }: Props) {
  if (next === null && cursors.length === 0) return null
  return (
    <div className="pager">
      <Button
        size="compact-sm"
        variant="default"
        disabled={cursors.length === 0}
        onClick={() => onTurn(cursors.slice(0, -1))}
      >
        Back
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        disabled={next === null}
        onClick={() => next !== null && onTurn([...cursors, next])}
      >
        Next
      </Button>
    </div>
  )
}
