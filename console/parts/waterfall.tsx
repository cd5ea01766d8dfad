import { duration } from './when.ts'

export type Step = {
  label: string
  detail: string
  /** Milliseconds since the request arrived. */
  startMs: number
  endMs: number
  tone: 'served' | 'failed' | 'open'
  note: string
}

type Props = { steps: readonly Step[]; firstTokenMs: number | null; totalMs: number }

/** Attempts in time, with the first token. The texts say the same as the bars. */
export function Waterfall({ steps, firstTokenMs, totalMs }: Props) {
  const whole = Math.max(1, totalMs, ...steps.map(({ endMs }) => endMs))
  const share = (ms: number): string => `${Math.min(100, (Math.max(0, ms) / whole) * 100)}%`
  return (
    <div className="waterfall" role="list" aria-label="Attempts">
      {steps.map(({ label, detail, startMs, endMs, tone, note }, index) => (
        <div key={index} className="waterfall-step" role="listitem">
          <span className="waterfall-name">
            {label} <span className="dim">{detail}</span>
          </span>
          <span className="waterfall-track" aria-hidden="true">
            <i
              data-tone={tone}
              style={{ left: share(startMs), width: share(Math.max(endMs - startMs, whole / 200)) }}
            />
            {tone === 'served' && firstTokenMs !== null && <b style={{ left: share(firstTokenMs) }} />}
          </span>
          <span className={tone === 'failed' ? 'waterfall-note failed' : 'waterfall-note'} title={note}>
            {note}
          </span>
          <span className="number right">{duration(endMs - startMs)}</span>
        </div>
      ))}
    </div>
  )
}
