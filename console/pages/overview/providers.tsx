import type { Speed } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { Empty } from '../../parts/empty.tsx'
import { count, duration } from '../../parts/when.ts'

/** How fast each provider has answered in the range. */
export function ProviderSpeeds({ speed }: { speed: Speed }) {
  if (speed.groups.length === 0)
    return (
      <Empty icon="provider" title="No provider has answered">
        First-token times appear here by provider.
      </Empty>
    )
  return (
    <table className="table">
      <thead>
        <tr>
          <th>Provider</th>
          <th className="right">Requests</th>
          <th className="right">First token</th>
          <th className="right">p95</th>
        </tr>
      </thead>
      <tbody>
        {speed.groups.map(({ key, label, total }) => (
          <tr key={key}>
            <td className="cut">
              <To path={`/requests?provider=${encodeURIComponent(key)}`} className="link">
                {label ?? key}
              </To>
            </td>
            <td className="right number">{count(total.requests)}</td>
            <td className="right number">{duration(total.p50_ms)}</td>
            <td className="right number dim">{duration(total.p95_ms)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
