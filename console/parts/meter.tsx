import { percent, shortCount } from './when.ts'
import { Ago } from './when.tsx'

/** `unit`: of the amounts, which are shown then. */
type Props = { name: string; used: number; limit: number; resets_at?: string | null; unit?: string }

const NAMES: Record<string, string> = { '5_hour': '5 hours', '7_day': '7 days', monthly: 'month' }

/** A quota window in words. */
export const windowName = (name: string): string => NAMES[name] ?? name

/** The used part of a limit: a bar that is read out, and changes its colour towards the end. */
export function Meter({ name, used, limit, resets_at, unit }: Props) {
  const share = limit <= 0 ? 100 : Math.min(100, (used / limit) * 100)
  const state = share >= 100 ? 'full' : share >= 80 ? 'near' : 'free'
  const label = `${shortCount(used)} of ${shortCount(limit)}`
  return (
    <span className={`meter meter-${state}`}>
      <span className="meter-name">{windowName(name)}</span>
      <span
        className="meter-bar"
        role="meter"
        aria-label={name}
        aria-valuenow={Math.round(share)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuetext={`${percent(used, limit)}, ${label}`}
        title={label}
      >
        <i style={{ width: `${share}%` }} />
      </span>
      <span className="meter-text number">
        {percent(used, limit)}
        {unit !== undefined && <span className="dim">{`, ${label} ${unit}`}</span>}
        {resets_at != null && (
          <span className="dim">
            , resets <Ago at={resets_at} />
          </span>
        )}
      </span>
    </span>
  )
}
