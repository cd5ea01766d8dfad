import type { RequestRow } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { OUTCOME_WORDS } from '../../parts/outcomes.ts'
import { visible } from '../../parts/visible.ts'
import { duration } from '../../parts/when.ts'
import { useNow, When } from '../../parts/when.tsx'
import { endSentence } from '../request/sentence.ts'

const MOST_RUNNING = 7

/** Requests in flight, the newest first, each with a running clock. */
export function Running({ rows }: { rows: readonly RequestRow[] }) {
  const now = useNow(rows.length > 0)
  const { may } = useSigned()
  if (rows.length === 0)
    return (
      <Empty icon="clock" title={may.seeOthers ? 'Nothing is running' : 'No request of your keys is running'}>
        A request appears here when it begins.
      </Empty>
    )
  return (
    <ul className="rows">
      {rows.slice(0, MOST_RUNNING).map(({ id, model, key, at }) => (
        <li key={id}>
          <To path={`/requests?request=${id}`} className="rows-link">
            <span className="running" aria-hidden="true" />
            <span className="rows-main">{visible(model ?? 'no model')}</span>
            <span className="dim rows-side">{visible(key?.name ?? 'no key')}</span>
            <span className="number">{duration(Math.max(0, now - Date.parse(at)))}</span>
          </To>
        </li>
      ))}
      {rows.length > MOST_RUNNING && (
        <li>
          <To path="/requests?outcome=open" className="rows-link">
            <span className="link">{rows.length - MOST_RUNNING} more</span>
          </To>
        </li>
      )}
    </ul>
  )
}

export function Failures({ rows }: { rows: readonly RequestRow[] }) {
  const { may } = useSigned()
  if (rows.length === 0)
    return (
      <Empty icon="check" title={may.seeOthers ? 'Nothing has failed' : 'No request of your keys has failed'}>
        Requests that a provider failed or that were refused appear here.
      </Empty>
    )
  return (
    <ul className="rows">
      {rows.map((row) => (
        <li key={row.id}>
          <To path={`/requests?request=${row.id}`} className="rows-link rows-failure">
            <span className="dim rows-time">
              <When at={row.at} />
            </span>
            <span className={`rows-state ${row.outcome === 'refused' ? 'refused' : 'failed'}`}>
              {OUTCOME_WORDS[row.outcome]}
            </span>
            <span className="rows-main">
              {visible(row.model ?? 'no model')}
              <span className="dim"> {visible(row.error?.message ?? endSentence(row))}</span>
            </span>
          </To>
        </li>
      ))}
    </ul>
  )
}
