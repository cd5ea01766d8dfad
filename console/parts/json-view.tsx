import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef, useState } from 'react'
import { Loading } from './fault.tsx'
import { jsonLines, LINE_MOST, tokensOf } from './json-lines.ts'
import { visible } from './visible.ts'
import { bytesText } from './when.ts'

/** Longer texts are cut into lines beside the page. */
const HERE_MOST = 64 * 1024
/** The characters of a text that are shown; of a longer one only the beginning is. */
const SHOWN_MOST = 2 * 1024 * 1024
const LINE_HEIGHT = 20
const HEIGHT_MOST = 520

/** JSON or another text, with every digit as it is. Only the lines that are seen are on the page. */
export function JsonView({ text, name }: { text: string; name: string }) {
  const shown = text.length > SHOWN_MOST ? text.slice(0, SHOWN_MOST) : text
  const lines = useLines(shown)
  return (
    <div className="json">
      {shown !== text && (
        <p className="json-note">
          The first {bytesText(SHOWN_MOST)} of {bytesText(text.length)}.{' '}
          <button type="button" className="link" onClick={() => download(text, name)}>
            Download all
          </button>
        </p>
      )}
      {lines === undefined ? <Loading height={200} lines={6} /> : <Lines lines={lines} name={name} />}
    </div>
  )
}

function Lines({ lines, name }: { lines: readonly string[]; name: string }) {
  const host = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => host.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 10,
    useFlushSync: false,
  })
  const height = Math.min(HEIGHT_MOST, lines.length * LINE_HEIGHT + 20)
  const shown = rows.getVirtualItems()
  return (
    <div ref={host} className="json-lines" role="region" aria-label={name} tabIndex={0} style={{ height }}>
      <div style={{ height: rows.getTotalSize() }}>
        <pre style={{ transform: `translateY(${shown[0]?.start ?? 0}px)` }}>
          {shown.map(({ index }) => (
            <Line key={index} text={lines[index] ?? ''} />
          ))}
        </pre>
      </div>
    </div>
  )
}

function Line({ text }: { text: string }) {
  const cut = text.length > LINE_MOST ? `${text.slice(0, LINE_MOST)}... (${bytesText(text.length)})` : text
  return (
    <div className="json-line">
      {tokensOf(visible(cut)).map(({ kind, text: piece }, index) => (
        <span key={index} className={kind === 'mark' ? undefined : `json-${kind}`}>
          {piece}
        </span>
      ))}
    </div>
  )
}

function useLines(text: string): readonly string[] | undefined {
  const isShort = text.length <= HERE_MOST
  const here = useMemo(() => (isShort ? jsonLines(text) : undefined), [text, isShort])
  const [beside, setBeside] = useState<{ text: string; lines: readonly string[] }>()
  useEffect(() => {
    if (isShort) return
    const path = document.querySelector<HTMLMetaElement>('meta[name=json-worker]')?.content ?? ''
    const worker = new Worker(path, { type: 'module' })
    worker.onmessage = ({ data }: MessageEvent<string[]>) => setBeside({ text, lines: data })
    worker.onerror = () => setBeside({ text, lines: text.split('\n') })
    worker.postMessage(text)
    return () => worker.terminate()
  }, [text, isShort])
  return here ?? (beside?.text === text ? beside.lines : undefined)
}

/** Saves a text as a file. */
export function download(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name.replace(/[^\w.-]+/g, '-')
  link.click()
  URL.revokeObjectURL(url)
}
