import type { ReactNode } from 'react'
import type { Speed, Usage } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { Spark } from '../../parts/chart.tsx'
import { changePercent, chartUsd } from '../../parts/money.ts'
import { Money } from '../../parts/money.tsx'
import { FAILED_PATH } from '../../parts/outcomes.ts'
import { visible } from '../../parts/visible.ts'
import { count, duration, percent } from '../../parts/when.ts'
import { courseOf } from '../usage/measures.ts'
import { byUse } from './speeds.tsx'

/** The most important numbers of the range, each with its course, its change, and a link to what it counts. */
export function Tiles({ usage, before, speed }: { usage: Usage; before?: Usage; speed?: Speed }) {
  const { total } = usage
  const busiest = speed === undefined ? undefined : byUse(speed)[0]
  const spent = before === undefined ? undefined : changePercent(total.cost_usd, before.total.cost_usd)
  const old = before?.total.requests ?? 0
  const more = old === 0 ? undefined : Math.round(((total.requests - old) / old) * 100)
  return (
    <div className="tiles">
      <Tile
        path="/usage?metric=cost"
        name="Spend, USD"
        value={<Money usd={total.cost_usd} as="head" why="Your role does not see list prices." />}
        note={<Change percent={spent} />}
        course={courseOf(usage, ({ cost_usd }) => chartUsd(cost_usd))}
      />
      <Tile
        path="/requests"
        name="Requests"
        value={count(total.requests)}
        note={<Change percent={more} />}
        course={courseOf(usage, ({ requests }) => requests)}
      />
      <Tile
        path={FAILED_PATH}
        name="Failed"
        value={percent(total.failed, total.requests)}
        note={`${count(total.failed)} of ${count(total.requests)}; ${count(total.refused)} refused besides`}
        course={courseOf(usage, ({ failed }) => failed)}
        color="--failed"
      />
      <Tile
        path="/usage?metric=requests&by=provider"
        name="First token, median"
        value={duration(busiest?.total.first_token_ms.p50)}
        note={
          busiest === undefined ? (
            'no streams in this range'
          ) : (
            <>
              {visible(busiest.model)}, p95 <span className="number">{duration(busiest.total.first_token_ms.p95)}</span>
            </>
          )
        }
      />
    </div>
  )
}

type TileProps = {
  path: string
  name: string
  value: ReactNode
  note: ReactNode
  course?: readonly number[]
  color?: string
}

function Tile({ path, name, value, note, course, color }: TileProps) {
  return (
    <To path={path} className="tile">
      <span className="tile-name">{name}</span>
      <span className="tile-value number">{value}</span>
      <span className="tile-note number">{note}</span>
      {course !== undefined && <Spark values={course} {...(color === undefined ? {} : { color })} />}
    </To>
  )
}

function Change({ percent: change }: { percent: number | undefined }) {
  if (change === undefined) return <>none in the period before</>
  if (change === 0) return <>as in the period before</>
  return <>{`${count(Math.abs(change))} % ${change > 0 ? 'more' : 'less'} than before`}</>
}
