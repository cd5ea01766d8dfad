import { useComputedColorScheme } from '@mantine/core'
import { useEffect, useMemo, useRef, useState } from 'react'
import uPlot from 'uplot'
import { bucketAt } from './range.ts'
import { bucketText, type Bucket, type Zone } from './when.ts'

/** `tone`: the name of a CSS variable of a colour, without `--`. */
export type ChartSeries = { label: string; values: readonly (number | null)[]; tone: string }

export type TimeChartProps = {
  /** Its content in words, for those who do not see it. */
  label: string
  /** The beginnings of the buckets, and the end of the last one. */
  starts: readonly number[]
  end: number
  bucket: Bucket
  zone: Zone
  series: readonly ChartSeries[]
  /** Bars are stacked on each other; lines are not, and have gaps where there is no value. */
  kind?: 'bars' | 'lines'
  height: number
  /** In place of bars, where there is no series. */
  empty?: string
  /** A value in the readout; `index`: its bucket. */
  format(value: number, series: number, index: number): string
  formatAxis(value: number): string
  onRange?(from: number, to: number): void
  onBack?(): void
}

const CLICK_MS = 260
const LEAST_DRAG = 6

/** Values over time. Drag selects a range, a click selects a bar, a double click goes back. */
export function TimeChart(props: TimeChartProps) {
  const { label, height, starts, series, empty = 'Nothing in this range' } = props
  const [at, setAt] = useState<number>()
  const host = useChart(props, setAt)
  return (
    <figure className="chart" aria-label={label}>
      <div ref={host} className="chart-area" style={{ height }} aria-hidden="true" />
      <Readout {...props} at={at !== undefined && at < starts.length ? at : undefined} />
      {series.length === 0 && <span className="chart-none">{empty}</span>}
    </figure>
  )
}

/** The meaning of the colours, with the values below the pointer. Every entry has its place, so that nothing moves. */
function Readout({ at, starts, bucket, zone, series, format }: TimeChartProps & { at: number | undefined }) {
  if (series.length === 0) return null
  return (
    <figcaption className="chart-readout">
      <span className="dim number">{at === undefined ? `each ${bucket}` : bucketText(starts[at]!, bucket, zone)}</span>
      {series.map(({ label, tone, values }, index) => (
        <span key={index} className="chart-entry" title={label}>
          <i style={{ background: `var(--${tone})` }} />
          <span className="chart-name">{label}</span>
          {at !== undefined && <b className="number">{format(values[at] ?? 0, index, at)}</b>}
        </span>
      ))}
    </figcaption>
  )
}

function useChart(props: TimeChartProps, setAt: (at: number | undefined) => void) {
  const host = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(undefined)
  const latest = useRef(props)
  latest.current = props
  const scheme = useComputedColorScheme('light')
  const { series, starts, end, height, zone, bucket, kind = 'bars' } = props
  const data = useMemo(
    () => (kind === 'lines' ? sideBySide(starts, series) : stacked(starts, series)),
    [starts, series, kind],
  )
  const tones = series.map(({ tone }) => tone).join()
  useEffect(() => {
    const element = host.current!
    const made = new uPlot(
      optionsOf(element, latest, setAt),
      [[], ...series.map(() => [])] as uPlot.AlignedData,
      element,
    )
    chart.current = made
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    const forget = listenToClicks(made, latest)
    return () => {
      resized.disconnect()
      forget()
      made.destroy()
    }
  }, [tones, scheme, zone, height, bucket, kind])
  useEffect(() => {
    chart.current?.setData(data, true)
  }, [data, end, tones, scheme, zone, height, bucket, kind])
  return host
}

/** The series on top of each other. The highest sum is drawn first, the lower ones over it. */
function stacked(starts: readonly number[], series: readonly ChartSeries[]): uPlot.AlignedData {
  const sums: number[][] = []
  for (const { values } of series) {
    const below = sums.at(-1)
    sums.push(starts.map((_, index) => (values[index] ?? 0) + (below?.[index] ?? 0)))
  }
  return [starts.map((start) => start / 1000), ...sums.reverse()] as uPlot.AlignedData
}

const sideBySide = (starts: readonly number[], series: readonly ChartSeries[]): uPlot.AlignedData =>
  [starts.map((start) => start / 1000), ...series.map(({ values }) => values).toReversed()] as uPlot.AlignedData

