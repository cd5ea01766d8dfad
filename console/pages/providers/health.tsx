import type { ProviderHealth } from '../../api/answers.ts'
import { useProviderHealth } from '../../api/queries.ts'
import { Loaded, Loading } from '../../parts/fault.tsx'
import { oneLine, visible } from '../../parts/visible.ts'
import { count, duration, percent } from '../../parts/when.ts'
import { When } from '../../parts/when.tsx'

const AGAIN_MS = 30_000
const MINUTES = 60
const MINUTE_MS = 60_000
const [WIDTH, HEIGHT] = [240, 32]

/** The last hour of a provider: calls by the minute, first tokens, failures. */
export function Health({ id }: { id: string }) {
  const asked = useProviderHealth({ refetchInterval: AGAIN_MS })
  return (
    <div className="health">
      <Loaded asked={asked} height={64}>
        {({ data }) => {
          const health = data.find(({ provider }) => provider === id)
          // A provider that was switched on a moment ago is in the next answer.
          return health === undefined ? <Loading height={64} /> : <LastHour health={health} />
        }}
      </Loaded>
    </div>
  )
}

function LastHour({ health: { minutes, failures, open, errors } }: { health: ProviderHealth }) {
  const sum = (of: (minute: ProviderHealth['minutes'][number]) => number): number =>
    minutes.reduce((all, minute) => all + of(minute), 0)
  const [calls, failed, limited, wrong] = [
    sum((one) => one.requests),
    sum((one) => one.failed),
    sum((one) => one.rate_limited),
    sum((one) => one.wrong_requests),
  ]
  const first = minutes.findLast(({ first_token_ms }) => first_token_ms !== null)?.first_token_ms
  const more = [
    wrong === 0 ? undefined : `${count(wrong)} refused as wrong`,
    limited === 0 ? undefined : `${count(limited)} rate limited`,
    first == null ? undefined : `first token ${duration(first)}`,
    open === 0 ? undefined : `${count(open)} open now`,
  ].filter((one) => one !== undefined)
  return (
    <>
      <Minutes minutes={minutes} />
      <p className="dim number">
        {count(calls)} {calls === 1 ? 'call' : 'calls'} in the last hour
        {failed > 0 && (
          <>
            , <span className="failed">{percent(failed, calls)} failed</span>
          </>
        )}
        {more.map((one) => `, ${one}`).join('')}
      </p>
      {failures.length > 0 && (
        <p className="small">
          {failures.map(({ code, requests }) => `${visible(code)} ${count(requests)}`).join(', ')}
        </p>
      )}
      {errors.length > 0 && (
        <details>
          <summary className="small">Last errors</summary>
          <ul className="health-errors">
            {errors.map(({ at, model, code, message }, index) => (
              <li key={index}>
                <div className="health-error">
                  <span className="failed">{visible(code)}</span>
                  <span className="dim">
                    <When at={at} />
                  </span>
                </div>
                {model !== null && <b>{visible(model)} </b>}
                {oneLine(message ?? '', 160)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  )
}

/** Calls by the minute, failed ones below; the sentence under it says the same. */
function Minutes({ minutes }: { minutes: ProviderHealth['minutes'] }) {
  const last = Math.floor(Date.now() / MINUTE_MS)
  const most = Math.max(1, ...minutes.map(({ requests }) => requests))
  const step = WIDTH / MINUTES
  const bars = minutes.flatMap(({ at, requests, failed }) => {
    const index = MINUTES - 1 - (last - Math.floor(Date.parse(at) / MINUTE_MS))
    return index < 0 || index >= MINUTES ? [] : [{ index, requests, failed }]
  })
  const bar = (index: number, from: number, calls: number): string => {
    const [top, bottom] = [HEIGHT - ((from + calls) / most) * HEIGHT, HEIGHT - (from / most) * HEIGHT]
    const [left, right] = [index * step, (index + 1) * step - 1]
    return `M${left} ${bottom}V${top.toFixed(1)}H${right}V${bottom}z`
  }
  return (
    <svg className="health-minutes" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path
        className="health-good"
        d={bars.map((one) => bar(one.index, one.failed, one.requests - one.failed)).join('')}
      />
      <path className="health-failed" d={bars.map((one) => bar(one.index, 0, one.failed)).join('')} />
    </svg>
  )
}
