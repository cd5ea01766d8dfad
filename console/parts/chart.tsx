import { lazy, Suspense } from 'react'
import { Boundary } from './boundary.tsx'
import { Loading } from './fault.tsx'
import type { TimeChartProps } from './time-chart.tsx'

const Lazy = lazy(() => import('./time-chart.tsx').then(({ TimeChart }) => ({ default: TimeChart })))

/** A chart on a page that is useful before it: its script is loaded with the first one. */
export function Chart(props: TimeChartProps) {
  return (
    <Boundary>
      <Suspense fallback={<Loading height={props.height} />}>
        <Lazy {...props} />
      </Suspense>
    </Boundary>
  )
}

/** A line without axes: the course of a number. Its values are in the page as text. */
export function Spark({ values, color = '--accent' }: { values: readonly number[]; color?: string }) {
  const [width, height] = [96, 28]
  const most = Math.max(...values, 0)
  if (values.length < 2 || most === 0) return <span className="spark" />
  const points = values.map((value, index) => {
    const x = (index / (values.length - 1)) * width
    return `${x.toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`
  })
  return (
    <svg className="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(' ')} fill="none" stroke={`var(${color})`} strokeWidth="1.5" />
    </svg>
  )
}