type Latest = { readonly current: TimeChartProps }

const colour = (element: HTMLElement, name: string): string =>
  getComputedStyle(element).getPropertyValue(`--${name}`).trim()

function optionsOf(element: HTMLElement, latest: Latest, setAt: (at: number | undefined) => void): uPlot.Options {
  const { height, zone, series, bucket } = latest.current
  const axis: uPlot.Axis = {
    stroke: colour(element, 'mantine-color-dimmed'),
    font: '11px Inter, system-ui, sans-serif',
    grid: { stroke: colour(element, 'line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: element.clientWidth,
    height,
    padding: [6, 14, 0, 0],
    legend: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
    scales: {
      x: { range: () => [(latest.current.starts[0] ?? 0) / 1000, latest.current.end / 1000] },
      y: { range: (_, _least, most) => [0, most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 26,
        space: 70,
        grid: { show: false },
        // A text at the right end would be cut.
        values: ({ bbox }, splits) =>
          splits
            .map((split) => {
              const { starts, end } = latest.current
              const left = ((end - split * 1000) / (end - (starts[0] ?? 0))) * (bbox.width / devicePixelRatio)
              return left < 12 ? '' : axisText(split * 1000, bucket, zone)
            })
            .map((text, index, all) => (text === all[index - 1] ? '' : text)),
      },
      {
        ...axis,
        size: 52,
        space: 34,
        // Lines would run through the text of a chart without values.
        grid: { ...axis.grid, show: series.length > 0 },
        values: (_, splits) => splits.map((split) => (series.length === 0 ? '' : latest.current.formatAxis(split))),
      },
    ],
    series: [{}, ...series.map(({ tone }) => seriesOf(colour(element, tone), latest.current.kind ?? 'bars')).reverse()],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: latest.current.onRange !== undefined, y: false, setScale: false, dist: LEAST_DRAG },
    },
    hooks: {
      setCursor: [(chart) => setAt(indexAt(chart, latest))],
      setSelect: [
        (chart) => {
          const { left, width } = chart.select
          if (width < LEAST_DRAG) return
          const from = chart.posToVal(left, 'x') * 1000
          const to = chart.posToVal(left + width, 'x') * 1000
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          latest.current.onRange?.(from, to)
        },
      ],
    },
  }
}

const seriesOf = (fill: string, kind: 'bars' | 'lines'): uPlot.Series =>
  kind === 'lines'
    ? { stroke: fill, width: 2, spanGaps: true, points: { show: true, size: 5, fill, stroke: fill } }
    : {
        fill,
        width: 0,
        points: { show: false },
        paths: uPlot.paths.bars!({ size: [0.82, 48], align: 1, radius: 0.04 }),
      }

const axisText = (at: number, bucket: Bucket, zone: Zone): string =>
  bucket === 'hour' && bucketText(at, 'minute', zone) !== '00:00'
    ? bucketText(at, 'minute', zone)
    : bucketText(at, bucket === 'hour' ? 'day' : bucket, zone)

function indexAt(chart: uPlot, { current }: Latest): number | undefined {
  const { left = -1 } = chart.cursor
  if (left < 0) return undefined
  const at = bucketAt(current.starts, chart.posToVal(left, 'x') * 1000)
  return at < 0 ? undefined : at
}

/** A click waits a moment, because it may be the first half of a double one. */
function listenToClicks(chart: uPlot, latest: Latest): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let pressedAt = 0
  const onDown = ({ clientX }: MouseEvent): void => {
    pressedAt = clientX
  }
  const onClick = ({ clientX, detail }: MouseEvent): void => {
    clearTimeout(timer)
    const index = indexAt(chart, latest)
    if (detail > 1 || index === undefined || Math.abs(clientX - pressedAt) >= LEAST_DRAG) return
    timer = setTimeout(() => {
      const { starts, end, onRange } = latest.current
      onRange?.(starts[index]!, starts[index + 1] ?? end)
    }, CLICK_MS)
  }
  const onDouble = (): void => {
    clearTimeout(timer)
    latest.current.onBack?.()
  }
  chart.over.addEventListener('mousedown', onDown)
  chart.over.addEventListener('click', onClick)
  chart.over.addEventListener('dblclick', onDouble)
  return () => clearTimeout(timer)
}
