import type { Speed } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { Empty } from '../../parts/empty.tsx'
import { visible } from '../../parts/visible.ts'
import { count, duration } from '../../parts/when.ts'

const MOST_SHOWN = 5

/** The most used first. */
export const byUse = ({ data }: Speed): Speed['data'] =>
  data.toSorted((one, other) => other.total.requests - one.total.requests)

/** The times in which models have begun to answer in the range. */
export function Speeds({ speed }: { speed: Speed }) {
  if (speed.data.length === 0)
    return (
      <Empty icon="clock" title="No streams yet">
        First-token times of completed streams appear here by model.
      </Empty>
    )
  return (
    <table className="table">
      <thead>
        <tr>
          <th>Model</th>
          <th className="right">Streams</th>
          <th className="right">Median</th>
          <th className="right">p95</th>
        </tr>
      </thead>
      <tbody>
        {byUse(speed)
          .slice(0, MOST_SHOWN)
          .map(({ provider, model, total }) => (
            <tr key={`${provider} ${model}`}>
              <td className="cut-rest" title={provider === null ? model : `${model} at ${provider}`}>
                <To path={`/requests?model=${encodeURIComponent(model)}`} className="link">
                  {visible(model)}
                </To>
                {provider !== null && <span className="dim"> {visible(provider)}</span>}
              </td>
              <td className="right number">{count(total.requests)}</td>
              <td className="right number">{duration(total.first_token_ms.p50)}</td>
              <td className="right number dim">{duration(total.first_token_ms.p95)}</td>
            </tr>
          ))}
      </tbody>
    </table>
  )
}
