import { headUsd } from '../../parts/money.ts'
import { visible } from '../../parts/visible.ts'
import { count, duration } from '../../parts/when.ts'
import { diffLines } from './diff.ts'
import type { RunState } from './run.ts'

type Props = { models: readonly string[]; runs: readonly (RunState | undefined)[] }

/** Times, tokens and cost of the answers, and where the first two differ. */
export function Comparison({ models, runs }: Props) {
  const [one, other] = runs
  return (
    <section className="panel" aria-label="Comparison">
      <header className="panel-head">
        <h2>Comparison</h2>
      </header>
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Figures">
        <table className="table">
          <thead>
            <tr>
              <th>Model</th>
              {['First', 'Total', 'In', 'Out', 'Cost, USD', 'Lost'].map((name) => (
                <th key={name} className="right">
                  {name}
                </th>
              ))}
              <th>End</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run, index) => (
              <tr key={index}>
                <td className="cut">{visible(models[index] ?? '')}</td>
                <td className="right number">{duration(run?.firstMs)}</td>
                <td className="right number">{duration(run?.totalMs)}</td>
                <td className="right number">{count(run?.answer.usage?.input)}</td>
                <td className="right number">{count(run?.answer.usage?.output)}</td>
                <td className="right number">{headUsd(run?.record?.cost_usd ?? null)}</td>
                <td className="right number">{count(run?.record?.losses)}</td>
                <td className={run?.status === 'failed' ? 'failed' : undefined}>
                  {run?.status === 'done' ? (run.answer.finish ?? 'done') : (run?.status ?? 'running')}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {one?.status === 'done' && other?.status === 'done' && (
        <Difference one={one.answer.text} other={other.answer.text} names={models} />
      )}
    </section>
  )
}

function Difference({ one, other, names }: { one: string; other: string; names: readonly string[] }) {
  const lines = diffLines(one, other)
  if (lines.every(({ side }) => side === 'both'))
    return <p className="dim playground-note">Both answers are the same.</p>
  return (
    <>
      <p className="dim playground-note">
        - {visible(names[0] ?? '')}, + {visible(names[1] ?? '')}
      </p>
      <pre className="diff">
        {lines.map(({ side, text }, index) => (
          <span key={index} data-side={side}>
            {side === 'both' ? '  ' : side === 'one' ? '- ' : '+ '}
            {visible(text)}
            {'\n'}
          </span>
        ))}
      </pre>
    </>
  )
}
