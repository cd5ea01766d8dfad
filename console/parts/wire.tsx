import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, useState } from 'react'
import type { Frame } from './frames.ts'
import { JsonView } from './json-view.tsx'
import { oneLine, visible } from './visible.ts'
import { count, duration } from './when.ts'

type Http = { status: number; headers: readonly [string, string][] }
type Props = { http: Http | undefined; frames: readonly Frame[]; body: string }

/** A response on the wire: status and headers, then the frames with their times, or the body. */
export function Wire({ http, frames, body }: Props) {
  if (http === undefined) return <p className="dim">Nothing has come yet.</p>
  return (
    <>
      <WireHead first={`HTTP ${http.status}`} headers={http.headers} />
      {frames.length > 0 ? <Frames frames={frames} /> : <JsonView text={body} name="response.json" />}
    </>
  )
}

/** The first line of a message, and its headers behind it. */
export function WireHead({ first, headers }: { first: string; headers: readonly [string, string][] }) {
  return (
    <details className="wire-head">
      <summary>
        <code>{visible(first)}</code>, {count(headers.length)} headers
      </summary>
      <pre>
        {headers.map(([name, value], index) => (
          <span key={index}>
            <span className="dim">{visible(name)}:</span> {visible(value)}
            {'\n'}
          </span>
        ))}
      </pre>
    </details>
  )
}

const FRAME_HEIGHT = 26
const HEIGHT_MOST = 460

/** Frames of a stream with their times; one of them in full. */
export function Frames({ frames }: { frames: readonly Frame[] }) {
  const host = useRef<HTMLDivElement>(null)
  const [chosen, setChosen] = useState<number>()
  const rows = useVirtualizer({
    count: frames.length,
    getScrollElement: () => host.current,
    estimateSize: () => FRAME_HEIGHT,
    overscan: 8,
    useFlushSync: false,
  })
  const shown = rows.getVirtualItems()
  const frame = chosen === undefined ? undefined : frames[chosen]
  return (
    <>
      <div
        ref={host}
        className="wire-frames"
        role="region"
        aria-label={`${frames.length} frames`}
        tabIndex={0}
        style={{ height: Math.min(HEIGHT_MOST, frames.length * FRAME_HEIGHT + 2) }}
      >
        <div style={{ height: rows.getTotalSize() }}>
          <div style={{ transform: `translateY(${shown[0]?.start ?? 0}px)` }}>
            {shown.map(({ index }) => (
              <button
                key={index}
                type="button"
                className="wire-frame"
                aria-pressed={index === chosen}
                onClick={() => setChosen(index === chosen ? undefined : index)}
              >
                <span className="number dim">{duration(frames[index]?.atMs)}</span>
                <span className="wire-data">
                  {frames[index]?.event !== undefined && <b>{oneLine(frames[index]?.event ?? '', 60)} </b>}
                  {oneLine(frames[index]?.data || frames[index]?.raw || '', 160)}
                </span>
              </button>
            ))}
          </div>
        </div>
      </div>
      {frame !== undefined && <JsonView text={frame.data || frame.raw} name={`frame-${chosen}.json`} />}
    </>
  )
}
