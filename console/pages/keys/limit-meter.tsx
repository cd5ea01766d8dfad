import type { Key } from '../../api/answers.ts'
import { exactUsd, headUsd, sharePercent } from '../../parts/money.ts'

/** The spent part of the limit of a key, as a bar; without a limit, the amount. */
export function LimitMeter({ row }: { row: Key }) {
  const { limit_usd, limit_period, spent_usd } = row
  if (limit_usd === null)
    return spent_usd === null ? (
      <span className="dim">none</span>
    ) : (
      <span className="number" title={exactUsd(spent_usd)}>
        {headUsd(spent_usd)} <span className="dim">spent</span>
      </span>
    )
  const share = sharePercent(spent_usd, limit_usd)
  const state = share >= 100 ? 'full' : share >= 80 ? 'near' : 'free'
  const text = `${headUsd(spent_usd ?? '0')} of ${headUsd(limit_usd)}`
  return (
    <span className={`meter meter-${state}`} title={`${exactUsd(spent_usd ?? '0')} of ${exactUsd(limit_usd)}`}>
      <span
        className="meter-bar"
        role="meter"
        aria-label="Limit"
        aria-valuenow={share}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuetext={`${text} USD`}
      >
        <i style={{ width: `${share}%` }} />
      </span>
      <span className="number">
        {text}
        {limit_period !== null && <span className="dim"> a {limit_period}</span>}
      </span>
    </span>
  )
}
